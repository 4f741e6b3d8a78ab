#pragma once

// Bytes of tokens by id, and ids by bytes.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "vestige/status.h"

namespace vestige {

/// Ids a file may use: 4 M, 25 times the largest vocabularies, so that a huge id cannot ask for a huge table.
inline constexpr int64_t kMaxTokenId = (int64_t{1} << 22) - 1;

class TokenTable {
 public:
  /// @return DataLoss if the id is out of [0, kMaxTokenId] or taken.
  Status add(int64_t id, std::string_view bytes);

  /// Largest id + 1.
  int64_t size() const { return static_cast<int64_t>(places_.size()); }
  bool has(int64_t id) const { return id >= 0 && id < size() && places_[static_cast<size_t>(id)].n_bytes != kAbsent; }
  /// Of a token that is there.
  std::string_view bytes(int64_t id) const {
    const Place& place = places_[static_cast<size_t>(id)];
    return {blob_.data() + place.offset, place.n_bytes};
  }

 private:
  static constexpr uint32_t kAbsent = ~0u;
  struct Place {
    uint32_t offset = 0;
    uint32_t n_bytes = kAbsent;
  };
  std::string blob_;
  std::vector<Place> places_;
};

/// Open addressing over ids whose bytes lie in a TokenTable, which is handed in at each call.
class TokenIndex {
 public:
  /// Room for n entries at most half full.
  void reserve(size_t n);
  /// @return DataLoss if these bytes are there already, or the file was made so that hashes collide.
  Status insert(const TokenTable& table, int32_t id);
  std::optional<int32_t> find(const TokenTable& table, std::string_view bytes) const;

 private:
  struct Slot {
    uint32_t tag = 0;
    int32_t id = -1;
  };
  std::vector<Slot> slots_ = std::vector<Slot>(2);
  size_t mask_ = 1;
};

/// A pair of neighbours that may merge.
struct Merge {
  uint32_t rank;
  int32_t id;
};

/// (left, right) -> Merge, open addressing.
class MergeTable {
 public:
  void reserve(size_t n);
  /// A pair that is there takes the new values, as in `tokenizers`. @return DataLoss for hashes made to collide.
  Status insert(int32_t left, int32_t right, Merge merge);
  /// Rank kNone if the two do not merge.
  Merge find(int32_t left, int32_t right) const {
    const uint64_t pair = key(left, right);
    for (size_t i = home(pair);; i = (i + 1) & mask_) {
      if (slots_[i].pair == pair) return slots_[i].merge;
      if (slots_[i].pair == kEmpty) return {kNone, -1};
    }
  }
  static constexpr uint32_t kNone = ~0u;

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  struct Slot {
    uint64_t pair = kEmpty;
    Merge merge{kNone, -1};
  };
  static uint64_t key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t home(uint64_t pair) const {
    const uint64_t h = (pair ^ pair >> 29) * 0x9e3779b97f4a7c15u;
    return (h ^ h >> 32) & mask_;
  }
  std::vector<Slot> slots_ = std::vector<Slot>(2);
  size_t mask_ = 1;
};

}  // namespace vestige
