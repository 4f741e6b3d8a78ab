#pragma once

// What a loader makes out of a model folder's files. Sizes and ids are checked here; a Vocabulary is consistent.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/gguf.h"
#include "base/json.h"
#include "model/tokenizer/added_tokens.h"
#include "model/tokenizer/bpe.h"
#include "model/tokenizer/split.h"
#include "vestige/status.h"

namespace vestige {

struct Vocabulary {
  Bpe bpe;
  std::vector<SplitRule> rules;
  AddedTokenSet added;
  std::vector<bool> special;  // by id, as long as bpe.tokens
  std::optional<int32_t> bos, eos;
  std::string chat_template;
};

/// Of the text of a tokenizer.json. @return DataLoss, Unsupported, naming the field.
Result<Vocabulary> load_tokenizer_json(std::string_view text);
Result<Vocabulary> build_vocabulary(const nlohmann::json& root);

/// Of a GGUF file's metadata; bos and eos too. @return NotFound, DataLoss, Unsupported, naming the key.
Result<Vocabulary> load_gguf_tokenizer(const GgufFile& file);

/// Reads normalizer, pre_tokenizer, post_processor and decoder of a tokenizer.json.
/// @return the split rules in order; Unsupported naming the first component or setting that is not done exactly.
Result<std::vector<SplitRule>> read_pipeline(const nlohmann::json& root);

/// Of the text of a tiktoken.model and of its tokenizer_config.json ("{}" if there is none).
Result<Vocabulary> load_tiktoken(std::string_view ranks, std::string_view config);

/// Sets bos and eos from tokenizer_config.json. @return DataLoss if it names a token that does not exist.
Status read_bos_eos(const nlohmann::json& config, Vocabulary* vocabulary);

/// One entry of added_tokens or added_tokens_decoder.
struct AddedToken {
  int64_t id = 0;
  std::string name;
  bool special = false;
  bool normalized = false;
};
/// @return DataLoss for a wrong type or an empty name; Unsupported for lstrip, rstrip or single_word.
Result<AddedToken> read_added_token(const nlohmann::json& entry, int64_t id);

/// `value` as an integer of a JSON file; nullopt if it is none or does not fit.
std::optional<int64_t> json_int(const nlohmann::json* value);

}  // namespace vestige
