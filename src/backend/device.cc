#include "vestige/device.h"

#include <cstdlib>
#include <cstring>

#include "backend/backend.h"
#include "base/thread_pool.h"

namespace vestige {

Stream::Stream() = default;
Stream::~Stream() = default;

Result<std::unique_ptr<Stream>> Stream::create(const StreamOptions& options) {
  const Backend* backend = find_backend(options.backend);
  if (backend == nullptr) {
    std::string known;
    for (std::string_view name : backend_names()) known += (known.empty() ? "" : ", ") + std::string(name);
    return invalid_argument("backend = \"%s\", want one of: %s", options.backend.c_str(), known.c_str());
  }
  if (options.n_threads < 0 || options.n_threads > 1024) {
    return invalid_argument("n_threads = %d, want 0 to 1024 (0 = one per physical core)", options.n_threads);
  }
  auto stream = std::unique_ptr<Stream>(new Stream());
  stream->backend_ = backend;
  const int32_t n = options.n_threads == 0 ? physical_cores() : options.n_threads;
  VESTIGE_ASSIGN(stream->pool_, ThreadPool::create(n, options.pin_threads));
  return stream;
}

DeviceKind Stream::device() const { return backend_->device; }
int32_t Stream::n_threads() const { return pool_->n_threads(); }
Status Stream::synchronize() { return {}; }  // CPU backends finish each op before it returns

void Buffer::Free::operator()(std::byte* p) const { std::free(p); }

Result<Buffer> Buffer::create(size_t n_bytes, DeviceKind device) {
  if (device != DeviceKind::kCpu) return unsupported("Buffer: this build has CPU memory only");
  constexpr size_t kAlign = 64;
  if (n_bytes > SIZE_MAX - kAlign) return out_of_memory("cannot allocate %zu bytes", n_bytes);
  const size_t rounded = (n_bytes + kAlign - 1) / kAlign * kAlign;
  Buffer buffer;
  void* p = std::aligned_alloc(kAlign, rounded == 0 ? kAlign : rounded);
  if (p == nullptr) return out_of_memory("cannot allocate %zu bytes", n_bytes);
  std::memset(p, 0, rounded);
  buffer.data_.reset(static_cast<std::byte*>(p));
  buffer.size_bytes_ = n_bytes;
  buffer.device_ = device;
  return buffer;
}

}  // namespace vestige
