#pragma once

// Where work runs. A Stream is an ordered queue of one backend; every op takes one. The "ref" and
// "cpu" backends finish an op before it returns; a device backend may only have queued it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "vestige/status.h"
#include "vestige/tensor.h"

namespace vestige {

struct Backend;    // src/backend/backend.h: name, device and op table
class ThreadPool;  // src/base/thread_pool.h

/// How to make a stream.
struct StreamOptions {
  std::string backend = "cpu";  ///< a name from backend_names()
  int32_t n_threads = 0;        ///< CPU threads, >= 1; 0 = one per physical core
  bool pin_threads = true;      ///< bind each worker to a CPU of its own; then there are no more threads than CPUs
};

/// An ordered queue of work. Not thread-safe: one caller at a time. Results of every op are
/// bit-identical for any n_threads.
class Stream {
 public:
  /// @return InvalidArgument if the backend is unknown or n_threads is outside [0, 1024].
  static Result<std::unique_ptr<Stream>> create(const StreamOptions& options = {});
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  const Backend& backend() const { return *backend_; }
  DeviceKind device() const;
  int32_t n_threads() const;
  /// The CPU workers of this stream; never null on CPU backends.
  ThreadPool* pool() const { return pool_.get(); }
  /// Blocks until all queued work is done; returns the first error of that work.
  Status synchronize();

 private:
  Stream();
  const Backend* backend_ = nullptr;
  std::unique_ptr<ThreadPool> pool_;
};

/// Names of the backends of this build, in registry order.
std::vector<std::string_view> backend_names();

/// Owned memory, 64-byte aligned, zero-filled on creation. Movable. Large buffers take memory page by page as they are
/// first written, so that a block of rows that is mostly empty costs little.
class Buffer {
 public:
  Buffer() = default;
  /// @return OutOfMemory with the size asked for.
  static Result<Buffer> create(size_t n_bytes, DeviceKind device = DeviceKind::kCpu);

  std::byte* data() const { return data_.get(); }
  size_t size_bytes() const { return size_bytes_; }
  DeviceKind device() const { return device_; }

 private:
  struct Free {
    Free() : mapped_bytes(0) {}
    explicit Free(size_t bytes) : mapped_bytes(bytes) {}
    size_t mapped_bytes;  // 0 = from the heap
    void operator()(std::byte* p) const;
  };
  std::unique_ptr<std::byte[], Free> data_;
  size_t size_bytes_ = 0;
  DeviceKind device_ = DeviceKind::kCpu;
};

}  // namespace vestige
