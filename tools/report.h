#pragma once

// Numbers as the user sees them: JSON objects (schemas in docs/cli.md) and lines of text.

#include <nlohmann/json.hpp>
#include <string>

#include "vestige/engine.h"

namespace vestige::tools {

using Json = nlohmann::ordered_json;

/// On stdout, indented, with a newline; bytes that are no UTF-8 become U+FFFD.
void print_json(const Json& value);

/// Settings with choices by name.
Json policy_json(const PolicyConfig& policy);

/// Rows per layer and bytes over all layers, of a context as it stands.
struct RowCounts {
  int64_t n_layers = 0, n_rows = 0, n_kept = 0, n_archived = 0, n_tail = 0;  ///< rows: mean of layers
  int64_t attended_bytes = 0;  ///< kept and tail rows, and codes that stand for rows, all layers
  int64_t full_bytes = 0;      ///< all rows, all layers
};
RowCounts count_rows(const Context& context);
/// What count_rows() would give after n_tokens, without reading them; n_kept is the most it can be, since sinks of a
/// high score count once; so are the bytes of codes that stand for rows (CachePolicy::coded_row_bytes),
/// but for documents so short that the tables of their codes show.
Result<RowCounts> plan_rows(const ModelInfo& info, const PolicyConfig& policy, int64_t n_tokens);
Json rows_json(const RowCounts& rows);
/// The same in two lines on stdout.
void print_rows(const RowCounts& rows, const PolicyConfig& policy);

/// What decoding did. Rows are means over layers and tokens.
Json stats_json(const GenerateResult& result, size_t n_layers);
/// The same in lines, for people.
std::string stats_text(const GenerateResult& result, size_t n_layers);

/// "37.7 MB"
std::string bytes_text(int64_t n_bytes);

}  // namespace vestige::tools
