#pragma once

// What a .vctx file says about itself, and where its checksums lie. Byte by byte in docs/formats.md.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/safetensors.h"
#include "engine/checksum.h"
#include "vestige/model.h"
#include "vestige/policy.h"
#include "vestige/status.h"

namespace vestige {

inline constexpr char kContextFormat[] = "vestige.vctx";
inline constexpr int64_t kContextVersion = 2;
inline constexpr char kChecksums[] = "checksums";  ///< the last tensor, U8
inline constexpr char kTokens[] = "tokens";
inline constexpr char kLastHidden[] = "last_hidden";
inline constexpr char kStatePrefix[] = "state.";

/// Prefix of the tensors of one attention layer, or of one of its key-value heads.
std::string layer_prefix(const CacheLayer& layer);

/// The __metadata__ of a file, as values.
struct ContextHeader {
  std::string vestige_version;
  std::string model_identity;
  std::string model_dir;  ///< as given; written as path_hint() of it
  std::string tokenizer;  ///< fingerprint
  PolicyConfig policy;
  int64_t n_tokens = 0;
  std::vector<CacheLayer> cache_layers;
};

std::map<std::string, std::string> write_metadata(const ContextHeader& header);

/// The path from the root, so that it serves in any working folder; "" if it is not UTF-8, which JSON cannot hold.
std::string path_hint(const std::string& path);

/// Of the header's JSON text, of which nothing else is believed yet.
/// @return Unsupported for another version; DataLoss if it is no .vctx.
Status check_version(std::string_view header);

/// @return DataLoss if it is no .vctx or a field is missing or wrong; Unsupported for another version.
Result<ContextHeader> read_metadata(const std::map<std::string, std::string>& metadata);

/// The tensors a checksum table covers, in its order: all but the table, by offset (an empty one first).
std::vector<const SafetensorsEntry*> checked_tensors(const std::vector<SafetensorsEntry>& tensors);

/// The table of n tensors: n digests, then that of the header (file bytes before the first tensor), then that of all
/// table bytes before it. The last 32 bytes mean the same in every version of the format.
inline int64_t checksum_bytes(size_t n_tensors) { return static_cast<int64_t>((n_tensors + 2) * sizeof(Digest)); }

}  // namespace vestige
