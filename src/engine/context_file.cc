#include <algorithm>
#include <atomic>
#include <thread>

#include "engine/context_format.h"
#include "vestige/engine.h"

namespace vestige {

namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr int64_t kParallelBytes = int64_t{8} << 20;  // below this a second thread costs more than it saves

Result<Digest> digest_range(const MappedFile& file, uint64_t offset, uint64_t n_bytes, std::vector<std::byte>* piece) {
  Hasher hasher;
  piece->resize(kPieceBytes);
  while (n_bytes > 0) {
    const auto part = std::span(*piece).first(static_cast<size_t>(std::min<uint64_t>(n_bytes, kPieceBytes)));
    VESTIGE_TRY(file.read(offset, part));
    hasher.add(part);
    offset += part.size();
    n_bytes -= part.size();
  }
  return hasher.digest();
}

/// Where the data begin: the header is everything before.
uint64_t header_bytes(const std::vector<const SafetensorsEntry*>& order) {
  return order.empty() ? 0 : order.front()->offset;
}

Status check_header(const MappedFile& file, uint64_t n_header) {
  const size_t n_file = file.bytes().size();
  if (n_header == 0 || n_file < n_header + 2 * sizeof(Digest)) return data_loss("no checksums");
  Digest stored;
  std::vector<std::byte> piece;
  VESTIGE_TRY(file.read(n_file - 2 * sizeof(Digest), stored));
  VESTIGE_ASSIGN(const Digest seen, digest_range(file, 0, n_header, &piece));
  return seen == stored ? Status() : data_loss("the header is damaged (its checksum disagrees)");
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
                     const std::vector<Digest>& table) {
  std::vector<Status> status(order.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    std::vector<std::byte> piece;
    for (size_t i = next++; i < order.size(); i = next++) {
      const SafetensorsEntry& t = *order[i];
      const Result<Digest> seen = digest_range(file, t.offset, t.n_bytes, &piece);
      if (!seen.ok()) {
        status[i] = seen.status();
      } else if (*seen != table[i]) {
        status[i] = data_loss("tensor \"%.200s\" is damaged (its checksum disagrees)", t.name.c_str());
      }
    }
  };
  if (static_cast<int64_t>(file.bytes().size()) >= kParallelBytes && std::thread::hardware_concurrency() > 1) {
    std::jthread helper(work);
    work();
  } else {
    work();
  }
  for (const Status& s : status) VESTIGE_TRY(s);
  return {};
}

class CheckedFile final : public ContextFile, public TensorSource {
 public:
  Status open(const std::string& path) {
    VESTIGE_ASSIGN(file_, SafetensorsFile::open(path));
    const Status status = check();
    return status.with_context(path);
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
  Status check() {
    const auto order = checked_tensors(file_.tensors());
    if (file_.entry(kChecksums) == nullptr) return data_loss("not a .vctx file (it has no checksums)");
    VESTIGE_TRY(check_header(file_.file(), header_bytes(order)));
    VESTIGE_ASSIGN(header_, read_metadata(file_.metadata()));
    VESTIGE_ASSIGN(const std::vector<Digest> table, read_table(file_, order.size()));
    VESTIGE_TRY(check_tensors(file_.file(), order, table));
    const Result<ConstTensorView> tokens = get(kTokens, DType::kI32, {header_.n_tokens});
    return tokens.status();
  }

  SafetensorsFile file_;
  ContextHeader header_;
};

}  // namespace

Result<std::shared_ptr<const ContextFile>> ContextFile::open(const std::string& path) {
  auto file = std::make_shared<CheckedFile>();
  VESTIGE_TRY(file->open(path));
  return std::shared_ptr<const ContextFile>(std::move(file));
}

}  // namespace vestige
