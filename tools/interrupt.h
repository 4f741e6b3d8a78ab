#pragma once

// Ctrl-C: the first one asks the work to stop, a second one removes the file being written
// and ends the process at once.

namespace vestige::tools {

/// SIGINT and SIGTERM set the flag; a write past a file size limit becomes an error instead of the end.
void catch_signals();
bool interrupted();

}  // namespace vestige::tools
