#include "model/tokenizer/unicode.h"
#include "vestige/tokenizer.h"

namespace vestige {

Status StreamDecoder::push(int32_t id, std::string* text) {
  const std::optional<std::string_view> bytes = tokenizer_.token_bytes(id);
  if (!bytes) {
    return invalid_argument("id = %d, want a token's id, below %lld", id,
                            static_cast<long long>(tokenizer_.vocab_size()));
  }
  held_ += *bytes;
  size_t at = 0;
  while (at < held_.size()) {
    const Utf8Prefix prefix = match_utf8(held_, at);
    if (prefix.cut) break;
    if (prefix.whole || invalid_ == Invalid::kKeep) {
      text->append(held_, at, prefix.n_bytes);
    } else {
      *text += "\xef\xbf\xbd";
    }
    at += prefix.n_bytes;
  }
  held_.erase(0, at);
  return {};
}

void StreamDecoder::finish(std::string* text) {
  if (held_.empty()) return;
  *text += invalid_ == Invalid::kKeep ? held_ : "\xef\xbf\xbd";
  held_.clear();
}

}  // namespace vestige
