#include "tools/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <climits>
#include <cstring>

#include "tools/exit_code.h"

namespace vestige::tools {

namespace {

volatile sig_atomic_t g_interrupted = 0;
char g_temporary[PATH_MAX] = "";  // plain memory, so that the handler may read it

void on_signal(int) {
  if (g_interrupted != 0) {
    if (g_temporary[0] != '\0') unlink(g_temporary);
    _exit(kExitInterrupted);
  }
  g_interrupted = 1;
}

}  // namespace

void catch_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;  // without SA_RESTART, so that a read of stdin ends too
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  action.sa_handler = SIG_IGN;
  sigaction(SIGXFSZ, &action, nullptr);
}

bool interrupted() { return g_interrupted != 0; }

void remove_on_kill(const std::string& path) {
  const std::string name = path.empty() ? "" : path + ".tmp" + std::to_string(getpid());  // as AtomicFile names it
  if (name.size() < sizeof(g_temporary)) std::strcpy(g_temporary, name.c_str());
}

}  // namespace vestige::tools
