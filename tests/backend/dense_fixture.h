#pragma once

// What the tests of the dense ops share: repeatable numbers, stored weights, streams, and comparisons that name
// the first element that is wrong.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/half.h"
#include "hwy/targets.h"
#include "tests/backend/stored_blocks.h"
#include "vestige/ops.h"

namespace vestige::dense_test {

using Floats = std::vector<float>;

/// Uniform in [-1, 1), from a 64-bit mixer so that every platform sees the same numbers.
inline Floats numbers(int64_t n, uint64_t seed, float scale = 1.0f, float shift = 0.0f) {
  Floats x(static_cast<size_t>(n));
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (float& v : x) {
    state += 0x9e3779b97f4a7c15u;
    uint64_t z = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    v = static_cast<float>((z ^ (z >> 31)) >> 40) * 0x1p-23f - 1.0f;
    v = v * scale + shift;
  }
  return x;
}

/// Numbers stored as a checkpoint would: rounded to `dtype` (f8e4m3: random codes, no NaN; blocks: others of that
/// kind).
inline std::vector<std::byte> stored(const Floats& x, DType dtype) {
  if (!dtype_block(dtype).plain()) return random_blocks(dtype, static_cast<int64_t>(x.size()), x.size());
  std::vector<std::byte> bytes(x.size() * dtype_bytes(dtype));
  for (size_t i = 0; i < x.size(); ++i) {
    const uint16_t half = dtype == DType::kBF16 ? f32_to_bf16(x[i]) : f32_to_f16(x[i]);
    auto code = static_cast<uint8_t>(std::lround((x[i] + 1.0f) * 127.0f));
    if ((code & 0x7f) == 0x7f) code = 0x38;
    switch (dtype_bytes(dtype)) {
      case 4:
        std::memcpy(&bytes[i * 4], &x[i], 4);
        break;
      case 2:
        std::memcpy(&bytes[i * 2], &half, 2);
        break;
      default:
        std::memcpy(&bytes[i], &code, 1);
        break;
    }
  }
  return bytes;
}

/// View of f32 rows with a pitch.
inline TensorView rows(Floats& x, int64_t n_rows, int64_t width, int64_t pitch) {
  TensorView view(x.data(), DType::kF32, {n_rows, width});
  view.stride[0] = pitch;
  return view;
}

inline std::unique_ptr<Stream> stream(const char* backend, int32_t n_threads = 1) {
  auto made = Stream::create({.backend = backend, .n_threads = n_threads, .pin_threads = false});
  return made.ok() ? std::move(made).value() : nullptr;
}

inline testing::AssertionResult ok(const Status& status) {
  if (status.ok()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << status_code_name(status.code()) << ": " << status.message();
}

inline testing::AssertionResult refused(const Status& status, const std::string& word) {
  if (status.code() == StatusCode::kInvalidArgument && status.message().find(word) != std::string::npos) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << "want InvalidArgument naming " << word << ", got "
                                     << status_code_name(status.code()) << ": " << status.message();
}

/// Infinities and NaNs in the same places; elsewhere |a - b| <= bound * (|b| + the largest finite |b|).
inline testing::AssertionResult close(const Floats& a, const Floats& b, double bound) {
  if (a.size() != b.size()) return testing::AssertionFailure() << a.size() << " elements, want " << b.size();
  double top = 0;
  for (float v : b) top = std::isfinite(v) ? std::max(top, std::abs(static_cast<double>(v))) : top;
  for (size_t i = 0; i < a.size(); ++i) {
    const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
    const double error = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!same && !(error <= bound * (std::abs(static_cast<double>(b[i])) + top))) {
      return testing::AssertionFailure() << "element " << i << " is " << a[i] << ", want " << b[i] << " within "
                                         << bound << " of " << top;
    }
  }
  return testing::AssertionSuccess();
}

inline testing::AssertionResult same_bits(const Floats& a, const Floats& b) {
  if (a.size() != b.size()) return testing::AssertionFailure() << a.size() << " elements, want " << b.size();
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0) {
      return testing::AssertionFailure() << "bits differ at element " << i << ": " << a[i] << " and " << b[i];
    }
  }
  return testing::AssertionSuccess();
}

/// Runs `body` once for every instruction set of this build that this machine has.
inline void for_each_target(const std::function<void()>& body) {
  for (int64_t target : {int64_t{HWY_AVX3}, int64_t{HWY_AVX2}, int64_t{HWY_SCALAR}}) {
    if ((hwy::SupportedTargets() & target) == 0) continue;
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().DeInit();
    body();
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().DeInit();
  }
}

/// The heart of every op's test: `run` makes its outputs on a stream; cpu agrees with ref on every instruction set,
/// and 1, 2 and 3 threads give the same bits.
inline void check_backends(const std::function<Floats(Stream&)>& run, double bound) {
  const Floats want = run(*stream("ref"));
  for_each_target([&] {
    const Floats one = run(*stream("cpu", 1));
    EXPECT_TRUE(close(one, want, bound));
    EXPECT_TRUE(same_bits(run(*stream("cpu", 2)), one));
    EXPECT_TRUE(same_bits(run(*stream("cpu", 3)), one));
  });
}

}  // namespace vestige::dense_test
