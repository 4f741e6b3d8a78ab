#pragma once

// Ctrl-C: the first one asks the work to stop, a second one ends the process at once.

#include <string>

namespace vestige::tools {

/// SIGINT and SIGTERM set the flag; a write past a file size limit becomes an error instead of the end.
void catch_signals();
bool interrupted();
/// While a file is written for `path`: what a second Ctrl-C removes. Empty: nothing.
void remove_on_kill(const std::string& path);

}  // namespace vestige::tools
