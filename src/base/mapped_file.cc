#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
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
  file.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
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
  file->path_ = path;
  file->temporary_ = path + ".tmp" + std::to_string(getpid());
  file->fd_ = ::open(file->temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file->fd_ < 0) return path_error("create", path, errno);
  return file;
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(temporary_.c_str());
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
    return path_error("rename into place", path_, error);
  }
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
