#include "model/tokenizer/token_table.h"

#include <bit>
#include <cstring>

namespace vestige {

namespace {

// At half load a run of this length does not happen by chance; a file that makes one wants quadratic time.
constexpr size_t kMaxProbes = 4096;

uint64_t mix(uint64_t a, uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint64_t hash_bytes(std::string_view bytes) {
  constexpr uint64_t kA = 0xa0761d6478bd642fu, kB = 0xe7037ed1a0b428dbu;
  uint64_t hash = kA ^ bytes.size();
  const char* p = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; p += 8, left -= 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    hash = mix(hash ^ word, kB);
  }
  uint64_t word = 0;
  std::memcpy(&word, p, left);
  return mix(hash ^ word, kB);
}

size_t slots_for(size_t n) { return std::bit_ceil(2 * n + 2); }

}  // namespace

Status TokenTable::add(int64_t id, std::string_view bytes) {
  if (id < 0 || id > kMaxTokenId) {
    return data_loss("token id %lld, want [0, %lld]", static_cast<long long>(id), static_cast<long long>(kMaxTokenId));
  }
  if (has(id)) return data_loss("token id %lld is given twice", static_cast<long long>(id));
  if (blob_.size() + bytes.size() >= kAbsent) return data_loss("tokens of 4 GiB and more together");
  if (id >= size()) places_.resize(static_cast<size_t>(id) + 1);
  places_[static_cast<size_t>(id)] = {static_cast<uint32_t>(blob_.size()), static_cast<uint32_t>(bytes.size())};
  blob_ += bytes;
  return {};
}

void TokenIndex::reserve(size_t n) {
  slots_.assign(slots_for(n), Slot{});
  mask_ = slots_.size() - 1;
}

Status TokenIndex::insert(const TokenTable& table, int32_t id) {
  const std::string_view bytes = table.bytes(id);
  const uint64_t hash = hash_bytes(bytes);
  const uint32_t tag = static_cast<uint32_t>(hash >> 32);
  size_t i = hash & mask_;
  for (size_t probes = 0; slots_[i].id >= 0; i = (i + 1) & mask_) {
    if (slots_[i].tag == tag && table.bytes(slots_[i].id) == bytes) {
      return data_loss("tokens %d and %d have the same bytes", slots_[i].id, id);
    }
    if (++probes > kMaxProbes) return data_loss("vocabulary made to collide (%zu probes)", probes);
  }
  slots_[i] = {tag, id};
  return {};
}

std::optional<int32_t> TokenIndex::find(const TokenTable& table, std::string_view bytes) const {
  const uint64_t hash = hash_bytes(bytes);
  const uint32_t tag = static_cast<uint32_t>(hash >> 32);
  for (size_t i = hash & mask_; slots_[i].id >= 0; i = (i + 1) & mask_) {
    if (slots_[i].tag == tag && table.bytes(slots_[i].id) == bytes) return slots_[i].id;
  }
  return std::nullopt;
}

void MergeTable::reserve(size_t n) {
  slots_.assign(slots_for(n), Slot{});
  mask_ = slots_.size() - 1;
}

Status MergeTable::insert(int32_t left, int32_t right, Merge merge) {
  const uint64_t pair = key(left, right);
  size_t i = home(pair);
  for (size_t probes = 0; slots_[i].pair != kEmpty && slots_[i].pair != pair; i = (i + 1) & mask_) {
    if (++probes > kMaxProbes) return data_loss("merges made to collide (%zu probes)", probes);
  }
  slots_[i] = {pair, merge};
  return {};
}

}  // namespace vestige
