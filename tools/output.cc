#include "tools/output.h"

#include <sys/stat.h>

#include "base/mapped_file.h"

namespace vestige::tools {

namespace {

bool same_file(const std::string& a, const std::string& b) {
  struct stat x {
  }, y{};
  return stat(a.c_str(), &x) == 0 && stat(b.c_str(), &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

}  // namespace

Status probe_output(const std::string& path, std::initializer_list<std::string> inputs, const std::string& model_dir) {
  struct stat info {};
  const bool exists = stat(path.c_str(), &info) == 0;
  if (exists && !S_ISREG(info.st_mode)) return invalid_argument("%s exists and is not a regular file", path.c_str());
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  bool is_input = exists && (same_file(folder, model_dir) || same_file(path, model_dir));
  for (const std::string& input : inputs) is_input = is_input || same_file(path, input);
  if (is_input) {
    return invalid_argument("output %s is the document or a file of the model, name another", path.c_str());
  }
  return AtomicFile::create(path).status();
}

Result<int64_t> file_bytes(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return io_error("%s: vanished after writing", path.c_str());
  return static_cast<int64_t>(info.st_size);
}

}  // namespace vestige::tools
