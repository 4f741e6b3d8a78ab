// The vestige binary: reads flags and environment, runs one subcommand, turns its Status into an exit code.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string_view>

#include "tools/command.h"
#include "tools/exit_code.h"
#include "tools/interrupt.h"
#include "vestige/version.h"

extern char** environ;

namespace vestige::tools {

namespace {

/// An unknown VESTIGE_* name is an error: a misspelt one would otherwise do nothing.
bool environment_known() {
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    if (!name.starts_with("VESTIGE_") || name == "VESTIGE_MODEL" || name == "VESTIGE_THREADS") continue;
    print_error("unknown environment variable " + std::string(name) + ", want VESTIGE_MODEL or VESTIGE_THREADS");
    return false;
  }
  return true;
}

bool written() { return std::fflush(stdout) == 0 && std::ferror(stdout) == 0; }

int run_parsed(const std::vector<Command>& commands) {
  for (const Command& command : commands) {
    if (!command.app->parsed()) continue;
    const Status status = command.run();
    if (status.ok() && written()) return kExitOk;
    if (status.ok()) {
      print_error("cannot write to stdout");
      return kExitSystem;
    }
    if (status.code() == StatusCode::kCancelled) {
      std::fprintf(stderr, "vestige: interrupted\n");
    } else {
      print_error(status.message());
    }
    return exit_code(status);
  }
  return kExitUsage;
}

int run(int argc, char** argv) {
  CLI::App app("Vestige: read a long document once, keep it in a file, ask it many times.", "vestige");
  app.set_version_flag("--version", std::string("vestige ") + version());
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  app.footer(std::string("Environment: VESTIGE_MODEL, VESTIGE_THREADS, NO_COLOR. Each command has its own --help.\n") +
             kExitCodeHelp);
  const std::vector<Command> commands = {add_compress(app), add_append(app), add_ask(app),       add_generate(app),
                                         add_inspect(app),  add_eval(app),   add_completion(app)};
  if (!environment_known()) return kExitUsage;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) {
      app.exit(e);
      return written() ? kExitOk : kExitSystem;
    }
    print_error(std::string(e.what()) + " (see vestige --help)");
    return kExitUsage;
  }
  catch_signals();
  return run_parsed(commands);
}

}  // namespace

}  // namespace vestige::tools

int main(int argc, char** argv) {
  try {
    return vestige::tools::run(argc, argv);
  } catch (const std::bad_alloc&) {
    vestige::tools::print_error("out of memory");
  } catch (const std::exception& e) {
    vestige::tools::print_error(e.what());
  }
  return vestige::tools::kExitSystem;
}
