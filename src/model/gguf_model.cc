#include "model/gguf_model.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/load_number.h"

namespace vestige {

namespace {

using nlohmann::json;

struct Name {
  std::string_view gguf, hub;
};
constexpr std::array<Name, 3> kModelNames = {
    Name{"token_embd.weight", "model.embed_tokens.weight"},
    Name{"output_norm.weight", "model.norm.weight"},
    Name{"output.weight", "lm_head.weight"},
};
constexpr std::array<Name, 11> kLayerNames = {
    Name{"attn_norm", "input_layernorm"},    Name{"attn_q", "self_attn.q_proj"},
    Name{"attn_k", "self_attn.k_proj"},      Name{"attn_v", "self_attn.v_proj"},
    Name{"attn_output", "self_attn.o_proj"}, Name{"attn_q_norm", "self_attn.q_norm"},
    Name{"attn_k_norm", "self_attn.k_norm"}, Name{"ffn_norm", "post_attention_layernorm"},
    Name{"ffn_gate", "mlp.gate_proj"},       Name{"ffn_up", "mlp.up_proj"},
    Name{"ffn_down", "mlp.down_proj"},
};

/// Divides the frequencies of the rotation, pair by pair: how converters store llama3 scaling.
constexpr std::string_view kRopeFactors = "rope_freqs.weight";

/// Keys below "<architecture>." that are read, or that change no number here. Any other is refused.
constexpr std::array<std::string_view, 21> kKnownKeys = {
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
    "attention.causal",
    "rope.freq_base",
    "rope.dimension_count",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.finetuned",
    "vocab_size",
    "expert_count",
    "expert_used_count",
    "tensor_data_layout",
};

class Reader {
 public:
  explicit Reader(const GgufFile& file) : file_(file) {}

  Result<Config> run() {
    VESTIGE_ASSIGN(const std::string_view name, file_.text("general.architecture"));
    constexpr std::array<std::string_view, 3> kArchs = {"llama", "qwen2", "qwen3"};
    if (std::find(kArchs.begin(), kArchs.end(), name) == kArchs.end()) {
      return unsupported("%s: general.architecture = \"%.40s\", want llama, qwen2 or qwen3", path(),
                         std::string(name).c_str());
    }
    arch_ = name;
    out_["model_type"] = arch_;
    VESTIGE_TRY(refuse_unknown());
    VESTIGE_TRY(read_sizes());
    VESTIGE_TRY(read_heads());
    VESTIGE_TRY(read_positions());
    VESTIGE_TRY(read_ids());
    out_["tie_word_embeddings"] = file_.find("output.weight") == nullptr;
    // Llama's biases come with the file, there is no key; qwen2 has them always.
    if (arch_ != "qwen2") out_["attention_bias"] = has_biases();
    // Converters reorder the rows of llama's q and k so that the pairs of the rotation are neighbours.
    out_["rope_interleave"] = arch_ == "llama";
    return Config::parse(out_.dump(), file_.file().path());
  }

 private:
  const char* path() const { return file_.file().path().c_str(); }
  std::string key(std::string_view name) const { return arch_ + "." + std::string(name); }
  bool has(std::string_view name) const { return file_.contains(key(name)); }

  Status copy_integer(std::string_view name, const char* to) {
    VESTIGE_ASSIGN(out_[to], file_.integer(key(name)));
    return {};
  }
  Status copy_real(std::string_view name, const char* to) {
    VESTIGE_ASSIGN(out_[to], finite(name));
    return {};
  }
  /// JSON has no other numbers: one that is not finite would read as absent.
  Result<double> finite(std::string_view name) const {
    VESTIGE_ASSIGN(const double value, file_.real(key(name)));
    if (!std::isfinite(value)) {
      return data_loss("%s: %s = %g, want a finite number", path(), key(name).c_str(), value);
    }
    return value;
  }
  /// Biases there are, in any projection of the first layer. A partial set fails as missing.
  bool has_biases() const {
    constexpr std::array<const char*, 4> kParts = {"q", "k", "v", "output"};
    return std::any_of(kParts.begin(), kParts.end(), [&](const char* part) {
      return file_.find("blk.0.attn_" + std::string(part) + ".bias") != nullptr;
    });
  }

  /// Tensors of other layers or of another architecture would not be read.
  Status refuse_unread(const GgufTensor& tensor, int64_t n_blocks) const {
    const std::string_view name = tensor.name;
    int64_t block = 0;
    const bool in_block = name.starts_with("blk.");
    if (in_block) {
      const auto end = std::from_chars(name.data() + 4, name.data() + name.size(), block);
      if (end.ec != std::errc()) block = n_blocks;
    }
    const bool norm = name.ends_with("attn_q_norm.weight") || name.ends_with("attn_k_norm.weight");
    const bool other = (norm && arch_ != "qwen3") || (arch_ == "qwen2" && name.ends_with("attn_output.bias"));
    if (!(in_block && block >= n_blocks) && !other) return {};
    return unsupported("%s: tensor \"%.80s\" is not one of a %s model of %lld layers", path(), tensor.name.c_str(),
                       arch_.c_str(), static_cast<long long>(n_blocks));
  }

  /// What we do not know may change the numbers.
  Status refuse_unknown() const {
    const std::string prefix = arch_ + ".";
    for (const std::string& full : file_.keys()) {
      if (!full.starts_with(prefix)) continue;
      const std::string_view name = std::string_view(full).substr(prefix.size());
      if (std::find(kKnownKeys.begin(), kKnownKeys.end(), name) == kKnownKeys.end()) {
        return unsupported("%s: metadata \"%.80s\" is not known", path(), full.c_str());
      }
    }
    VESTIGE_ASSIGN(const int64_t n_blocks, file_.integer(key("block_count")));
    for (const GgufTensor& tensor : file_.tensors()) {
      VESTIGE_TRY(refuse_unread(tensor, n_blocks));
      if (tensor.name != kRopeFactors && !hub_name_of(tensor.name)) {
        return unsupported("%s: tensor \"%.80s\" is not one of the Llama family", path(), tensor.name.c_str());
      }
    }
    for (const char* name : {"expert_count", "expert_used_count"}) {
      if (!has(name)) continue;
      VESTIGE_ASSIGN(const int64_t n, file_.integer(key(name)));
      if (n != 0) return unsupported("%s: %s = %lld, want 0", path(), key(name).c_str(), static_cast<long long>(n));
    }
    if (has("tensor_data_layout")) {
      VESTIGE_ASSIGN(const std::string_view layout, file_.text(key("tensor_data_layout")));
      if (layout != "reference" && layout != "Meta AI original pth") {
        return unsupported("%s: %s = \"%.40s\", want reference", path(), key("tensor_data_layout").c_str(),
                           std::string(layout).c_str());
      }
    }
    if (has("attention.causal")) {
      VESTIGE_ASSIGN(const bool causal, file_.boolean(key("attention.causal")));
      if (!causal) return unsupported("%s: %s = false", path(), key("attention.causal").c_str());
    }
    return {};
  }

  Status read_sizes() {
    VESTIGE_TRY(copy_integer("block_count", "num_hidden_layers"));
    VESTIGE_TRY(copy_integer("context_length", "max_position_embeddings"));
    VESTIGE_TRY(copy_integer("embedding_length", "hidden_size"));
    VESTIGE_TRY(copy_integer("feed_forward_length", "intermediate_size"));
    VESTIGE_TRY(copy_real("attention.layer_norm_rms_epsilon", "rms_norm_eps"));
    int64_t n_tokens = 0;
    if (file_.contains("tokenizer.ggml.tokens")) {
      VESTIGE_ASSIGN(const auto tokens, file_.texts("tokenizer.ggml.tokens"));
      n_tokens = static_cast<int64_t>(tokens.size());
    }
    int64_t n_vocab = n_tokens;
    if (has("vocab_size")) {
      VESTIGE_ASSIGN(n_vocab, file_.integer(key("vocab_size")));
    }
    if (n_tokens > n_vocab) {
      return data_loss("%s: %lld tokens, want at most %s = %lld", path(), static_cast<long long>(n_tokens),
                       key("vocab_size").c_str(), static_cast<long long>(n_vocab));
    }
    out_["vocab_size"] = n_vocab;
    return {};
  }

  Status read_heads() {
    VESTIGE_TRY(copy_integer("attention.head_count", "num_attention_heads"));
    const bool grouped = has("attention.head_count_kv");
    VESTIGE_TRY(copy_integer(grouped ? "attention.head_count_kv" : "attention.head_count", "num_key_value_heads"));
    const int64_t d_model = out_["hidden_size"], n_heads = out_["num_attention_heads"];
    if (!has("attention.key_length") && (n_heads < 1 || d_model % n_heads != 0)) {
      return data_loss("%s: %s = %lld, want a divisor of %s = %lld", path(), key("attention.head_count").c_str(),
                       static_cast<long long>(n_heads), key("embedding_length").c_str(),
                       static_cast<long long>(d_model));
    }
    out_["head_dim"] = n_heads < 1 ? 0 : d_model / n_heads;
    if (has("attention.key_length")) VESTIGE_TRY(copy_integer("attention.key_length", "head_dim"));
    const int64_t d_head = out_["head_dim"];
    for (const char* name : {"attention.value_length", "rope.dimension_count"}) {
      if (!has(name)) continue;
      VESTIGE_ASSIGN(const int64_t width, file_.integer(key(name)));
      if (width != d_head) {
        return unsupported("%s: %s = %lld, want the width of keys, %lld", path(), key(name).c_str(),
                           static_cast<long long>(width), static_cast<long long>(d_head));
      }
    }
    if (!has("attention.sliding_window")) return {};
    VESTIGE_ASSIGN(const int64_t window, file_.integer(key("attention.sliding_window")));
    const int64_t max_tokens = out_["max_position_embeddings"];
    if (window == 0 || window >= max_tokens) return {};
    return unsupported("%s: %s = %lld below %s = %lld", path(), key("attention.sliding_window").c_str(),
                       static_cast<long long>(window), key("context_length").c_str(),
                       static_cast<long long>(max_tokens));
  }

  Status read_positions() {
    out_["rope_theta"] = 1e4;
    if (has("rope.freq_base")) VESTIGE_TRY(copy_real("rope.freq_base", "rope_theta"));
    std::string type = "none";
    if (has("rope.scaling.type")) {
      VESTIGE_ASSIGN(type, file_.text(key("rope.scaling.type")));
    }
    json scaling = json::object();
    if (type == "linear") {
      scaling["rope_type"] = type;
      VESTIGE_ASSIGN(scaling["factor"], finite("rope.scaling.factor"));
    } else if (type == "none" && has("rope.scaling.factor")) {
      VESTIGE_ASSIGN(const double factor, finite("rope.scaling.factor"));
      if (factor != 1) {
        return unsupported("%s: %s = %g without %s = linear", path(), key("rope.scaling.factor").c_str(), factor,
                           key("rope.scaling.type").c_str());
      }
    } else if (type != "none") {
      return unsupported("%s: %s = \"%.40s\", want none or linear", path(), key("rope.scaling.type").c_str(),
                         type.c_str());
    }
    if (const GgufTensor* factors = file_.find(kRopeFactors)) {
      if (type != "none" || factors->dtype != DType::kF32 || factors->shape.size() != 1) {
        return unsupported("%s: rope_freqs.weight that is no list of F32, or with rope.scaling.type", path());
      }
      std::vector<float> values(static_cast<size_t>(factors->shape[0]));
      decode_blocks(DType::kF32, file_.data(*factors), factors->shape[0], values.data());
      scaling = {{"rope_type", "factors"}, {"factors", values}};
    }
    if (!scaling.empty()) out_["rope_scaling"] = scaling;
    return {};
  }

  Status read_ids() {
    if (file_.contains("tokenizer.ggml.bos_token_id")) {
      VESTIGE_ASSIGN(out_["bos_token_id"], file_.integer("tokenizer.ggml.bos_token_id"));
    }
    json ends = json::array();
    for (const char* name : {"eos", "eot", "eom"}) {
      const std::string full = std::string("tokenizer.ggml.") + name + "_token_id";
      if (!file_.contains(full)) continue;
      VESTIGE_ASSIGN(const int64_t id, file_.integer(full));
      if (std::find(ends.begin(), ends.end(), json(id)) == ends.end()) ends.push_back(id);
    }
    out_["eos_token_id"] = ends;
    return {};
  }

  const GgufFile& file_;
  std::string arch_;
  json out_ = json::object();
};

}  // namespace

bool is_gguf_path(const std::string& path) { return path.ends_with(".gguf"); }

std::optional<std::string> hub_name_of(std::string_view name) {
  for (const Name& known : kModelNames) {
    if (name == known.gguf) return std::string(known.hub);
  }
  if (!name.starts_with("blk.")) return std::nullopt;
  const size_t begin = 4, end = name.find('.', begin), last = name.rfind('.');
  if (end == std::string_view::npos || end == begin || last <= end) return std::nullopt;
  const std::string_view number = name.substr(begin, end - begin), part = name.substr(end + 1, last - end - 1),
                         kind = name.substr(last + 1);
  if (number.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  const bool projects = part == "attn_q" || part == "attn_k" || part == "attn_v" || part == "attn_output";
  if (kind != "weight" && !(kind == "bias" && projects)) return std::nullopt;
  for (const Name& known : kLayerNames) {
    if (part != known.gguf) continue;
    return "model.layers." + std::string(number) + "." + std::string(known.hub) + "." + std::string(kind);
  }
  return std::nullopt;
}

Result<Config> read_gguf_config(const GgufFile& file) { return Reader(file).run(); }

}  // namespace vestige
