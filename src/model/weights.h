#pragma once

// The weights of a checkpoint by their hub names: of a folder with model.safetensors, or the shards that
// model.safetensors.index.json names; or of a GGUF file. Memory-mapped; only what an op cannot take as stored is
// copied.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/gguf.h"
#include "base/safetensors.h"
#include "vestige/device.h"
#include "vestige/status.h"
#include "vestige/tensor.h"

namespace vestige {

/// A matrix as stored, maybe in blocks of codes. `scale` is empty unless data are F8_E4M3: then weight = code * scale
/// of its block.
struct Weight {
  ConstTensorView data;
  ConstTensorView scale;  ///< [ceil(n / 128), ceil(k / 128)] f32
};

class Weights {
 public:
  static constexpr int64_t kScaleBlock = 128;  ///< rows and columns that share one F8 scale

  /// @return NotFound naming the file (a missing shard too); DataLoss if the index and the shards disagree.
  static Result<Weights> open(const std::string& dir);
  /// Those of a GGUF file whose names we know.
  static Result<Weights> of(GgufFile file);

  bool contains(const std::string& name) const { return where_.contains(name) || blocks_.contains(name); }
  /// F32, BF16, F16, blocks of codes, or F8_E4M3 with "<name>_scale_inv" beside it. Dimensions of 1 may be stored or
  /// not: [8, 1, 4] is taken for [8, 4]. @return NotFound; DataLoss naming tensor, what it is and what was wanted.
  Result<Weight> get(const std::string& name, const std::vector<int64_t>& shape);
  /// The same for ops that take only F32 and BF16: other dtypes are widened into memory of our own, exactly.
  Result<ConstTensorView> get_wide(const std::string& name, const std::vector<int64_t>& shape);
  /// The same as F32 always.
  Result<ConstTensorView> get_f32(const std::string& name, const std::vector<int64_t>& shape);
  /// Several [n, k] matrices one below the other, as one F32 matrix in memory of our own.
  Result<ConstTensorView> get_stacked(const std::vector<std::string>& names, const std::vector<int64_t>& shape);

  /// Elements and bytes (scales included) of all tensors handed out so far.
  int64_t n_params() const { return n_params_; }
  int64_t n_bytes() const { return n_bytes_; }
  /// SHA-256 hex of the SHA-256 of config.json and of each weight file, in the order of names; of a GGUF file its own.
  Result<std::string> identity() const;

 private:
  Result<Weight> lookup(const std::string& name, const std::vector<int64_t>& shape);
  Result<Weight> lookup_blocks(const GgufTensor& tensor, const std::vector<int64_t>& shape);
  Result<ConstTensorView> widen(const Weight& weight);
  Result<float*> allocate(int64_t n_floats);
  std::string dir_;
  std::deque<SafetensorsFile> files_;                    // in the order of names
  std::map<std::string, const SafetensorsFile*> where_;  // tensor -> file; a deque never moves its elements
  std::optional<GgufFile> gguf_;
  std::map<std::string, const GgufTensor*> blocks_;  // hub name -> tensor of gguf_
  std::deque<Buffer> owned_;
  int64_t n_params_ = 0, n_bytes_ = 0;
};

}  // namespace vestige
