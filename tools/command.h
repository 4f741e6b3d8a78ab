#pragma once

// A subcommand: its flags, and what runs once they are parsed.

#include <CLI/CLI.hpp>
#include <functional>

#include "vestige/status.h"

namespace vestige::tools {

struct Command {
  CLI::App* app = nullptr;
  std::function<Status()> run;
};

Command add_compress(CLI::App& root);
Command add_append(CLI::App& root);
Command add_ask(CLI::App& root);
Command add_generate(CLI::App& root);
Command add_inspect(CLI::App& root);
Command add_eval(CLI::App& root);
Command add_completion(CLI::App& root);

}  // namespace vestige::tools
