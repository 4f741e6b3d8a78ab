#pragma once

// GGUF files, versions 2 and 3: a strict reader over a mapping. Metadata and tensors are looked up by name; matrices
// may be stored in blocks of codes (block_codes.h). Format: the ggml project's specification of GGUF. The reader trusts
// nothing: counts, lengths, offsets, alignment, shapes and repeated names are checked before anything is allocated for
// them.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/block_codes.h"
#include "base/mapped_file.h"
#include "vestige/status.h"

namespace vestige {

/// One tensor of a file.
struct GgufTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  ///< outermost first, as everywhere here (the file has it the other way round); 1 to 4
  uint64_t offset = 0;         ///< of the first byte, from the start of the file
  uint64_t n_bytes = 0;
};

/// An open file, fully checked. Movable; views live as long as the object (or what it is moved into).
class GgufFile {
 public:
  /// @return NotFound, IoError; DataLoss naming the path and what is wrong; Unsupported for another version or an
  ///         encoding we lack, with the tensor's name.
  static Result<GgufFile> open(const std::string& path);

  bool contains(const std::string& key) const { return values_.contains(key); }
  /// Of all metadata, ascending.
  std::vector<std::string> keys() const;
  /// Metadata by key. @return NotFound; DataLoss if the value is of another kind (integers of any width are integers,
  /// and reals if asked for; a real or a bool is no integer), or a u64 past 2^63.
  Result<int64_t> integer(const std::string& key) const;
  Result<double> real(const std::string& key) const;
  Result<bool> boolean(const std::string& key) const;
  Result<std::string_view> text(const std::string& key) const;
  Result<std::vector<int64_t>> integers(const std::string& key) const;
  Result<std::vector<double>> reals(const std::string& key) const;
  Result<std::vector<std::string_view>> texts(const std::string& key) const;

  const std::vector<GgufTensor>& tensors() const { return tensors_; }  ///< by ascending name
  /// Null if there is none.
  const GgufTensor* find(std::string_view name) const;
  const std::byte* data(const GgufTensor& tensor) const { return file_.bytes().data() + tensor.offset; }
  const MappedFile& file() const { return file_; }

 private:
  /// Where a value lies; an array has the type of its elements and their number.
  struct Value {
    uint32_t type = 0;
    bool is_array = false;
    uint64_t count = 1;
    uint64_t offset = 0;
  };
  class Parser;
  Result<const Value*> value(const std::string& key, bool is_array, std::string_view kind) const;
  Status wrong_kind(const std::string& key, std::string_view kind) const;

  MappedFile file_;
  std::map<std::string, Value> values_;
  std::vector<GgufTensor> tensors_;
};

}  // namespace vestige
