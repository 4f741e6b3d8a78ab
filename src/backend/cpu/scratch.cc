#include "backend/cpu/scratch.h"

#include <array>
#include <cstdlib>
#include <memory>

namespace vestige::cpu {

namespace {

struct Free {
  void operator()(float* p) const { std::free(p); }
};
struct Arena {
  std::unique_ptr<float[], Free> data;
  int64_t size = 0;
};

}  // namespace

Result<float*> scratch_floats(ScratchSlot slot, int64_t n) {
  thread_local std::array<Arena, static_cast<size_t>(ScratchSlot::kCount)> arenas;
  Arena& arena = arenas[static_cast<size_t>(slot)];
  if (arena.data == nullptr || arena.size < n) {
    arena.data.reset();
    arena.size = 0;
    const int64_t rounded = line_floats(n < 1 ? 1 : n);
    arena.data.reset(static_cast<float*>(std::aligned_alloc(64, static_cast<size_t>(rounded) * sizeof(float))));
    if (arena.data == nullptr) return out_of_memory("cannot allocate %lld floats", static_cast<long long>(rounded));
    arena.size = rounded;
  }
  return arena.data.get();
}

}  // namespace vestige::cpu
