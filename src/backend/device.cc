#include "vestige/device.h"

#include <sys/mman.h>

#include <algorithm>
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

void Buffer::Free::operator()(std::byte* p) const {
  if (mapped_bytes > 0) {
    munmap(p, mapped_bytes);
  } else {
    std::free(p);
  }
}

Result<Buffer> Buffer::create(size_t n_bytes, DeviceKind device) {
  if (device != DeviceKind::kCpu) return unsupported("Buffer: this build has CPU memory only");
  constexpr size_t kAlign = 64, kLarge = size_t{1} << 20;
  if (n_bytes > SIZE_MAX - kAlign) return out_of_memory("cannot allocate %zu bytes", n_bytes);
  const size_t rounded = std::max(kAlign, (n_bytes + kAlign - 1) / kAlign * kAlign);
  const bool large = rounded >= kLarge;
  void* p = large ? mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                  : std::aligned_alloc(kAlign, rounded);
  if (p == nullptr || p == MAP_FAILED) return out_of_memory("cannot allocate %zu bytes", n_bytes);
  if (!large) std::memset(p, 0, rounded);
  Buffer buffer;
  buffer.data_ = {static_cast<std::byte*>(p), Free(large ? rounded : 0)};
  buffer.size_bytes_ = n_bytes;
  buffer.device_ = device;
  return buffer;
}

}  // namespace vestige
