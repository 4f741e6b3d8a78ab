#pragma once

// The outcomes of a run: in memory, and in a folder from which a later run goes on.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "eval/outcome.h"
#include "vestige/status.h"

namespace vestige::eval {

/// What all outcomes of a folder have in common.
struct RunIdentity {
  std::string vestige_version = {}, model = {}, tokenizer = {},
              corpus = {};  ///< corpus: SHA-256 of its bytes, "" = none
  uint64_t seed = 0;
  int32_t block_rows = 0;
  bool aware = false;  ///< Grid::aware
  bool operator==(const RunIdentity&) const = default;
};

/// Runs of one grid that share a folder: run i of n does the trials with trial % n == i and writes a file of its own.
struct Shard {
  int32_t index = 0, count = 1;
};

class Store {
 public:
  /// Opens or creates `dir` and reads every result there. "" = keep results in memory only.
  /// @return Mismatch naming the field in which the folder's runs differ; DataLoss naming file and line; IoError
  static Result<std::unique_ptr<Store>> open(const std::string& dir, const RunIdentity& identity, Shard shard);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  bool has(const std::string& task, int64_t length, int32_t trial, const std::string& arm) const;
  const GateOutcome* find_gate(const std::string& gate, int64_t length, const std::string& subject) const;
  /// Appends one line, on disk when it returns.
  Status add(Outcome outcome);
  Status add(GateOutcome gate);
  const std::vector<Outcome>& outcomes() const { return outcomes_; }
  const std::vector<GateOutcome>& gates() const { return gates_; }

 private:
  using Key = std::tuple<std::string, int64_t, int32_t, std::string>;
  Store() = default;
  Status load_file(const std::string& path);
  Status open_own(const std::string& path);
  Status write_line(const std::string& line);
  void remember(Outcome outcome);
  void remember(GateOutcome gate);

  int fd_ = -1;
  std::string path_;
  std::vector<Outcome> outcomes_;
  std::vector<GateOutcome> gates_;
  std::map<Key, size_t> places_;
};

}  // namespace vestige::eval
