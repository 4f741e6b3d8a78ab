#pragma once

// Files: a read-only mapping, and a new file that appears whole or not at all.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "vestige/status.h"

namespace vestige {

/// Read-only mapping of a whole regular file. Movable; the bytes live as long as the object.
class MappedFile {
 public:
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  /// @return NotFound, IoError (naming path and reason); DataLoss if it is not a regular file.
  static Result<MappedFile> open(const std::string& path);

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }
  /// Reads [offset, offset + out.size()) with pread, so that no page of the mapping is touched.
  Status read(uint64_t offset, std::span<std::byte> out) const;

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  int fd_ = -1;
  std::string path_;
};

/// A file written beside its final name and renamed into place by commit(), after fsync of file and
/// folder. Without commit() (an error, a cancel, the destructor) nothing stays behind.
class AtomicFile {
 public:
  /// @return IoError naming path and reason, e.g. a missing folder or no permission.
  static Result<std::unique_ptr<AtomicFile>> create(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  Status write(std::span<const std::byte> bytes);
  Status commit();
  /// Name of the file being written: the final one, ".tmp" and eight hex digits.
  const std::string& temporary_path() const { return temporary_; }
  /// Removes what this process is writing just now. For a signal handler that then ends the process: async-signal-safe.
  static void unlink_all();

 private:
  AtomicFile() = default;
  std::string path_, temporary_;
  int fd_ = -1;
  int slot_ = -1;  // in the list that unlink_all() reads
};

}  // namespace vestige
