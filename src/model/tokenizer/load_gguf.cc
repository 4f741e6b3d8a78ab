#include <string>
#include <utility>

#include "model/tokenizer/loader.h"

namespace vestige {

namespace {

using nlohmann::json;

/// tokenizer.ggml.token_type, by their numbers in the file.
enum TokenType : int64_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused };

json split_by(std::string_view regex) {
  return {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}};
}

/// The pre_tokenizer that a name in tokenizer.ggml.pre stands for.
Result<json> pre_tokenizer_of(const std::string& name) {
  const json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  json gpt2 = byte_level;
  gpt2["use_regex"] = true;
  json parts;
  if (name == "gpt-2") {
    parts = {gpt2};
  } else if (name == "smollm") {
    parts = {{{"type", "Digits"}, {"individual_digits", true}}, gpt2};
  } else if (name == "llama-bpe" || name == "qwen2") {
    const SplitRule rule = name == "qwen2" ? SplitRule::kQwen2 : SplitRule::kLlama3;
    parts = {split_by(regex_of_split_rule(rule)), byte_level};
  } else {
    return unsupported("tokenizer.ggml.pre = \"%.64s\", want smollm, gpt-2, llama-bpe or qwen2", name.c_str());
  }
  return json{{"type", "Sequence"}, {"pretokenizers", parts}};
}

/// Tokens by name, and those that are added ones.
Status add_tokens(const GgufFile& file, json* vocab, json* added) {
  VESTIGE_ASSIGN(const auto tokens, file.texts("tokenizer.ggml.tokens"));
  std::vector<int64_t> types(tokens.size(), kNormal);
  if (file.contains("tokenizer.ggml.token_type")) {
    VESTIGE_ASSIGN(types, file.integers("tokenizer.ggml.token_type"));
  }
  if (types.size() != tokens.size()) {
    return data_loss("tokenizer.ggml.token_type: %zu entries, want %zu", types.size(), tokens.size());
  }
  for (size_t id = 0; id < tokens.size(); ++id) {
    const std::string name(tokens[id]);
    const int64_t type = types[id];
    if (type < kNormal || type > kUnused) {
      return unsupported("tokenizer.ggml.token_type[%zu] = %lld, want 1 to 5", id, static_cast<long long>(type));
    }
    if (!vocab->emplace(name, id).second) {
      return data_loss("tokenizer.ggml.tokens[%zu]: \"%.64s\" is there twice", id, name.c_str());
    }
    if (type != kUnknown && type != kControl && type != kUserDefined) continue;
    added->push_back({{"id", id}, {"content", name}, {"special", type != kUserDefined}, {"normalized", false}});
  }
  return {};
}

Status read_end(const GgufFile& file, const char* which, const Vocabulary& v, std::optional<int32_t>* out) {
  const std::string key = std::string("tokenizer.ggml.") + which + "_token_id";
  if (!file.contains(key)) return {};
  VESTIGE_ASSIGN(const int64_t id, file.integer(key));
  if (!v.bpe.tokens.has(id)) {
    return data_loss("%s = %lld, want [0, %lld)", key.c_str(), static_cast<long long>(id),
                     static_cast<long long>(v.bpe.tokens.size()));
  }
  *out = static_cast<int32_t>(id);
  return {};
}

/// The file's tokenizer as a tokenizer.json has it, so that one loader checks both.
Result<json> as_tokenizer_json(const GgufFile& file) {
  VESTIGE_ASSIGN(const std::string_view model, file.text("tokenizer.ggml.model"));
  if (model != "gpt2") {
    return unsupported("tokenizer.ggml.model = \"%.64s\", want gpt2", std::string(model).c_str());
  }
  // Without a name converters mean a split of llama.cpp's own that no checkpoint was trained with.
  VESTIGE_ASSIGN(const std::string_view pre, file.text("tokenizer.ggml.pre"));
  if (file.contains("tokenizer.ggml.add_space_prefix")) {
    VESTIGE_ASSIGN(const bool space, file.boolean("tokenizer.ggml.add_space_prefix"));
    if (space) return unsupported("tokenizer.ggml.add_space_prefix = true");
  }
  json root = {{"decoder", {{"type", "ByteLevel"}}}, {"added_tokens", json::array()}};
  VESTIGE_ASSIGN(root["pre_tokenizer"], pre_tokenizer_of(std::string(pre)));
  json vocab = json::object(), merges = json::array();
  VESTIGE_TRY(add_tokens(file, &vocab, &root["added_tokens"]));
  VESTIGE_ASSIGN(const auto pairs, file.texts("tokenizer.ggml.merges"));
  for (const std::string_view pair : pairs) merges.push_back(std::string(pair));
  root["model"] = {{"type", "BPE"}, {"ignore_merges", pre == "llama-bpe"}};
  root["model"]["vocab"] = std::move(vocab);
  root["model"]["merges"] = std::move(merges);
  return root;
}

}  // namespace

Result<Vocabulary> load_gguf_tokenizer(const GgufFile& file) {
  VESTIGE_ASSIGN(const json root, as_tokenizer_json(file));
  VESTIGE_ASSIGN(Vocabulary v, build_vocabulary(root));
  VESTIGE_TRY(read_end(file, "bos", v, &v.bos));
  VESTIGE_TRY(read_end(file, "eos", v, &v.eos));
  if (file.contains("tokenizer.chat_template")) {
    VESTIGE_ASSIGN(v.chat_template, file.text("tokenizer.chat_template"));
  }
  return v;
}

}  // namespace vestige
