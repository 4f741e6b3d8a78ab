#pragma once

// safetensors files: a strict reader over a mapping, and a writer that streams. Format: 8 bytes little-endian
// header length, a JSON header, then the tensors' bytes without holes.
// The reader trusts nothing: lengths, offsets, shapes and alignment are checked before a view is handed out.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "vestige/status.h"
#include "vestige/tensor.h"

namespace vestige {

/// One tensor of a file, or of a file to be written (then offset is set by the writer).
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  ///< any rank; each >= 0
  uint64_t offset = 0;         ///< of the first byte, from the start of the file
  uint64_t n_bytes = 0;
};

/// An open file, fully checked. Movable; views live as long as the object (or what it is moved into).
class SafetensorsFile {
 public:
  static constexpr uint64_t kMaxHeaderBytes = 100'000'000;

  /// @return NotFound, IoError; DataLoss naming the path and what is wrong; Unsupported for a dtype we lack.
  static Result<SafetensorsFile> open(const std::string& path);
  static Result<SafetensorsFile> parse(MappedFile file);

  /// @return NotFound; Unsupported if the tensor has more than kMaxRank dimensions. A scalar reads as [1].
  Result<ConstTensorView> find(std::string_view name) const;
  /// Null if there is none.
  const SafetensorsEntry* entry(std::string_view name) const;
  ConstTensorView view(const SafetensorsEntry& entry) const;  ///< of an entry with at most kMaxRank dimensions
  const std::vector<SafetensorsEntry>& tensors() const { return tensors_; }  ///< by ascending name
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const MappedFile& file() const { return file_; }

 private:
  MappedFile file_;
  std::vector<SafetensorsEntry> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// Writes tensors in the order declared, each one starting at a multiple of kAlignment: where the format's "no
/// holes" rule leaves a gap, a U8 tensor "__pad.N" fills it. Only the header is held in memory; the file appears
/// under its name with finish(), and not at all without it.
class SafetensorsWriter {
 public:
  static constexpr uint64_t kAlignment = 64;

  /// @return InvalidArgument for a repeated, reserved or non-UTF-8 name or a shape that overflows; IoError.
  static Result<std::unique_ptr<SafetensorsWriter>> create(const std::string& path,
                                                           std::vector<SafetensorsEntry> tensors,
                                                           const std::map<std::string, std::string>& metadata);

  /// The next bytes of `name`, which must be the current tensor or, once that is complete, the next one.
  Status write(std::string_view name, std::span<const std::byte> bytes);
  /// Commits; InvalidArgument if a tensor is not complete.
  Status finish();
  /// The layout, pad tensors included; offsets are final.
  const std::vector<SafetensorsEntry>& tensors() const { return tensors_; }
  const std::string& temporary_path() const { return file_->temporary_path(); }

 private:
  SafetensorsWriter() = default;
  Status skip_finished();
  std::string path_;
  std::unique_ptr<AtomicFile> file_;
  std::vector<SafetensorsEntry> tensors_;
  size_t current_ = 0;      ///< index of the tensor being written
  uint64_t n_written_ = 0;  ///< bytes of it
};

}  // namespace vestige
