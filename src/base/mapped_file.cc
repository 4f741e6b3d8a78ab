#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace vestige {

namespace {

Status path_error(const char* what, const std::string& path, int error) {
  if (error == ENOENT && std::string_view(what) == "open") {
    return not_found("%s: no such file or folder", path.c_str());
  }
  return io_error("%s: cannot %s: %s", path.c_str(), what, std::strerror(error));
}

// Files being written, in plain memory so that a signal handler may read the names. A file that finds no free slot is
// written all the same.
struct Slot {
  enum State : int { kFree, kClaimed, kNamed };
  std::atomic<int> state = kFree;
  char path[PATH_MAX] = "";
};
Slot g_slots[16];
static_assert(std::atomic<int>::is_always_lock_free);

int claim_slot(const std::string& path) {
  if (path.size() >= PATH_MAX) return -1;
  for (int i = 0; i < static_cast<int>(std::size(g_slots)); ++i) {
    int expected = Slot::kFree;
    if (!g_slots[i].state.compare_exchange_strong(expected, Slot::kClaimed)) continue;
    std::memcpy(g_slots[i].path, path.c_str(), path.size() + 1);
    g_slots[i].state = Slot::kNamed;
    return i;
  }
  return -1;
}

void free_slot(int slot) {
  if (slot >= 0) g_slots[slot].state = Slot::kFree;
}

/// Eight hex digits that no earlier process with our id, nor another thread, used.
std::string random_suffix() {
  static std::atomic<uint32_t> n_made = 0;
  uint32_t bits = 0;
  if (getrandom(&bits, sizeof bits, GRND_NONBLOCK) != sizeof bits) {
    bits = static_cast<uint32_t>(getpid()) * 2654435761u + n_made++;
  }
  char text[9];
  std::snprintf(text, sizeof text, "%08x", bits);
  return text;
}

}  // namespace

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
  if (fd_ >= 0) close(fd_);
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  MappedFile file;
  file.path_ = path;
  file.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a FIFO without a writer would block
  if (file.fd_ < 0) return path_error("open", path, errno);
  struct stat info {};
  if (fstat(file.fd_, &info) != 0) return path_error("inspect", path, errno);
  if (!S_ISREG(info.st_mode)) return data_loss("%s: not a regular file", path.c_str());
  file.size_ = static_cast<size_t>(info.st_size);
  if (file.size_ == 0) return file;
  void* p = mmap(nullptr, file.size_, PROT_READ, MAP_PRIVATE, file.fd_, 0);
  if (p == MAP_FAILED) return path_error("map", path, errno);
  file.data_ = static_cast<const std::byte*>(p);
  return file;
}

Status MappedFile::read(uint64_t offset, std::span<std::byte> out) const {
  if (offset > size_ || out.size() > size_ - offset) {
    return data_loss("%s: wants bytes %llu to %llu, the file has %zu", path_.c_str(),
                     static_cast<unsigned long long>(offset), static_cast<unsigned long long>(offset + out.size()),
                     size_);
  }
  while (!out.empty()) {
    const ssize_t n = pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return path_error("read", path_, errno);
    if (n == 0) return data_loss("%s: the file became shorter while it was read", path_.c_str());
    out = out.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return {};
}

Result<std::unique_ptr<AtomicFile>> AtomicFile::create(const std::string& path) {
  auto file = std::unique_ptr<AtomicFile>(new AtomicFile());
  if (path.empty()) return invalid_argument("output path is empty");
  file->path_ = path;
  mode_t mode = 0644;
  char resolved[PATH_MAX];
  if (struct stat old{}; realpath(path.c_str(), resolved) != nullptr && stat(resolved, &old) == 0) {
    file->path_ = resolved;  // a link stays a link; the file it names is replaced and keeps its mode
    mode = old.st_mode & 0777;
  }
  constexpr int kTries = 100;  // a name left by a killed process is passed over
  for (int i = 0; i < kTries && file->fd_ < 0; ++i) {
    file->temporary_ = file->path_ + ".tmp" + random_suffix();
    file->fd_ = ::open(file->temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (file->fd_ < 0 && errno != EEXIST) break;
  }
  if (file->fd_ < 0) return path_error("create", path, errno);
  file->slot_ = claim_slot(file->temporary_);
  return file;
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(temporary_.c_str());
  free_slot(slot_);
}

void AtomicFile::unlink_all() {
  for (const Slot& slot : g_slots) {
    if (slot.state == Slot::kNamed) unlink(slot.path);
  }
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return path_error("write", path_, errno);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

Status AtomicFile::commit() {
  if (fsync(fd_) != 0) return path_error("flush", path_, errno);
  const int closed = close(std::exchange(fd_, -1));
  if (closed != 0 || std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    unlink(temporary_.c_str());
    free_slot(std::exchange(slot_, -1));
    return path_error("rename into place", path_, error);
  }
  free_slot(std::exchange(slot_, -1));
  const size_t slash = path_.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
  const int dir = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (dir >= 0) {  // a file system without folder sync still has the renamed file
    fsync(dir);
    close(dir);
  }
  return {};
}

}  // namespace vestige
