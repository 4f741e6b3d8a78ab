#include <charconv>
#include <utility>

#include "model/tokenizer/byte_level.h"
#include "model/tokenizer/loader.h"

namespace vestige {

namespace {

using nlohmann::json;

constexpr size_t kMaxModelBytes = size_t{64} << 20;  // Kimi's has 2.8 MB
// Sum over the tokens of length squared, the cost of trying all ways to cut them. 160 k tokens of 7 bytes: 8 M.
constexpr uint64_t kMaxCutWork = uint64_t{1} << 30;
// tokenization_kimi.py: num_reserved_special_tokens + 2 ids follow the ranks, all special.
constexpr int64_t kReserved = 258;

Status read_line(std::string_view line, size_t number, TokenTable* tokens) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos) return data_loss("line %zu: want base64, a space, a rank", number);
  const std::optional<std::string> bytes = decode_base64(line.substr(0, space));
  if (!bytes || bytes->empty()) return data_loss("line %zu: not base64 of a token", number);
  const std::string_view digits = line.substr(space + 1);
  uint32_t rank = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  if (error != std::errc() || end != digits.data() + digits.size()) return data_loss("line %zu: not a rank", number);
  return tokens->add(rank, *bytes).with_context("line " + std::to_string(number));
}

// Also counts the ranks, which must be 0, 1, ... without a gap.
Status read_ranks(std::string_view text, TokenTable* tokens) {
  if (text.size() > kMaxModelBytes) {
    return data_loss("%zu bytes, want at most %zu", text.size(), kMaxModelBytes);
  }
  size_t number = 0;
  while (!text.empty()) {
    const size_t newline = text.find('\n');
    std::string_view line = text.substr(0, newline);
    text.remove_prefix(newline == std::string_view::npos ? text.size() : newline + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++number;
    if (!line.empty()) VESTIGE_TRY(read_line(line, number, tokens));
  }
  for (int64_t id = 0; id < tokens->size(); ++id) {
    if (!tokens->has(id)) return data_loss("no token of rank %lld", static_cast<long long>(id));
  }
  return {};
}

// tiktoken merges two parts if their bytes together are a token, and the rank is that token's: here, each way to cut
// a token into two others is a merge.
Status add_merges(int32_t n_ranks, Bpe* bpe) {
  const TokenTable& tokens = bpe->tokens;
  uint64_t work = 0;
  for (int32_t id = 0; id < n_ranks; ++id) work += uint64_t{tokens.bytes(id).size()} * tokens.bytes(id).size();
  if (work > kMaxCutWork) return data_loss("tokens too long: their squared lengths sum to more than 2^30");
  struct Cut {
    int32_t left, right, id;
  };
  std::vector<Cut> cuts;
  for (int32_t id = 0; id < n_ranks; ++id) {
    const std::string_view bytes = tokens.bytes(id);
    for (size_t at = 1; at < bytes.size(); ++at) {
      const std::optional<int32_t> left = bpe->by_bytes.find(tokens, bytes.substr(0, at));
      if (!left) continue;
      const std::optional<int32_t> right = bpe->by_bytes.find(tokens, bytes.substr(at));
      if (right) cuts.push_back({*left, *right, id});
    }
  }
  bpe->merges.reserve(cuts.size());
  for (const Cut& cut : cuts) {
    VESTIGE_TRY(bpe->merges.insert(cut.left, cut.right, {static_cast<uint32_t>(cut.id), cut.id}));
  }
  return {};
}

Status add_reserved(const json& config, int64_t n_ranks, Vocabulary* v) {
  std::vector<AddedToken> reserved(static_cast<size_t>(kReserved));
  for (int64_t i = 0; i < kReserved; ++i) {
    const int64_t id = n_ranks + i;
    reserved[static_cast<size_t>(i)] = {id, "<|reserved_token_" + std::to_string(id) + "|>", true, false};
  }
  const json* decoder = json_member(config, "added_tokens_decoder");
  if (decoder != nullptr && !decoder->is_object()) return data_loss("added_tokens_decoder: want an object");
  if (decoder != nullptr) {
    for (const auto& [key, entry] : decoder->items()) {
      int64_t id = -1;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      if (error != std::errc() || end != key.data() + key.size() || id < n_ranks || id >= n_ranks + kReserved) {
        return data_loss("added_tokens_decoder: id \"%.32s\", want one of the %lld after rank %lld", key.c_str(),
                         static_cast<long long>(kReserved), static_cast<long long>(n_ranks - 1));
      }
      VESTIGE_ASSIGN(reserved[static_cast<size_t>(id - n_ranks)], read_added_token(entry, id));
    }
  }
  for (const AddedToken& token : reserved) {
    VESTIGE_TRY(v->bpe.tokens.add(token.id, token.name));
    v->added.raw.add(token.name, static_cast<int32_t>(token.id));  // tiktoken knows one kind only
  }
  v->special.assign(static_cast<size_t>(v->bpe.tokens.size()), false);
  for (const AddedToken& token : reserved) v->special[static_cast<size_t>(token.id)] = token.special;
  return {};
}

}  // namespace

Result<Vocabulary> load_tiktoken(std::string_view ranks, std::string_view config_text) {
  VESTIGE_ASSIGN(const json config, parse_json(config_text));
  if (!config.is_object()) return data_loss("tokenizer_config.json: want an object");
  const json* kind = json_member(config, "tokenizer_class");
  if (kind != nullptr && *kind != "TikTokenTokenizer") {
    return unsupported("tiktoken.model: only Kimi's TikTokenTokenizer is known, tokenizer_class says otherwise");
  }
  Vocabulary v;
  v.rules = {SplitRule::kKimi};
  VESTIGE_TRY(read_ranks(ranks, &v.bpe.tokens).with_context("tiktoken.model"));
  const int32_t n_ranks = static_cast<int32_t>(v.bpe.tokens.size());
  v.bpe.by_bytes.reserve(static_cast<size_t>(n_ranks));
  std::vector<int32_t> candidates;
  for (int32_t id = 0; id < n_ranks; ++id) {
    VESTIGE_TRY(v.bpe.by_bytes.insert(v.bpe.tokens, id));
    candidates.push_back(id);
  }
  VESTIGE_TRY(add_merges(n_ranks, &v.bpe));
  VESTIGE_TRY(add_reserved(config, n_ranks, &v).with_context("tokenizer_config.json"));
  VESTIGE_TRY(v.added.finish());
  VESTIGE_TRY(v.bpe.finish(candidates, true));
  VESTIGE_TRY(read_bos_eos(config, &v));
  return v;
}

}  // namespace vestige
