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
  std::string name = "vestige";
  std::string ratio;           ///< "32" or "32x"
  std::optional<double> keep;  ///< 1 / ratio
  std::optional<int32_t> block_rows, n_sinks;
  std::optional<uint64_t> seed;
  std::vector<std::string> settings;  ///< "name=value"

  void add(CLI::App& app);
  /// For the subcommand's callback: a usage error if the values do not make a policy.
  void check() const;
  PolicyConfig config() const;
};

/// "32" or "32x" as a number; nullopt if it is neither or below 1.
std::optional<double> parse_ratio(const std::string& text);

}  // namespace vestige::tools
