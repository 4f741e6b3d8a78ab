#include "model/tokenizer/bpe.h"

#include <algorithm>
#include <functional>

namespace vestige {

namespace {

// Up to this many bytes a scan for the lowest rank beats a heap; beyond, its square would be felt.
constexpr size_t kShortBytes = 48;
constexpr uint32_t kEnd = ~0u;

}  // namespace

Status Bpe::finish(const std::vector<int32_t>& candidates, bool whole_pieces) {
  for (int b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    const std::optional<int32_t> id = by_bytes.find(tokens, {&byte, 1});
    const bool plain = (b >= 0x20 && b < 0x7f) || b == '\t' || b == '\n' || b == '\r';
    if (!id && plain) return unsupported("vocabulary without a token for byte 0x%02x", b);
    if (!id) unknown_ += byte;
    byte_ids_[static_cast<size_t>(b)] = id.value_or(-1);
  }
  whole_.assign(static_cast<size_t>(tokens.size()), false);
  max_whole_bytes_ = 0;
  BpeScratch scratch;
  std::vector<int32_t> ids;
  size_t longest = 0;
  for (int32_t id : candidates) {
    const std::string_view bytes = tokens.bytes(id);
    if (find_unknown(bytes) != std::string_view::npos) continue;
    if (!whole_pieces) {
      ids.clear();
      encode(bytes, scratch, &ids);
      if (ids.size() != 1 || ids[0] != id) continue;
    }
    whole_[static_cast<size_t>(id)] = true;
    longest = std::max(longest, bytes.size());
  }
  max_whole_bytes_ = longest;
  return {};
}

size_t Bpe::find_unknown(std::string_view text) const {
  return unknown_.empty() ? std::string_view::npos : text.find_first_of(unknown_);
}

void Bpe::encode(std::string_view piece, BpeScratch& scratch, std::vector<int32_t>* ids) const {
  if (piece.size() <= max_whole_bytes_) {
    const std::optional<int32_t> id = by_bytes.find(tokens, piece);
    if (id && whole_[static_cast<size_t>(*id)]) {
      ids->push_back(*id);
      return;
    }
  }
  if (piece.size() <= kShortBytes) {
    merge_short(piece, scratch, ids);
  } else {
    merge_long(piece, scratch, ids);
  }
}

void Bpe::merge_short(std::string_view piece, BpeScratch& scratch, std::vector<int32_t>* ids) const {
  int32_t id[kShortBytes];
  Merge pair[kShortBytes];  // of id[i] and id[i + 1]
  size_t n = piece.size();
  for (size_t i = 0; i < n; ++i) id[i] = byte_ids_[static_cast<uint8_t>(piece[i])];
  for (size_t i = 0; i + 1 < n; ++i) pair[i] = merges.find(id[i], id[i + 1]);
  scratch.steps += n;
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i) {
      if (pair[i].rank < pair[best].rank) best = i;
    }
    if (pair[best].rank == MergeTable::kNone) break;
    id[best] = pair[best].id;
    std::copy(id + best + 2, id + n, id + best + 1);
    if (best + 2 < n) std::copy(pair + best + 2, pair + n - 1, pair + best + 1);
    --n;
    if (best > 0) pair[best - 1] = merges.find(id[best - 1], id[best]);
    if (best + 1 < n) pair[best] = merges.find(id[best], id[best + 1]);
    scratch.steps += 2;
  }
  ids->insert(ids->end(), id, id + n);
}

void Bpe::push_pair(BpeScratch& scratch, uint32_t left) const {
  const BpeScratch::Symbol& symbol = scratch.symbols[left];
  if (symbol.after == kEnd) return;
  ++scratch.steps;
  const Merge merge = merges.find(symbol.id, scratch.symbols[symbol.after].id);
  if (merge.rank == MergeTable::kNone) return;
  scratch.heap.push_back(static_cast<uint64_t>(merge.rank) << 32 | left);
}

void Bpe::merge_long(std::string_view piece, BpeScratch& scratch, std::vector<int32_t>* ids) const {
  std::vector<BpeScratch::Symbol>& symbols = scratch.symbols;
  std::vector<uint64_t>& heap = scratch.heap;
  const uint32_t n = static_cast<uint32_t>(piece.size());
  symbols.resize(n);
  heap.clear();
  for (uint32_t i = 0; i < n; ++i) {
    symbols[i] = {byte_ids_[static_cast<uint8_t>(piece[i])], i == 0 ? kEnd : i - 1, i + 1 == n ? kEnd : i + 1};
  }
  for (uint32_t i = 0; i < n; ++i) push_pair(scratch, i);
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  const auto sift = [&](uint32_t left) {
    const size_t before = heap.size();
    push_pair(scratch, left);
    if (heap.size() != before) std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const uint64_t top = heap.back();
    heap.pop_back();
    ++scratch.steps;
    const uint32_t left = static_cast<uint32_t>(top);
    BpeScratch::Symbol& symbol = symbols[left];
    if (symbol.id < 0 || symbol.after == kEnd) continue;
    // An entry is stale if either side has merged since; then its pair now has another rank (ranks are unique) or none.
    const Merge merge = merges.find(symbol.id, symbols[symbol.after].id);
    if (merge.rank != top >> 32) continue;
    symbol.id = merge.id;
    const uint32_t gone = symbol.after;
    symbols[gone].id = -1;
    symbol.after = symbols[gone].after;
    if (symbol.after != kEnd) symbols[symbol.after].before = left;
    if (symbol.before != kEnd) sift(symbol.before);
    sift(left);
  }
  for (uint32_t i = 0; i != kEnd; i = symbols[i].after) ids->push_back(symbols[i].id);
}

}  // namespace vestige
