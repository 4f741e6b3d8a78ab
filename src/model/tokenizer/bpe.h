#pragma once

// Byte pair encoding of one piece: of all neighbours the pair of lowest rank merges, the leftmost first, until none
// can.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/tokenizer/token_table.h"

namespace vestige {

/// Work space, reused from piece to piece by one thread.
struct BpeScratch {
  struct Symbol {
    int32_t id;  // -1: merged into the one before
    uint32_t before, after;
  };
  std::vector<Symbol> symbols;
  std::vector<uint64_t> heap;  // rank << 32 | position of the left symbol, smallest first
  uint64_t steps = 0;          // pairs looked up and heap entries taken, for the test that this does not blow up
};

/// Rules over a vocabulary, filled by a loader, then finished and constant.
class Bpe {
 public:
  TokenTable tokens;    ///< every token, added ones too
  TokenIndex by_bytes;  ///< the tokens that pieces can become: not those that are special or have no byte-level name
  MergeTable merges;

  /// Finds the id of each byte and which tokens a piece with their bytes becomes at once: all of by_bytes if
  /// `whole_pieces` (ignore_merges; tiktoken), else those that the merges lead to anyway, which only saves time.
  /// @return Unsupported naming a byte of plain ASCII text that has no token. Others may have none (SmolLM2 lacks 21
  ///         that its training text did not hold): text with them cannot be encoded.
  Status finish(const std::vector<int32_t>& candidates, bool whole_pieces);

  /// Where the first byte without a token is; npos if all have one.
  size_t find_unknown(std::string_view text) const;

  /// Appends the ids of a piece of at most 2^31 - 1 bytes, none of them unknown.
  void encode(std::string_view piece, BpeScratch& scratch, std::vector<int32_t>* ids) const;

 private:
  void merge_short(std::string_view piece, BpeScratch& scratch, std::vector<int32_t>* ids) const;
  void merge_long(std::string_view piece, BpeScratch& scratch, std::vector<int32_t>* ids) const;
  void push_pair(BpeScratch& scratch, uint32_t left) const;

  std::array<int32_t, 256> byte_ids_{};
  std::string unknown_;      // the bytes without a token
  std::vector<bool> whole_;  // by id
  size_t max_whole_bytes_ = 0;
};

}  // namespace vestige
