#include "tools/open_context.h"

#include <chrono>

#include "tools/interrupt.h"

namespace vestige::tools {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace

Result<OpenContext> open_context(const std::string& path, EngineFlags flags) {
  OpenContext out;
  const auto start = Clock::now();
  VESTIGE_ASSIGN(out.file, ContextFile::open(path, [](int64_t, int64_t) { return !interrupted(); }));
  out.open_s = seconds_since(start);
  const bool hinted = flags.model_dir.empty();
  if (hinted) flags.model_dir = out.file->model_dir();
  if (flags.model_dir.empty()) return invalid_argument("the file names no model folder, give one with -m");
  const auto engine_start = Clock::now();
  auto created = Engine::create(flags.options());
  if (!created.ok()) {
    return hinted ? created.status().with_context("model folder taken from the file, give another with -m")
                  : created.status();
  }
  out.engine = std::move(created).value();
  out.engine_s = seconds_since(engine_start);
  out.model_dir = flags.model_dir;
  if (interrupted()) return cancelled("interrupted");
  return out;
}

}  // namespace vestige::tools
