#include "vestige/tokenizer.h"

#include <new>
#include <utility>

#include "base/mapped_file.h"
#include "base/sha256.h"
#include "model/gguf_model.h"
#include "model/tokenizer/loader.h"
#include "model/tokenizer/unicode.h"

namespace vestige {

struct Tokenizer::State {
  Vocabulary vocabulary;
  std::string fingerprint;
};

Tokenizer::Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::~Tokenizer() = default;

std::optional<int64_t> json_int(const nlohmann::json* value) {
  if (value == nullptr || !value->is_number_integer()) return std::nullopt;
  if (value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX) return std::nullopt;
  return value->get<int64_t>();
}

Result<AddedToken> read_added_token(const nlohmann::json& entry, int64_t id) {
  const nlohmann::json* name = json_member(entry, "content");
  if (name == nullptr || !name->is_string()) {
    return data_loss("added token %lld: content is no string", static_cast<long long>(id));
  }
  AddedToken token{id, name->get<std::string>(), false, false};
  if (token.name.empty()) return data_loss("added token %lld: content is empty", static_cast<long long>(id));
  for (const char* field : {"special", "normalized", "lstrip", "rstrip", "single_word"}) {
    const nlohmann::json* value = json_member(entry, field);
    if (value == nullptr) continue;
    if (!value->is_boolean()) return data_loss("added token \"%.64s\": %s is no boolean", token.name.c_str(), field);
    if (!value->get<bool>()) continue;
    const std::string_view which = field;
    if (which == "special") {
      token.special = true;
    } else if (which == "normalized") {
      token.normalized = true;
    } else {
      return unsupported("added token \"%.64s\": %s = true", token.name.c_str(), field);
    }
  }
  return token;
}

Status read_bos_eos(const nlohmann::json& config, Vocabulary* v) {
  for (const auto& [field, id] : {std::pair("bos_token", &v->bos), std::pair("eos_token", &v->eos)}) {
    const nlohmann::json* value = json_member(config, field);
    if (value != nullptr && value->is_object()) value = json_member(*value, "content");
    if (value == nullptr) continue;
    if (!value->is_string()) return data_loss("tokenizer_config.json: %s is no string", field);
    const std::string& name = value->get_ref<const std::string&>();
    *id = v->added.find(name);
    if (!*id) *id = v->bpe.by_bytes.find(v->bpe.tokens, name);
    if (!*id) return data_loss("tokenizer_config.json: %s \"%.64s\" is not a token", field, name.c_str());
  }
  return {};
}

namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 28;

// The file's bytes; nullopt if there is no such file.
Result<std::optional<std::string>> read_file(const std::string& path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (file.status().code() == StatusCode::kNotFound) return std::optional<std::string>();
  if (!file.ok()) return file.status();
  const size_t n_bytes = file->bytes().size();
  if (n_bytes > kMaxFileBytes) {
    return data_loss("%s: %zu bytes, want at most %zu", path.c_str(), n_bytes, kMaxFileBytes);
  }
  std::string text(n_bytes, '\0');
  VESTIGE_TRY(file->read(0, std::as_writable_bytes(std::span(text.data(), text.size()))));
  return std::optional<std::string>(std::move(text));
}

Result<Vocabulary> load_files(const std::string& dir, Sha256* hash) {
  VESTIGE_ASSIGN(const std::optional<std::string> config, read_file(dir + "/tokenizer_config.json"));
  VESTIGE_ASSIGN(const std::optional<std::string> whole, read_file(dir + "/tokenizer.json"));
  if (whole) {
    hash->update(*whole);
    Result<Vocabulary> v = load_tokenizer_json(*whole);
    if (!v.ok()) return v.status().with_context(dir + "/tokenizer.json");
    if (!config) return v;
    const Result<nlohmann::json> names = parse_json(*config);
    if (!names.ok()) return names.status().with_context(dir + "/tokenizer_config.json");
    VESTIGE_TRY(read_bos_eos(*names, &*v).with_context(dir));
    return v;
  }
  VESTIGE_ASSIGN(const std::optional<std::string> ranks, read_file(dir + "/tiktoken.model"));
  if (!ranks) return not_found("%s: neither tokenizer.json nor tiktoken.model", dir.c_str());
  hash->update(*ranks);
  if (config) hash->update(*config);
  Result<Vocabulary> v = load_tiktoken(*ranks, config ? *config : "{}");
  return v.ok() ? std::move(v) : Result<Vocabulary>(v.status().with_context(dir));
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::load(const std::string& model_dir) {
  try {
    Sha256 hash;
    auto state = std::make_unique<State>();
    if (is_gguf_path(model_dir)) {
      VESTIGE_ASSIGN(const GgufFile file, GgufFile::open(model_dir));
      Result<Vocabulary> v = load_gguf_tokenizer(file);
      if (!v.ok()) return v.status().with_context(model_dir);
      state->vocabulary = std::move(*v);
      VESTIGE_ASSIGN(state->fingerprint, sha256_file(model_dir));
    } else {
      VESTIGE_ASSIGN(state->vocabulary, load_files(model_dir, &hash));
      VESTIGE_ASSIGN(state->fingerprint, hash.finish());
    }
    return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(state)));
  } catch (const std::bad_alloc&) {
    return out_of_memory("%s: no memory for the tokenizer", model_dir.c_str());
  }
}

Status Tokenizer::encode(std::string_view bytes, AddedTokens added, std::vector<int32_t>* ids) const {
  if (bytes.size() > INT32_MAX) return invalid_argument("text of %zu bytes, want at most %d", bytes.size(), INT32_MAX);
  const Vocabulary& v = state_->vocabulary;
  const size_t n_before = ids->size();
  try {
    BpeScratch scratch;
    size_t unknown = std::string_view::npos;
    const auto on_text = [&](std::string_view text) {
      if (unknown != std::string_view::npos) return;
      unknown = v.bpe.find_unknown(text);
      if (unknown != std::string_view::npos) {
        unknown += static_cast<size_t>(text.data() - bytes.data());
        return;
      }
      for_each_piece(v.rules, text, [&](std::string_view piece) { v.bpe.encode(piece, scratch, ids); });
    };
    if (added == AddedTokens::kRecognised) {
      v.added.split(
          bytes, [&](int32_t id) { ids->push_back(id); }, on_text);
    } else {
      on_text(bytes);
    }
    if (unknown == std::string_view::npos) return {};
    ids->resize(n_before);
    return invalid_argument("text has byte 0x%02x at %zu, for which the vocabulary has no token",
                            static_cast<unsigned>(static_cast<uint8_t>(bytes[unknown])), unknown);
  } catch (const std::bad_alloc&) {
    ids->resize(n_before);
    return out_of_memory("no memory to encode %zu bytes", bytes.size());
  }
}

Status Tokenizer::decode(std::span<const int32_t> ids, std::string* bytes) const {
  const TokenTable& tokens = state_->vocabulary.bpe.tokens;
  const size_t n_before = bytes->size();
  try {
    for (size_t i = 0; i < ids.size(); ++i) {
      if (!tokens.has(ids[i])) {
        bytes->resize(n_before);
        return invalid_argument("ids[%zu] = %d, want a token's id, below %lld", i, ids[i],
                                static_cast<long long>(tokens.size()));
      }
      *bytes += tokens.bytes(ids[i]);
    }
    return {};
  } catch (const std::bad_alloc&) {
    bytes->resize(n_before);
    return out_of_memory("no memory to decode %zu ids", ids.size());
  }
}

std::optional<std::string_view> Tokenizer::token_bytes(int32_t id) const {
  const TokenTable& tokens = state_->vocabulary.bpe.tokens;
  if (!tokens.has(id)) return std::nullopt;
  return tokens.bytes(id);
}

int64_t Tokenizer::vocab_size() const { return state_->vocabulary.bpe.tokens.size(); }

std::optional<int32_t> Tokenizer::token_id(std::string_view bytes) const {
  const Vocabulary& v = state_->vocabulary;
  const std::optional<int32_t> id = v.added.find(bytes);
  return id ? id : v.bpe.by_bytes.find(v.bpe.tokens, bytes);
}

bool Tokenizer::is_special(int32_t id) const {
  const std::vector<bool>& special = state_->vocabulary.special;
  return id >= 0 && static_cast<size_t>(id) < special.size() && special[static_cast<size_t>(id)];
}

std::optional<int32_t> Tokenizer::bos_id() const { return state_->vocabulary.bos; }
std::optional<int32_t> Tokenizer::eos_id() const { return state_->vocabulary.eos; }
const std::string& Tokenizer::chat_template() const { return state_->vocabulary.chat_template; }
const std::string& Tokenizer::fingerprint() const { return state_->fingerprint; }

}  // namespace vestige
