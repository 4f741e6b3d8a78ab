#pragma once

// Working memory of an op. It belongs to the calling thread and is kept between calls, so that a decode step
// allocates nothing; workers get slices of it by thread number.

#include <cstdint>

#include "vestige/status.h"

namespace vestige::cpu {

/// Two users may hold memory at once: the op itself and the dense product it calls.
enum class ScratchSlot : uint8_t { kOp, kProduct, kCount };

/// At least `n` floats, 64-byte aligned, contents undefined; valid until this thread asks for the slot again.
Result<float*> scratch_floats(ScratchSlot slot, int64_t n);

/// `n` rounded up to a whole number of cache lines, for slices that must not share one.
constexpr int64_t line_floats(int64_t n) { return (n + 15) / 16 * 16; }

}  // namespace vestige::cpu
