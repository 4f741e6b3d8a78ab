#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <system_error>
#include <thread>

#include "base/guarded.h"
#include "engine/context_format.h"
#include "vestige/engine.h"

namespace vestige {

namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr int64_t kParallelBytes = int64_t{8} << 20;  // below this a second thread costs more than it saves

/// Called with the bytes of each piece; false stops.
using Going = std::function<bool(size_t n_bytes)>;

Result<Digest> digest_range(const MappedFile& file, uint64_t offset, uint64_t n_bytes, std::span<std::byte> piece,
                            const Going& going) {
  Hasher hasher;
  while (n_bytes > 0) {
    const auto part = piece.first(static_cast<size_t>(std::min<uint64_t>(n_bytes, piece.size())));
    VESTIGE_TRY(file.read(offset, part));
    hasher.add(part);
    offset += part.size();
    n_bytes -= part.size();
    if (!going(part.size())) return cancelled("checking was stopped");
  }
  return hasher.digest();
}

/// The header's digest first, then its version; what else it says means something only after that.
Status check_header(const MappedFile& file) {
  const size_t n_file = file.bytes().size();
  uint64_t n_json = 0;
  Digest stored;
  if (n_file < sizeof n_json + sizeof stored * 2) return data_loss("not a .vctx file (%zu bytes)", n_file);
  VESTIGE_TRY(file.read(0, std::as_writable_bytes(std::span(&n_json, 1))));
  if (n_json > SafetensorsFile::kMaxHeaderBytes || n_json > n_file - sizeof n_json - sizeof stored * 2) {
    return data_loss("not a .vctx file, or cut, or damaged in its first 8 bytes");
  }
  std::string header(sizeof n_json + n_json, '\0');
  VESTIGE_TRY(file.read(0, std::as_writable_bytes(std::span(header.data(), header.size()))));
  VESTIGE_TRY(file.read(n_file - 2 * sizeof stored, stored));
  const std::string_view text = std::string_view(header).substr(sizeof n_json);
  if (digest_of(std::as_bytes(std::span(header.data(), header.size()))) == stored) return check_version(text);
  return text.find(kContextFormat) == std::string_view::npos
             ? data_loss("not a .vctx file (it has no checksums)")
             : data_loss("cut, or its header is damaged (the checksum of the header disagrees)");
}

Result<std::vector<Digest>> read_table(const SafetensorsFile& file, size_t n_tensors) {
  const SafetensorsEntry* t = file.entry(kChecksums);
  const uint64_t n_file = file.file().bytes().size();
  const auto n_bytes = static_cast<uint64_t>(checksum_bytes(n_tensors));
  if (t == nullptr || t->dtype != DType::kU8 || t->n_bytes != n_bytes || t->offset + n_bytes != n_file) {
    return data_loss("the checksum table is missing or not the last tensor");
  }
  std::vector<Digest> table(n_tensors + 2);
  const auto bytes = std::as_writable_bytes(std::span(table));
  VESTIGE_TRY(file.file().read(t->offset, bytes));
  if (digest_of(bytes.first(bytes.size() - sizeof(Digest))) != table.back()) {
    return data_loss("the checksum table is damaged");
  }
  return table;
}

/// Checks every tensor, on two threads if the file is large.
Status check_tensors(const MappedFile& file, const std::vector<const SafetensorsEntry*>& order,
                     const std::vector<Digest>& table, const ProgressFn& progress) {
  std::vector<Status> status(order.size());
  std::vector<std::byte> pieces(2 * kPieceBytes);
  std::atomic<size_t> next = 0;
  std::atomic<int64_t> n_done = 0;
  std::atomic<bool> stopped = false;
  const auto read_some = [&](std::span<std::byte> piece, bool asks) -> Status {
    const Going going = [&](size_t n) {
      n_done += static_cast<int64_t>(n);
      if (asks && progress && !progress(n_done, static_cast<int64_t>(file.bytes().size()))) stopped = true;
      return !stopped;
    };
    for (size_t i = next++; i < order.size(); i = next++) {
      const SafetensorsEntry& t = *order[i];
      const Result<Digest> seen = digest_range(file, t.offset, t.n_bytes, piece, going);
      if (!seen.ok()) {
        status[i] = seen.status();
      } else if (*seen != table[i]) {
        status[i] = data_loss("tensor \"%.200s\" is damaged (its checksum disagrees)", t.name.c_str());
      }
    }
    return {};
  };
  const auto work = [&](size_t half) {
    return guarded([&] { return read_some(std::span(pieces).subspan(half * kPieceBytes, kPieceBytes), half == 0); });
  };
  Status helped;
  if (static_cast<int64_t>(file.bytes().size()) >= kParallelBytes && std::thread::hardware_concurrency() > 1) {
    std::optional<std::jthread> helper;
    try {
      helper.emplace([&] { helped = work(1); });
    } catch (const std::system_error&) {
      // No second thread to be had: this one reads everything.
    }
    VESTIGE_TRY(work(0));
  } else {
    VESTIGE_TRY(work(0));
  }
  VESTIGE_TRY(helped);
  for (const Status& s : status) VESTIGE_TRY(s);
  return {};
}

class CheckedFile final : public ContextFile, public TensorSource {
 public:
  Status open(const std::string& path, const ProgressFn& progress) {
    VESTIGE_ASSIGN(MappedFile file, MappedFile::open(path));
    const Status header = check_header(file);
    if (!header.ok()) return header.with_context(path);
    VESTIGE_ASSIGN(file_, SafetensorsFile::parse(std::move(file)));
    return check(progress).with_context(path);
  }

  const std::string& path() const override { return file_.file().path(); }
  int64_t size_bytes() const override { return static_cast<int64_t>(file_.file().bytes().size()); }
  int64_t n_tokens() const override { return header_.n_tokens; }
  const PolicyConfig& policy() const override { return header_.policy; }
  const std::string& model_identity() const override { return header_.model_identity; }
  const std::string& model_dir() const override { return header_.model_dir; }
  const std::string& tokenizer_identity() const override { return header_.tokenizer; }
  const std::string& vestige_version() const override { return header_.vestige_version; }
  const std::vector<CacheLayer>& cache_layers() const override { return header_.cache_layers; }
  const TensorSource& tensors() const override { return *this; }

  Result<ConstTensorView> get(const std::string& name, DType dtype, std::vector<int64_t> shape) const override {
    VESTIGE_ASSIGN(const ConstTensorView view, file_.find(name));
    bool as_wanted = view.dtype == dtype && view.rank == static_cast<int>(shape.size());
    for (size_t i = 0; as_wanted && i < shape.size(); ++i) {
      as_wanted = shape[i] < 0 || shape[i] == view.dim(static_cast<int>(i));
    }
    if (as_wanted) return view;
    std::string wanted;
    for (int64_t n : shape) wanted += (wanted.empty() ? "" : ", ") + (n < 0 ? std::string("any") : std::to_string(n));
    return data_loss("%s: tensor \"%s\" is %s, want [%s] %s", path().c_str(), name.c_str(), describe(view).c_str(),
                     wanted.c_str(), dtype_name(dtype));
  }

 private:
  Status check(const ProgressFn& progress) {
    const auto order = checked_tensors(file_.tensors());
    VESTIGE_ASSIGN(header_, read_metadata(file_.metadata()));
    VESTIGE_ASSIGN(const std::vector<Digest> table, read_table(file_, order.size()));
    VESTIGE_TRY(check_tensors(file_.file(), order, table, progress));
    const Result<ConstTensorView> tokens = get(kTokens, DType::kI32, {header_.n_tokens});
    return tokens.status();
  }

  SafetensorsFile file_;
  ContextHeader header_;
};

}  // namespace

Result<std::shared_ptr<const ContextFile>> ContextFile::open(const std::string& path, const ProgressFn& progress) {
  return guarded([&]() -> Result<std::shared_ptr<const ContextFile>> {
    auto file = std::make_shared<CheckedFile>();
    VESTIGE_TRY(file->open(path, progress));
    return std::shared_ptr<const ContextFile>(std::move(file));
  });
}

}  // namespace vestige
