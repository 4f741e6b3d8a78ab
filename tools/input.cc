#include "tools/input.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tools/interrupt.h"

namespace vestige::tools {

namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

Result<std::string> read_all(int fd, const std::string& name) {
  std::string bytes;
  for (;;) {
    const size_t size = bytes.size();
    bytes.resize(size + kPieceBytes);
    const ssize_t n = read(fd, bytes.data() + size, kPieceBytes);
    const int error = errno;
    bytes.resize(size + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    if (interrupted()) return cancelled("reading was stopped");
    if (n == 0) return bytes;
    if (n < 0 && error == EISDIR) return invalid_argument("%s is a folder, want a document", name.c_str());
    if (n < 0 && error != EINTR) return io_error("%s: cannot read: %s", name.c_str(), std::strerror(error));
  }
}

}  // namespace

Result<std::string> read_input(const std::string& path) {
  if (path == "-") return read_all(STDIN_FILENO, "stdin");
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return not_found("%s: no such file", path.c_str());
  if (fd < 0) return io_error("%s: cannot open: %s", path.c_str(), std::strerror(errno));
  auto bytes = read_all(fd, path);
  close(fd);
  return bytes;
}

Result<std::vector<int32_t>> read_tokens(const Engine& engine, const std::string& bytes, const std::string& name) {
  std::vector<int32_t> tokens;
  VESTIGE_TRY(engine.tokenizer().encode(bytes, &tokens));
  if (tokens.empty()) return invalid_argument("%s is empty, want at least one token", name.c_str());
  const int64_t allowed = engine.model().info().max_tokens;
  if (static_cast<int64_t>(tokens.size()) > allowed) {
    return invalid_argument("%s: %zu tokens are needed, the model's window allows %lld", name.c_str(), tokens.size(),
                            static_cast<long long>(allowed));
  }
  return tokens;
}

Status read_document(Context& context, std::span<const int32_t> tokens, int64_t chunk, const ProgressFn& progress) {
  const size_t n_chunk = chunk > 0 ? static_cast<size_t>(chunk) : tokens.size();
  for (size_t at = 0; at < tokens.size(); at += n_chunk) {
    VESTIGE_TRY(context.read(tokens.subspan(at, std::min(n_chunk, tokens.size() - at)), progress));
  }
  return context.finish_reading(progress);
}

}  // namespace vestige::tools
