// How many pages of rows a sound bound spares, and what observing costs, on the rows and queries of a model:
//   pages_bench MODEL_DIR TEXT [LENGTH] [QUESTION] [N_THREADS]
// LENGTH tokens of TEXT are read and closed (a multiple of 4,096); the QUESTION, or else the next 64 tokens of TEXT,
// follow as the open tail, and their queries are the ones that scan. A page with archived rows counts as pruned
// for a query if no head's bound passes the head's threshold, as a scan that fetches for all heads at once needs it.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <set>

#include "bench/best_of.h"
#include "vestige/engine.h"

namespace vestige {
namespace {

struct Layer {
  std::unique_ptr<LayerCache> cache;
  std::vector<float> queries;  // absorbed, of the tail: [n_tail, h, d_row]
};

struct Document {
  std::vector<Layer> layers;
  int64_t n_closed = 0, n_tail = 0;
};

Result<Document> read(Engine& engine, const std::vector<int32_t>& tokens, int64_t n_closed, const char* policy) {
  Document doc;
  doc.n_closed = n_closed;
  doc.n_tail = static_cast<int64_t>(tokens.size()) - n_closed;
  PolicyConfig config;
  config.name = policy;
  std::vector<LayerCache*> caches;
  for (const CacheLayer& l : engine.model().info().cache_layers) {
    VESTIGE_ASSIGN(auto shared, create_policy(config, l.layout));
    VESTIGE_ASSIGN(auto cache, LayerCache::create(l.layout, l.h_q, l.scale, std::move(shared)));
    caches.push_back(cache.get());
    doc.layers.push_back({std::move(cache), {}});
  }
  VESTIGE_ASSIGN(const auto state, engine.model().create_state());
  std::vector<float> hidden(static_cast<size_t>(engine.model().info().d_model));
  Status tapped;
  for (int64_t at = 0; at < static_cast<int64_t>(tokens.size());) {
    const int64_t n = std::min(Model::kTileTokens, (at < n_closed ? n_closed : n_closed + doc.n_tail) - at);
    ForwardParams p;
    p.tokens = std::span<const int32_t>(tokens).subspan(static_cast<size_t>(at), static_cast<size_t>(n));
    p.position = at;
    p.state = state.get();
    p.caches = caches;
    p.prefill = true;
    p.last_hidden = {hidden.data(), DType::kF32, {static_cast<int64_t>(hidden.size())}};
    if (at == n_closed) {
      p.query_tap = [&](size_t i, const ConstTensorView& q) {
        const LayerCache& c = *doc.layers[i].cache;
        doc.layers[i].queries.resize(static_cast<size_t>(n * c.h_q() * c.layout().d_row()));
        const TensorView out(doc.layers[i].queries.data(), DType::kF32, {n, c.h_q(), c.layout().d_row()});
        if (tapped.ok()) tapped = engine.model().absorb(i, q, out, engine.stream());
      };
    }
    VESTIGE_TRY(engine.model().forward(p, engine.stream()));
    at += n;
  }
  VESTIGE_TRY(tapped);
  return doc;
}

/// Digests of all closed rows as one block a cache block.
struct Digests {
  std::vector<Buffer> owned;
  std::vector<const void*> upper, lower, radius;
  PageSet set;
};

Result<Digests> digest(const LayerCache& cache, int64_t page_rows, PageDigest kind, Stream& stream) {
  Digests out;
  RowPages rows = cache.pages();
  rows.n_rows = cache.n_closed();
  const int64_t n = rows.page_rows / page_rows, d = rows.layout.d_row();
  const bool box = kind == PageDigest::kBox;
  for (int64_t first = 0; first < rows.n_rows; first += rows.page_rows) {
    for (auto* table : {&out.upper, &out.lower, &out.radius}) {
      VESTIGE_ASSIGN(Buffer memory, Buffer::create(static_cast<size_t>(n * rows.layout.row_bytes())));
      table->push_back(memory.data());
      out.owned.push_back(std::move(memory));
    }
    const auto view = [&](const void* p) { return TensorView(const_cast<void*>(p), rows.layout.dtype, {n, d}); };
    VESTIGE_TRY(ops::digest_pages({.rows = rows,
                                   .page_rows = page_rows,
                                   .first_row = first,
                                   .upper = view(out.upper.back()),
                                   .lower = box ? view(out.lower.back()) : TensorView(),
                                   .radius = {const_cast<void*>(out.radius.back()), DType::kF32, {n}},
                                   .digest = kind},
                                  stream));
  }
  out.set.upper = out.upper.data();
  out.set.lower = box ? out.lower.data() : nullptr;
  out.set.radius = out.radius.data();
  out.set.block_pages = n;
  out.set.page_rows = page_rows;
  out.set.n_pages = rows.n_rows / page_rows;
  out.set.dtype = rows.layout.dtype;
  return out;
}

struct Scan {
  std::vector<int32_t> ids;
  int32_t n_ids = 0, n_fired = 0, n_pages = 0;
};

Status scan(const LayerCache& cache, const PageSet& set, const float* q, const float* threshold, Scan* out,
            Stream& stream) {
  const int64_t h = cache.h_q();
  out->ids.resize(static_cast<size_t>(cache.n_closed()));
  return ops::scan_pages({.q = {q, DType::kF32, {1, h, cache.layout().d_row()}},
                          .sets = {&set, 1},
                          .threshold = {threshold, DType::kF32, {1, h}},
                          .ids = {out->ids.data(), DType::kI32, {1, cache.n_closed()}},
                          .n_ids = {&out->n_ids, DType::kI32, {1}},
                          .n_fired = {&out->n_fired, DType::kI32, {1}},
                          .n_pages = {&out->n_pages, DType::kI32, {1}},
                          .scale = cache.scale()},
                         stream);
}

/// Best score of the kept rows, and log-sum-exp minus 2 over kept rows and the tail up to the query, by head.
Status thresholds(const LayerCache& cache, const float* q, int64_t n_tail, std::vector<float>* kept_max,
                  std::vector<float>* lse, Stream& stream) {
  const int64_t h = cache.h_q();
  std::vector<int32_t> ids = cache.kept_ids();
  const auto n_kept = static_cast<int32_t>(ids.size());
  for (int64_t i = 0; i < n_tail; ++i) ids.push_back(static_cast<int32_t>(cache.n_closed() + i));
  const auto n_all = static_cast<int32_t>(ids.size());
  std::vector<float> out(static_cast<size_t>(h * cache.layout().d_content)), unused(static_cast<size_t>(h));
  kept_max->resize(static_cast<size_t>(h));
  lse->resize(static_cast<size_t>(h));
  for (const bool tail : {false, true}) {
    const RowSet set = {.pages = cache.pages(), .ids = ids.data(), .n_rows = tail ? &n_all : &n_kept};
    VESTIGE_TRY(ops::attend_rows({.q = {q, DType::kF32, {1, h, cache.layout().d_row()}},
                                  .rows = {&set, 1},
                                  .out = {out.data(), DType::kF32, {1, h, cache.layout().d_content}},
                                  .lse = {lse->data(), DType::kF32, {1, h}},
                                  .max = {tail ? unused.data() : kept_max->data(), DType::kF32, {1, h}},
                                  .scale = cache.scale()},
                                 stream));
  }
  for (float& x : *lse) x -= 2;
  return {};
}

Status measure(const Document& doc, int64_t page_rows, Stream& stream) {
  for (size_t i = 0; i < doc.layers.size(); ++i) {
    const LayerCache& cache = *doc.layers[i].cache;
    VESTIGE_ASSIGN(const Digests boxes, digest(cache, page_rows, PageDigest::kBox, stream));
    VESTIGE_ASSIGN(const Digests spheres, digest(cache, page_rows, PageDigest::kSphere, stream));
    VESTIGE_ASSIGN(const Digests points, digest(cache, 1, PageDigest::kBox, stream));  // the rows themselves
    std::vector<uint8_t> kept(static_cast<size_t>(cache.n_closed()), 0);
    for (int32_t id : cache.kept_ids()) kept[static_cast<size_t>(id)] = 1;
    double pruned[2][3] = {}, rows[2] = {};
    // Pages with a row to recall; the others need no bound.
    int64_t n_open = 0;
    for (int64_t first = 0; first < cache.n_closed(); first += page_rows) {
      n_open += std::count(kept.begin() + first, kept.begin() + first + page_rows, 0) > 0 ? 1 : 0;
    }
    for (int64_t t = 0; t < doc.n_tail; ++t) {
      const float* q = doc.layers[i].queries.data() + t * cache.h_q() * cache.layout().d_row();
      std::vector<float> limit[2];
      VESTIGE_TRY(thresholds(cache, q, t + 1, &limit[0], &limit[1], stream));
      for (int rule = 0; rule < 2; ++rule) {
        int which = 0;
        for (const Digests* digests : {&boxes, &spheres, &points}) {
          PageSet set = digests->set;
          set.kept = kept.data();
          Scan found;
          VESTIGE_TRY(scan(cache, set, q, limit[rule].data(), &found, stream));
          int64_t n_pages = found.n_pages;
          if (which == 2) {
            std::set<int32_t> pages;
            for (int32_t j = 0; j < found.n_ids; ++j)
              pages.insert(found.ids[static_cast<size_t>(j)] / static_cast<int32_t>(page_rows));
            n_pages = static_cast<int64_t>(pages.size());
            rows[rule] += static_cast<double>(found.n_fired);
          }
          pruned[rule][which++] += 1 - static_cast<double>(n_pages) / static_cast<double>(n_open);
        }
      }
    }
    const auto n = static_cast<double>(doc.n_tail);
    for (int rule = 0; rule < 2; ++rule) {
      std::printf(
          "  layer %zu, pages of %3lld, over %-16s pruned by boxes %.4f, spheres %.4f; by the true page maximum %.4f "
          "(%.1f rows pass)\n",
          i, static_cast<long long>(page_rows), rule == 0 ? "kept_max:" : "attended lse - 2:", pruned[rule][0] / n,
          pruned[rule][1] / n, pruned[rule][2] / n, rows[rule] / n);
    }
  }
  return {};
}

/// Time of attend_mass and score_moments over the rows of one layer, with as many queries as rows (copies of the
/// tail's).
Status time_ops(const Document& doc, Stream& stream) {
  const Layer& layer = doc.layers[0];
  const LayerCache& cache = *layer.cache;
  const int64_t n = doc.n_closed, h = cache.h_q(), d = cache.layout().d_row();
  std::vector<float> q(static_cast<size_t>(n * h * d));
  for (size_t i = 0; i < q.size(); ++i) q[i] = layer.queries[i % layer.queries.size()];
  RowPages rows = cache.pages();
  rows.n_rows = n;
  std::vector<int64_t> mass(static_cast<size_t>(n));
  Status status;
  const std::clock_t before = std::clock();
  const double attend = best_of(1, [&] {
    status = ops::attend_mass({.q = {q.data(), DType::kF32, {n, h, d}},
                               .rows = rows,
                               .mass = {mass.data(), DType::kI64, {n}},
                               .scale = cache.scale()},
                              stream);
  });
  VESTIGE_TRY(status);
  const double cpu = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  std::vector<float> moments(static_cast<size_t>(2 * h * n));
  const double moment = best_of(1, [&] {
    status = ops::score_moments({.q = {q.data(), DType::kF32, {1024, h, d}},
                                 .rows = rows,
                                 .mean = {moments.data(), DType::kF32, {h, n}},
                                 .variance = {moments.data() + h * n, DType::kF32, {h, n}},
                                 .scale = cache.scale()},
                                stream);
  });
  VESTIGE_TRY(status);
  const double flops = static_cast<double>(n) * static_cast<double>(n + 1) * static_cast<double>(h * d);
  std::printf(
      "  attend_mass, %lld queries x %lld heads x %lld rows: %.2f s (%.0f GFLOP/s; %.2f s of CPU time); score_moments, "
      "1024 queries: %.2f "
      "s\n",
      static_cast<long long>(n), static_cast<long long>(h), static_cast<long long>(n), attend, flops / attend / 1e9,
      cpu, moment);
  return {};
}

Status run(int argc, char** argv) {
  if (argc < 3) return invalid_argument("usage: pages_bench MODEL_DIR TEXT [LENGTH] [QUESTION] [N_THREADS]");
  const int64_t length = argc > 3 ? std::atoll(argv[3]) : 8192;
  const std::string question = argc > 4 ? argv[4] : "";
  EngineOptions options;
  options.model_dir = argv[1];
  options.stream.n_threads = argc > 5 ? std::atoi(argv[5]) : 0;
  VESTIGE_ASSIGN(const auto engine, Engine::create(options));
  std::ifstream in(argv[2], std::ios::binary);
  std::vector<int32_t> tokens, tail;
  VESTIGE_TRY(engine->tokenizer().encode(std::string{std::istreambuf_iterator<char>(in), {}}, &tokens));
  if (!question.empty()) VESTIGE_TRY(engine->tokenizer().encode(question, &tail));
  const int64_t n_tail = question.empty() ? 64 : static_cast<int64_t>(tail.size());
  if (static_cast<int64_t>(tokens.size()) < length + 64 || length % 4096 != 0) {
    return invalid_argument("the text has %zu tokens, LENGTH = %lld: want a multiple of 4096 and 64 tokens more",
                            tokens.size(), static_cast<long long>(length));
  }
  tokens.resize(static_cast<size_t>(length + (question.empty() ? 64 : 0)));
  tokens.insert(tokens.end(), tail.begin(), tail.end());
  for (const char* policy : {"streaming", "vestige"}) {
    VESTIGE_ASSIGN(const Document doc, read(*engine, tokens, length, policy));
    std::printf("%lld rows closed, kept 1/32 by %s, %lld queries of %s\n", static_cast<long long>(length), policy,
                static_cast<long long>(n_tail), question.empty() ? "the text that follows" : "a question");
    for (const int64_t page_rows : {2, 4, 8, 32, 64}) VESTIGE_TRY(measure(doc, page_rows, engine->stream()));
    if (policy == std::string("streaming") && length <= 8192) VESTIGE_TRY(time_ops(doc, engine->stream()));
  }
  return {};
}

}  // namespace
}  // namespace vestige

int main(int argc, char** argv) {
  const vestige::Status status = vestige::run(argc, argv);
  if (!status.ok()) std::fprintf(stderr, "pages_bench: %s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
