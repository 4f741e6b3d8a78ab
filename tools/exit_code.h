#pragma once

// Exit codes, part of the interface: docs/cli.md.

#include <string>

#include "vestige/status.h"

namespace vestige::tools {

inline constexpr int kExitOk = 0;
inline constexpr int kExitUsage = 1;          ///< wrong flags
inline constexpr int kExitInput = 2;          ///< a wrong, damaged or unfitting file, document or question
inline constexpr int kExitSystem = 3;         ///< the system refused: disk, memory; or our own mistake
inline constexpr int kExitInterrupted = 130;  ///< Ctrl-C, SIGTERM

inline constexpr char kExitCodeHelp[] =
    "Exit codes: 0 done, 1 wrong flags, 2 bad input or file, 3 the system refused (disk, memory), 130 interrupted.";

int exit_code(const Status& status);
/// With control characters as \xNN: strings of files could otherwise move the cursor or recolour a terminal.
std::string printable(const std::string& text);
/// "vestige: error: <message>" on stderr, printable.
void print_error(const std::string& message);

}  // namespace vestige::tools
