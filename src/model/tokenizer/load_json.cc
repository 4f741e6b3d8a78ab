#include <utility>

#include "model/tokenizer/byte_level.h"
#include "model/tokenizer/loader.h"

namespace vestige {

namespace {

using nlohmann::json;

// While the file is read: ids by the names of the file, which need not be in the byte alphabet.
struct Names {
  const json& vocab;
  std::vector<AddedToken> added;
  std::vector<bool> special;

  std::optional<int64_t> id(const std::string& name) const {
    const auto it = vocab.find(name);
    return it == vocab.end() ? std::nullopt : json_int(&*it);
  }
  bool is_special(int64_t at) const {
    return at < static_cast<int64_t>(special.size()) && special[static_cast<size_t>(at)];
  }
};

Status check_model(const json& model) {
  const json* type = json_member(model, "type");
  if (type != nullptr && *type != "BPE") {
    return type->is_string() ? unsupported("model %.64s, want BPE", type->get_ref<const std::string&>().c_str())
                             : data_loss("model.type: want a string");
  }
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const json* value = json_member(model, affix);
    if (value != nullptr && *value != "") return unsupported("model.%s", affix);
  }
  const json* dropout = json_member(model, "dropout");
  if (dropout != nullptr && *dropout != 0) return unsupported("model.dropout");
  // unk_token, fuse_unk and byte_fallback matter only to bytes without a token, and text with those is refused.
  const json* vocab = json_member(model, "vocab");
  if (vocab == nullptr || !vocab->is_object()) return data_loss("model.vocab: want an object");
  const json* merges = json_member(model, "merges");
  if (merges == nullptr || !merges->is_array()) return data_loss("model.merges: want a list");
  const json* ignore = json_member(model, "ignore_merges");
  if (ignore != nullptr && !ignore->is_boolean()) return data_loss("model.ignore_merges: want true or false");
  return {};
}

Status read_added(const json& root, Names* names) {
  const json* list = json_member(root, "added_tokens");
  if (list == nullptr) return {};
  if (!list->is_array()) return data_loss("added_tokens: want a list");
  for (const json& entry : *list) {
    const std::optional<int64_t> id = json_int(json_member(entry, "id"));
    if (!id || *id < 0 || *id > kMaxTokenId) return data_loss("added_tokens: an id that is no token id");
    VESTIGE_ASSIGN(AddedToken token, read_added_token(entry, *id));
    const std::optional<int64_t> known = names->id(token.name);
    if (known && *known != *id) {
      return data_loss("added token \"%.64s\" has id %lld, in the vocabulary %lld", token.name.c_str(),
                       static_cast<long long>(*id), static_cast<long long>(*known));
    }
    if (*id >= static_cast<int64_t>(names->special.size())) names->special.resize(static_cast<size_t>(*id) + 1);
    names->special[static_cast<size_t>(*id)] = token.special;
    names->added.push_back(std::move(token));
  }
  return {};
}

Status add_vocab(const Names& names, Bpe* bpe, std::vector<int32_t>* candidates) {
  bpe->by_bytes.reserve(names.vocab.size());
  for (const auto& [name, value] : names.vocab.items()) {
    const std::optional<int64_t> id = json_int(&value);
    if (!id) return data_loss("model.vocab: the id of \"%.64s\" is no integer that fits", name.c_str());
    const std::optional<std::string> bytes = bytes_of_name(name);
    VESTIGE_TRY(bpe->tokens.add(*id, bytes ? *bytes : name));
    // A name outside the alphabet, or that of a special token, is one that no text may become.
    if (!bytes || names.is_special(*id)) continue;
    candidates->push_back(static_cast<int32_t>(*id));
    VESTIGE_TRY(bpe->by_bytes.insert(bpe->tokens, static_cast<int32_t>(*id)));
  }
  return {};
}

Status add_added(const Names& names, Vocabulary* vocabulary) {
  TokenTable& tokens = vocabulary->bpe.tokens;
  for (const AddedToken& token : names.added) {
    if (!names.id(token.name)) {
      VESTIGE_TRY(tokens.add(token.id, token.name));
    } else if (tokens.bytes(token.id) != token.name) {
      return unsupported("added token \"%.64s\" is a vocabulary entry for other bytes", token.name.c_str());
    }
    (token.normalized ? vocabulary->added.normalized : vocabulary->added.raw)
        .add(token.name, static_cast<int32_t>(token.id));
  }
  return {};
}

// The two names of a merge, "a b" or ["a", "b"].
Result<std::pair<std::string, std::string>> merge_names(const json& merge, size_t rank) {
  if (merge.is_string()) {
    const std::string& text = merge.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
      return std::pair(text.substr(0, space), text.substr(space + 1));
    }
  } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return std::pair(merge[0].get<std::string>(), merge[1].get<std::string>());
  }
  return data_loss("model.merges[%zu]: want \"a b\" or [\"a\", \"b\"]", rank);
}

Status add_merges(const json& merges, const Names& names, MergeTable* table) {
  table->reserve(merges.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    VESTIGE_ASSIGN(const auto pair, merge_names(merges[rank], rank));
    const auto& [left, right] = pair;
    if (left.empty() || right.empty()) return data_loss("model.merges[%zu]: an empty half", rank);
    for (const std::string& name : {left, right, left + right}) {
      if (!names.id(name)) {
        return data_loss("model.merges[%zu]: \"%.64s\" is not in the vocabulary", rank, name.c_str());
      }
    }
    const int32_t id = static_cast<int32_t>(*names.id(left + right));
    // Text with this name in it is matched as the added token before merges come, or must not become it at all.
    if (names.is_special(id)) continue;
    VESTIGE_TRY(table->insert(static_cast<int32_t>(*names.id(left)), static_cast<int32_t>(*names.id(right)),
                              {static_cast<uint32_t>(rank), id}));
  }
  return {};
}

}  // namespace

Result<Vocabulary> load_tokenizer_json(std::string_view text) {
  VESTIGE_ASSIGN(const json root, parse_json(text));
  return build_vocabulary(root);
}

Result<Vocabulary> build_vocabulary(const json& root) {
  const json* model = json_member(root, "model");
  if (model == nullptr || !model->is_object()) return data_loss("model: want an object");
  VESTIGE_TRY(check_model(*model));
  Vocabulary v;
  VESTIGE_ASSIGN(v.rules, read_pipeline(root));
  Names names{(*model)["vocab"], {}, {}};
  VESTIGE_TRY(read_added(root, &names));
  std::vector<int32_t> candidates;
  VESTIGE_TRY(add_vocab(names, &v.bpe, &candidates));
  VESTIGE_TRY(add_added(names, &v));
  VESTIGE_TRY(add_merges((*model)["merges"], names, &v.bpe.merges));
  VESTIGE_TRY(v.added.finish());
  v.special = std::move(names.special);
  v.special.resize(static_cast<size_t>(v.bpe.tokens.size()));
  const json* ignore = json_member(*model, "ignore_merges");
  VESTIGE_TRY(v.bpe.finish(candidates, ignore != nullptr && ignore->get<bool>()));
  return v;
}

}  // namespace vestige
