#include "tools/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include "base/mapped_file.h"
#include "tools/exit_code.h"

namespace vestige::tools {

namespace {

volatile sig_atomic_t g_interrupted = 0;

void on_signal(int) {
  if (g_interrupted != 0) {
    AtomicFile::unlink_all();
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
  sigaction(SIGHUP, &action, nullptr);
  action.sa_handler = SIG_IGN;
  sigaction(SIGXFSZ, &action, nullptr);
}

bool interrupted() { return g_interrupted != 0; }

}  // namespace vestige::tools
