#pragma once

// Flags that several subcommands share.

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "vestige/engine.h"

namespace vestige::tools {

struct EngineFlags {
  std::string model_dir;
  int32_t n_threads = 0;
  std::string backend = "cpu";
  bool quiet = false;

  void add(CLI::App& app, bool model_required);
  EngineOptions options() const;
};

struct PolicyFlags {
  std::string name;            ///< empty: the model decides (default_policy)
  std::string ratio;           ///< "32" or "32x"
  std::optional<double> keep;  ///< 1 / ratio
  std::optional<int32_t> block_rows, n_sinks;
  std::optional<uint64_t> seed;
  std::vector<std::string> settings;  ///< "name=value"

  void add(CLI::App& app);
  /// For the subcommand's callback: a usage error if the values do not make a policy, whatever the model.
  void check() const;
  PolicyConfig config(const std::vector<CacheLayer>& layers) const;
  /// "flag" or "model", as in reports.
  const char* chosen_by() const { return name.empty() ? "model" : "flag"; }
  /// One line on stderr if the model decided, once all has gone well: a failure prints its own line alone.
  void print_choice(const PolicyConfig& policy, const std::vector<CacheLayer>& layers, bool quiet) const;

 private:
  /// The values over those of `base`, whose name says whose settings they are.
  PolicyConfig over(PolicyConfig base) const;
  /// Why the values do not make a policy of this name; empty if they do.
  std::string problem(const PolicyConfig& base) const;
};

/// "32" or "32x" as a number; nullopt if it is neither or below 1.
std::optional<double> parse_ratio(const std::string& text);

}  // namespace vestige::tools
