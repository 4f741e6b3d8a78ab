#include "engine/context_writer.h"

#include <algorithm>
#include <map>

#include "base/mapped_file.h"

namespace vestige {

namespace {

constexpr size_t kPieceBytes = size_t{4} << 20;  // between two looks at the progress function

std::vector<int64_t> shape_of(const ConstTensorView& value) {
  return {value.shape.begin(), value.shape.begin() + value.rank};
}

/// First pass: what there is.
class PlanSink final : public TensorSink {
 public:
  Status put(const std::string& name, const ConstTensorView& value) override { return put_rows(name, {&value, 1}); }
  Status put_rows(const std::string& name, std::span<const ConstTensorView> parts) override {
    if (parts.empty()) return internal_error("tensor \"%s\" has no parts", name.c_str());
    SafetensorsEntry entry;
    entry.name = name;
    entry.dtype = parts[0].dtype;
    entry.shape = shape_of(parts[0]);
    for (const ConstTensorView& part : parts.subspan(1)) entry.shape[0] += part.dim(0);
    entries.push_back(std::move(entry));
    return {};
  }
  std::vector<SafetensorsEntry> entries;
};

/// Second pass: the bytes, and a digest of each tensor.
class WriteSink final : public TensorSink {
 public:
  WriteSink(SafetensorsWriter& writer, const ProgressFn& progress) : writer_(writer), progress_(progress) {
    for (const SafetensorsEntry& t : writer.tensors()) n_total_ += static_cast<int64_t>(t.n_bytes);
  }

  Status put(const std::string& name, const ConstTensorView& value) override { return put_rows(name, {&value, 1}); }
  Status put_rows(const std::string& name, std::span<const ConstTensorView> parts) override {
    Hasher hasher;
    for (const ConstTensorView& part : parts) {
      if (!part.contiguous()) return internal_error("tensor \"%s\" is not dense", name.c_str());
      const auto n_bytes = static_cast<size_t>(part.n_elements()) * dtype_bytes(part.dtype);
      std::span<const std::byte> left(static_cast<const std::byte*>(part.data), n_bytes);
      while (!left.empty()) {
        const auto piece = left.first(std::min(left.size(), kPieceBytes));
        hasher.add(piece);
        VESTIGE_TRY(writer_.write(name, piece));
        left = left.subspan(piece.size());
        n_done_ += static_cast<int64_t>(piece.size());
        if (progress_ && !progress_(n_done_, n_total_)) return cancelled("writing was stopped");
      }
    }
    digests[name] = hasher.digest();
    return {};
  }
  std::map<std::string, Digest> digests;

 private:
  SafetensorsWriter& writer_;
  const ProgressFn& progress_;
  int64_t n_done_ = 0, n_total_ = 0;
};

/// The header as it stands in the unfinished file.
Result<Digest> header_digest(const SafetensorsWriter& writer) {
  VESTIGE_ASSIGN(const MappedFile file, MappedFile::open(writer.temporary_path()));
  std::vector<std::byte> header(writer.tensors().front().offset);
  VESTIGE_TRY(file.read(0, header));
  return digest_of(header);
}

/// Pads between tensors are zeros that the writer adds itself.
Result<std::vector<Digest>> checksum_table(const SafetensorsWriter& writer, const Digest& header,
                                           const std::map<std::string, Digest>& digests) {
  std::vector<Digest> table;
  for (const SafetensorsEntry* t : checked_tensors(writer.tensors())) {
    const auto at = digests.find(t->name);
    const std::vector<std::byte> zeros(at == digests.end() ? t->n_bytes : 0);
    table.push_back(at == digests.end() ? digest_of(zeros) : at->second);
  }
  table.push_back(header);
  table.push_back(digest_of(std::as_bytes(std::span(table))));
  return table;
}

/// The writer puts a pad before a tensor that does not begin at a multiple of the alignment, the table included.
size_t pads_before(const std::vector<SafetensorsEntry>& entries) {
  size_t n = 0;
  for (const SafetensorsEntry& t : entries) {
    uint64_t n_bytes = dtype_bytes(t.dtype);
    for (int64_t dim : t.shape) n_bytes *= static_cast<uint64_t>(dim);
    if (n_bytes % SafetensorsWriter::kAlignment != 0) ++n;
  }
  return n;
}

}  // namespace

Status write_context(const std::string& path, const ContextHeader& header, const SaveParts& save,
                     const ProgressFn& progress) {
  PlanSink plan;
  VESTIGE_TRY(save(plan));
  const size_t n_checked = plan.entries.size() + pads_before(plan.entries);
  plan.entries.push_back({kChecksums, DType::kU8, {checksum_bytes(n_checked)}});
  VESTIGE_ASSIGN(const auto writer, SafetensorsWriter::create(path, std::move(plan.entries), write_metadata(header)));
  if (writer->tensors().size() != n_checked + 1) return internal_error("the writer padded otherwise than foreseen");
  VESTIGE_ASSIGN(const Digest head, header_digest(*writer));
  WriteSink sink(*writer, progress);
  VESTIGE_TRY(save(sink));
  VESTIGE_ASSIGN(const std::vector<Digest> table, checksum_table(*writer, head, sink.digests));
  VESTIGE_TRY(writer->write(kChecksums, std::as_bytes(std::span(table))));
  return writer->finish();
}

}  // namespace vestige
