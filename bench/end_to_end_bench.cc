// A model from text to answer, against the machine's own limits measured in the same run:
//   end_to_end_bench MODEL_DIR DOCUMENT "QUESTION" [N_THREADS [PART]]      scripts/bench.sh makes the document, calls
//   this
// PART is prefill, decode or file; without it all three run. N_THREADS 0 is one a physical core.
//   prefill of 8k tokens against the BLAS library's sgemm on the same products
//   decode at 1k rows against a plain read of as many bytes as the weights have
//   loading a .vctx and giving the first token against reading the document
//   attention per token under the file's policy against full attention over the same rows

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <span>
#include <utility>

#include "base/json.h"
#include "base/safetensors.h"
#include "base/thread_pool.h"
#include "bench/best_of.h"
#include "bench/threaded_sgemm.h"
#include "vestige/engine.h"
#include "vestige/ops.h"

namespace vestige {
namespace {

struct Product {
  int64_t m, n, k;
  double times = 1;  ///< how often the prefill does it
  double flop() const { return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) * times; }
};

/// Matrix products of a prefill of n_tokens: every weight matrix once a tile, and the causal halves of the attention.
Result<std::vector<Product>> prefill_products(const std::string& model_dir, const ModelInfo& info, int64_t n_tokens) {
  const int64_t tile = Model::kTileTokens;
  const auto n_tiles = static_cast<double>(n_tokens / tile);
  std::vector<Product> products;
  for (const auto& item : std::filesystem::directory_iterator(model_dir)) {
    if (item.path().extension() != ".safetensors") continue;
    VESTIGE_ASSIGN(const SafetensorsFile file, SafetensorsFile::open(item.path()));
    for (const SafetensorsEntry& t : file.tensors()) {
      const bool table = t.name.find("embed") != std::string::npos || t.name.find("lm_head") != std::string::npos;
      if (t.shape.size() == 2 && !table && t.shape[1] >= 16)
        products.push_back({tile, t.shape[0], t.shape[1], n_tiles});
    }
  }
  VESTIGE_ASSIGN(const auto config, read_json(model_dir + "/config.json"));
  const int64_t d_qk = config["qk_nope_head_dim"].get<int64_t>() + config["qk_rope_head_dim"].get<int64_t>();
  const int64_t d_v = config["v_head_dim"].get<int64_t>();
  for (const CacheLayer& layer : info.cache_layers) {
    const double n_squares = layer.h_q * n_tiles * n_tiles / 2;  // tile x tile blocks below the diagonal, all heads
    products.push_back({tile, tile, d_qk, n_squares});
    products.push_back({tile, d_v, tile, n_squares});
  }
  return products;
}

double sgemm_seconds(const Product& p, ThreadPool& pool) {
  std::vector<float> a(static_cast<size_t>(p.m * p.k), 0.5f), b(static_cast<size_t>(p.n * p.k), 0.25f);
  std::vector<float> c(static_cast<size_t>(p.m * p.n));
  return best_of(3, [&] { threaded_sgemm(pool, {p.m, p.n, p.k}, a.data(), b.data(), c.data()); }) * p.times;
}

Result<std::unique_ptr<Context>> read_document(Engine& engine, const PolicyConfig& policy,
                                               std::span<const int32_t> tokens) {
  VESTIGE_ASSIGN(auto context, Context::create(engine, policy));
  VESTIGE_TRY(context->read(tokens, {}));
  VESTIGE_TRY(context->finish_reading({}));
  return context;
}

Status bench_prefill(Engine& engine, std::span<const int32_t> tokens) {
  constexpr int64_t kTokens = 8192;
  if (static_cast<int64_t>(tokens.size()) < kTokens) return invalid_argument("the document has under 8192 tokens");
  VESTIGE_ASSIGN(const auto products, prefill_products(engine.model_dir(), engine.model().info(), kTokens));
  double flop = 0, sgemm_s = 0;
  for (const Product& p : products) {
    flop += p.flop();
    sgemm_s += sgemm_seconds(p, *engine.stream().pool());
  }
  Status status;
  const double ours_s = best_of(2, [&] {
    const auto context = read_document(engine, {}, tokens.first(kTokens));
    if (!context.ok()) status = context.status();
  });
  std::printf(
      "prefill 8k tokens        %8.1f GFLOP/s (%.1f GFLOP in %.3f s), sgemm on the same products %.1f: %.0f%%\n",
      flop / ours_s * 1e-9, flop * 1e-9, ours_s, flop / sgemm_s * 1e-9, 100 * sgemm_s / ours_s);
  return status;
}

/// The weights of a model on disk, mapped a second time: the very pages that the engine reads.
struct WeightFiles {
  static constexpr size_t kPieceBytes = 65536;
  std::vector<SafetensorsFile> files;
  std::vector<std::span<const std::byte>> pieces;   ///< of the plain read, whole 64-byte lines
  std::vector<std::vector<MatmulParams>> products;  ///< one row times every matrix; a list for each layer
  std::vector<float> x, out;
  int64_t n_product_bytes = 0;
};

void cut_pieces(const MappedFile& file, uint64_t offset, int64_t* n_left, std::vector<std::span<const std::byte>>* to) {
  std::span<const std::byte> rest = file.bytes().subspan((offset + 63) / 64 * 64);
  while (rest.size() >= 64 && *n_left > 0) {
    to->push_back(rest.first(std::min(WeightFiles::kPieceBytes, rest.size() / 64 * 64)));
    rest = rest.subspan(to->back().size());
    *n_left -= static_cast<int64_t>(to->back().size());
  }
}

/// The files' first n_bytes of weights for the plain read; every bf16, f16 or f32 matrix for the products.
Result<WeightFiles> open_weights(const std::string& model_dir, int64_t n_bytes) {
  WeightFiles w;
  std::map<std::string, std::vector<MatmulParams>> by_layer;
  for (const auto& item : std::filesystem::directory_iterator(model_dir)) {
    if (item.path().extension() != ".safetensors") continue;
    VESTIGE_ASSIGN(SafetensorsFile file, SafetensorsFile::open(item.path()));
    w.files.push_back(std::move(file));
  }
  for (const SafetensorsFile& file : w.files) {
    uint64_t begin = file.file().bytes().size();
    for (const SafetensorsEntry& t : file.tensors()) {
      begin = std::min(begin, t.offset);
      if (t.shape.size() != 2 || t.name.find("weight") == std::string::npos || t.dtype == DType::kF8E4M3) continue;
      // "model.layers.12.mlp..." counts to layer "model.layers.12."; all else to "".
      const size_t number = t.name.find("layers.");
      const size_t end = number == std::string::npos ? 0 : t.name.find('.', number + 7);
      by_layer[t.name.substr(0, end)].push_back({.x = {}, .w = file.view(t), .out = {}});
      w.x.resize(std::max(w.x.size(), static_cast<size_t>(t.shape[1])), 0.5f);
      w.n_product_bytes += static_cast<int64_t>(t.n_bytes);
    }
    cut_pieces(file.file(), begin, &n_bytes, &w.pieces);
  }
  int64_t n_out = 0;
  for (const auto& [name, list] : by_layer) {
    for (const MatmulParams& p : list) n_out += p.w.dim(0);
  }
  w.out.resize(static_cast<size_t>(n_out));
  float* out = w.out.data();
  for (auto& [name, list] : by_layer) {
    for (MatmulParams& p : list) {
      p.x = {w.x.data(), DType::kF32, {1, p.w.dim(1)}};
      p.out = {out, DType::kF32, {1, p.w.dim(0)}};
      out += p.w.dim(0);
    }
    w.products.push_back(std::move(list));
  }
  return w;
}

/// Every thread of the stream sums 64-bit words, a piece at a time.
void plain_read(const WeightFiles& w, Stream& stream) {
  static std::atomic<uint64_t> sink;
  stream.pool()->run(static_cast<int64_t>(w.pieces.size()), [&](int64_t i, int32_t) {
    const std::span<const std::byte> piece = w.pieces[static_cast<size_t>(i)];
    uint64_t sum[8] = {};
    for (size_t at = 0; at < piece.size(); at += 64) {
      uint64_t words[8];
      std::memcpy(words, piece.data() + at, 64);
      for (size_t lane = 0; lane < 8; ++lane) sum[lane] += words[lane];
    }
    uint64_t total = 0;
    for (const uint64_t s : sum) total += s;
    sink.fetch_add(total, std::memory_order_relaxed);
  });
}

struct Times {
  std::vector<double> seconds;
  template <class F>
  void add(const F& run) {
    const auto start = Clock::now();
    run();
    seconds.push_back(seconds_since(start));
  }
  /// 0.5: the median; 0: the fastest.
  double at(double part) {
    std::sort(seconds.begin(), seconds.end());
    return seconds[static_cast<size_t>(part * static_cast<double>(seconds.size() - 1))];
  }
};

/// A token, the products of its weights alone, and a plain read of them take turns, so that each finds the caches as
/// the others leave them and a busy minute slows all three.
Status bench_decode(Engine& engine, std::span<const int32_t> tokens) {
  VESTIGE_ASSIGN(const auto context, read_document(engine, {}, tokens.first(1024)));
  VESTIGE_ASSIGN(const WeightFiles weights,
                 open_weights(engine.model_dir(), engine.model().info().active_weight_bytes));
  int64_t n_read = 0;
  for (const auto& piece : weights.pieces) n_read += static_cast<int64_t>(piece.size());
  Status status;
  Times token, attention, products, plain;
  for (int i = 0; i < 100; ++i) {
    StepRecord record;
    token.add([&] {  // its logits included
      const int32_t next = tokens[static_cast<size_t>(context->n_tokens())];
      if (Status s = context->feed({&next, 1}, &record); !s.ok()) status = s;
      if (Status s = context->logits().status(); !s.ok()) status = s;
    });
    attention.seconds.push_back(record.attend_us * 1e-6);
    products.add([&] {
      for (const auto& list : weights.products) {
        if (Status s = ops::matmul_list({list}, engine.stream()); !s.ok()) status = s;
      }
    });
    plain.add([&] { plain_read(weights, engine.stream()); });
  }
  const auto gb = static_cast<double>(n_read) * 1e-9;
  for (const auto& [name, part] : {std::pair{"median ", 0.5}, {"fastest", 0.0}}) {
    const double token_s = token.at(part), plain_s = plain.at(part), products_s = products.at(part);
    const double share = static_cast<double>(weights.n_product_bytes) / static_cast<double>(n_read);
    std::printf(
        "decode at 1k rows, %s %6.2f GB/s of weights (%.3f ms a token, attention %.3f), plain read %.2f GB/s: %.0f%%; "
        "products alone %.2f GB/s: %.0f%%\n",
        name, gb / token_s, token_s * 1e3, attention.at(part) * 1e3, gb / plain_s, 100 * plain_s / token_s,
        gb * share / products_s, 100 * plain_s / products_s * share);
  }
  return status;
}

struct Asked {
  double first_s = 0;  ///< from the open file to the first answer token's logits
  GenerateResult result;
};

Result<Asked> ask_once(Engine& engine, const std::shared_ptr<const ContextFile>& file, const std::string& question,
                       const LoadOptions& options) {
  Asked out;
  const auto start = Clock::now();
  VESTIGE_ASSIGN(const auto context, Context::load(engine, file, options));
  std::vector<int32_t> tokens;
  VESTIGE_TRY(engine.tokenizer().encode("\nQuestion: " + question + "\nAnswer:", &tokens));
  VESTIGE_TRY(context->feed(tokens, nullptr));
  VESTIGE_TRY(context->logits().status());
  out.first_s = seconds_since(start);
  GenerateOptions generation;
  generation.stop = {"\n"};
  VESTIGE_ASSIGN(out.result, generate(engine, *context, generation));
  return out;
}

/// The fastest of three: the same tokens each time, other times.
Result<Asked> ask(Engine& engine, const std::shared_ptr<const ContextFile>& file, const std::string& question,
                  const LoadOptions& options) {
  VESTIGE_ASSIGN(Asked best, ask_once(engine, file, question, options));
  for (int i = 1; i < 3; ++i) {
    VESTIGE_ASSIGN(const Asked again, ask_once(engine, file, question, options));
    if (again.result.record.attend_us < best.result.record.attend_us) best = again;
  }
  return best;
}

Status bench_file(Engine& engine, std::span<const int32_t> tokens, const std::string& question) {
  const auto start = Clock::now();
  VESTIGE_ASSIGN(const auto context, read_document(engine, {}, tokens));
  const double read_s = seconds_since(start);
  const std::string path = "/tmp/vestige_bench_" + std::to_string(getpid()) + ".vctx";
  VESTIGE_TRY(context->save(path, {}));
  Status status;
  const double load_s = best_of(5, [&] {
    const auto file = ContextFile::open(path);
    const auto loaded = file.ok() ? Context::load(engine, *file) : file.status();
    if (!loaded.ok() || !(*loaded)->logits().ok()) status = loaded.status();
  });
  VESTIGE_TRY(status);
  VESTIGE_ASSIGN(const auto file, ContextFile::open(path));
  unlink(path.c_str());
  const double n = static_cast<double>(tokens.size());
  std::printf("load and first token     %8.3f s, reading the %.0f tokens %.2f s (%.0f tokens/s): 1/%.0f\n", load_s, n,
              read_s, n / read_s, read_s / load_s);
  VESTIGE_ASSIGN(const Asked ours, ask(engine, file, question, {}));
  PolicyConfig full;
  full.name = "full";
  VESTIGE_ASSIGN(const Asked all, ask(engine, file, question, {.policy = full}));
  std::printf("the same with a question %8.3f s: 1/%.0f\n", ours.first_s + load_s, read_s / (ours.first_s + load_s));
  const auto per_token = [](const Asked& a) {
    return a.result.record.attend_us / static_cast<double>(a.result.tokens.size());
  };
  std::printf("attention a token        %8.0f us under %s (\"%s\"), full %.0f us (\"%s\"): 1/%.1f\n", per_token(ours),
              file->policy().name.c_str(), ours.result.text.c_str(), per_token(all), all.result.text.c_str(),
              per_token(all) / per_token(ours));
  const StepRecord& r = ours.result.record;
  std::printf("                         %lld of %lld bytes read, %lld of %lld layer-steps overflowed\n",
              static_cast<long long>(r.read_bytes), static_cast<long long>(r.full_bytes),
              static_cast<long long>(r.n_overflowed), static_cast<long long>(r.n_steps));
  return {};
}

Status run(int argc, char** argv) {
  if (argc < 4) return invalid_argument("usage: end_to_end_bench MODEL_DIR DOCUMENT QUESTION [N_THREADS [PART]]");
  const std::string part = argc > 5 ? argv[5] : "";
  const auto wanted = [&](const char* name) { return part.empty() || part == name; };
  EngineOptions options;
  options.model_dir = argv[1];
  options.stream.n_threads = argc > 4 ? std::atoi(argv[4]) : 0;
  VESTIGE_ASSIGN(const auto engine, Engine::create(options));
  std::ifstream in(argv[2], std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::vector<int32_t> tokens;
  VESTIGE_TRY(engine->tokenizer().encode(text, &tokens));
  std::printf("model %s, %d threads, document of %zu tokens\n", argv[1], engine->stream().n_threads(), tokens.size());
  if (wanted("prefill")) VESTIGE_TRY(bench_prefill(*engine, tokens));
  if (wanted("decode")) VESTIGE_TRY(bench_decode(*engine, tokens));
  return wanted("file") ? bench_file(*engine, tokens, argv[3]) : Status();
}

}  // namespace
}  // namespace vestige

int main(int argc, char** argv) {
  const vestige::Status status = vestige::run(argc, argv);
  if (!status.ok()) std::fprintf(stderr, "end_to_end_bench: %s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
