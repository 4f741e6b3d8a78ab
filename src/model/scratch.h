#pragma once

// Memory for the intermediate values of one forward pass: a stack that grows in the first pass of a size and
// then serves every later one without an allocation.

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "vestige/device.h"
#include "vestige/tensor.h"

namespace vestige {

class Scratch {
 public:
  /// A dense view of undefined numbers, valid until the frame it was taken in ends.
  Result<TensorView> take(std::initializer_list<int64_t> shape, DType dtype = DType::kF32) {
    TensorView view(nullptr, dtype, shape);
    const size_t wanted = (static_cast<size_t>(view.n_elements()) * dtype_bytes(dtype) + 63) / 64 * 64;
    while (block_ < blocks_.size() && used_ + wanted > blocks_[block_].size_bytes()) {
      ++block_;
      used_ = 0;
    }
    if (block_ == blocks_.size()) {
      VESTIGE_ASSIGN(Buffer block, Buffer::create(std::max(wanted, kMinBlockBytes)));
      blocks_.push_back(std::move(block));
    }
    view.data = blocks_[block_].data() + used_;
    used_ += wanted;
    return view;
  }

  /// Gives all memory back to the system. Outside of any frame only, like compact().
  void clear() { blocks_.clear(); }

  /// Makes one block of the blocks that earlier passes needed, so that a pass finds room without leaving gaps.
  Status compact() {
    if (blocks_.size() < 2) return {};
    size_t total = 0;
    for (const Buffer& block : blocks_) total += block.size_bytes();
    blocks_.clear();
    VESTIGE_ASSIGN(Buffer block, Buffer::create(total));
    blocks_.push_back(std::move(block));
    return {};
  }

  /// Everything taken during a frame's life is free again when it ends.
  class Frame {
   public:
    explicit Frame(Scratch& scratch) : scratch_(scratch), block_(scratch.block_), used_(scratch.used_) {}
    ~Frame() {
      scratch_.block_ = block_;
      scratch_.used_ = used_;
    }
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

   private:
    Scratch& scratch_;
    size_t block_, used_;
  };

 private:
  static constexpr size_t kMinBlockBytes = size_t{1} << 20;
  std::vector<Buffer> blocks_;
  size_t block_ = 0, used_ = 0;  // the next free byte
};

}  // namespace vestige
