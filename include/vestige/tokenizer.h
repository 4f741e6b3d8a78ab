#pragma once

// Text to token ids and back: byte-level BPE, as hub checkpoints ship it.
//
// Two sources, looked for in this order in a model folder, and a third if the model is a file:
//   tokenizer.json   BPE with ByteLevel, Digits(individual) and Split by one of the regexes of GPT-2, Llama 3 (=
//   GPT-4),
//                    Qwen 2, o200k or Kimi; tokenizer_config.json is read for bos and eos if it is there
//   tiktoken.model   base64 ranks, split as Kimi does; added tokens from tokenizer_config.json
//   a .gguf file     tokenizer.ggml.model gpt2 with pre smollm, gpt-2, llama-bpe or qwen2; nothing beside it is read
// Anything else in them (a normalizer, another regex, lstrip, ...) is Unsupported, named, never approximated.
// Ids equal those of the libraries `tokenizers` and `tiktoken` for valid UTF-8 (tests/tokenizer; Unicode 16.0 classes).
// Post-processors, padding and truncation are not applied: encode gives the ids of the text alone.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "vestige/status.h"

namespace vestige {

/// What the text "<|eos|>" inside the input becomes.
enum class AddedTokens : uint8_t {
  kAsText,      ///< the pieces of those seven characters: for documents, which must not steer the model.
                ///< No id that is_special() can come out, and added tokens that are not special are text as well.
  kRecognised,  ///< the token of that name, as `tokenizers` and tiktoken's allowed_special="all" do: for templates
};

/// A loaded vocabulary with its rules. Immutable: any number of threads may use one at once.
class Tokenizer {
 public:
  /// @param model_dir a folder, or a file ending in .gguf
  /// @return NotFound if the folder has neither file; IoError; DataLoss naming the field that is wrong;
  ///         Unsupported naming the component this build does not do; OutOfMemory.
  static Result<std::unique_ptr<Tokenizer>> load(const std::string& model_dir);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// Appends the ids of `bytes` to *ids. Any bytes are taken, NUL and invalid UTF-8 too: a byte that belongs to no
  /// valid character is split off like a symbol. Time grows as n, or n log n inside one piece (a 10 MB word).
  /// @return InvalidArgument for 2 GiB or more, and naming the first byte that the vocabulary has no token for (SmolLM2
  /// lacks six control characters and bytes of no or hardly any UTF-8); OutOfMemory. *ids is as before then.
  Status encode(std::string_view bytes, AddedTokens added, std::vector<int32_t>* ids) const;
  /// For documents: AddedTokens::kAsText.
  Status encode(std::string_view bytes, std::vector<int32_t>* ids) const {
    return encode(bytes, AddedTokens::kAsText, ids);
  }

  /// Appends the bytes of `ids` to *bytes: exactly those encode was given. A cut sequence of ids may end or begin
  /// inside a character, see StreamDecoder. Added tokens, special or not, give their names.
  /// @return InvalidArgument naming the first id without a token; *bytes is as before then.
  Status decode(std::span<const int32_t> ids, std::string* bytes) const;

  /// Bytes of one token, valid as long as the tokenizer; nullopt if no token has this id.
  std::optional<std::string_view> token_bytes(int32_t id) const;

  /// Largest id + 1. A model's embedding may have more rows; ids between may be without a token.
  int64_t vocab_size() const;
  /// The added token of this name, else the token of exactly these bytes.
  std::optional<int32_t> token_id(std::string_view bytes) const;
  /// Whether the files call it special: a control token that decoded text should not show.
  bool is_special(int32_t id) const;

  /// Ids of bos_token and eos_token in tokenizer_config.json or a GGUF file; nullopt where it is silent.
  std::optional<int32_t> bos_id() const;
  std::optional<int32_t> eos_id() const;

  /// The Jinja text in a GGUF file, empty otherwise. Nothing here runs it.
  const std::string& chat_template() const;

  /// SHA-256 in hex of tokenizer.json, or of the GGUF file; of tiktoken.model followed by tokenizer_config.json in the
  /// other case.
  const std::string& fingerprint() const;

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Decodes ids one at a time and holds back the bytes of a character until it is whole, at most 3 bytes.
class StreamDecoder {
 public:
  enum class Invalid : uint8_t {
    kKeep,     ///< invalid UTF-8 passes as it is: all output together equals Tokenizer::decode
    kReplace,  ///< each maximal invalid part becomes U+FFFD, as in Python's errors="replace": output is always UTF-8
  };

  /// `tokenizer` must outlive the decoder.
  explicit StreamDecoder(const Tokenizer& tokenizer, Invalid invalid = Invalid::kReplace)
      : tokenizer_(tokenizer), invalid_(invalid) {}

  /// Appends to *text what `id` completes, perhaps nothing.
  /// @return InvalidArgument if no token has this id; the state is as before then.
  Status push(int32_t id, std::string* text);
  /// Appends what is still held back (an unfinished character) and starts anew.
  void finish(std::string* text);

 private:
  const Tokenizer& tokenizer_;
  Invalid invalid_;
  std::string held_;  // the beginning of one character, always a valid prefix
};

}  // namespace vestige
