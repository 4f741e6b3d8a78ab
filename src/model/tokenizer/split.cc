#include "model/tokenizer/split.h"

namespace vestige {

namespace {

struct KnownRegex {
  std::string_view regex;
  SplitRule rule;
};

#define VESTIGE_CASED(upper, lower)        \
  "[^\\r\\n\\p{L}\\p{N}]?" upper "*" lower \
  "+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"        \
  "[^\\r\\n\\p{L}\\p{N}]?" upper "+" lower \
  "*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"        \
  "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+"

constexpr KnownRegex kKnownRegexes[] = {
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", SplitRule::kGpt2},
    {R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", SplitRule::kGpt2},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     SplitRule::kLlama3},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     SplitRule::kQwen2},
    {VESTIGE_CASED("[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]",
                   "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]") "[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     SplitRule::kO200k},
    {"[\\p{Han}]+|" VESTIGE_CASED(
         "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]",
         "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]") "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     SplitRule::kKimi},
};
#undef VESTIGE_CASED

bool is_newline(uint32_t code_point) { return code_point == '\n' || code_point == '\r'; }

// What ASCII letters the endings are made of; (?i) also takes U+017F (long s) for s, the only such letter here.
uint32_t ending_letter(uint32_t code_point, bool any_case) {
  if (!any_case) return code_point;
  if (code_point >= 'A' && code_point <= 'Z') return code_point + 32;
  return code_point == 0x17f ? 's' : code_point;
}

}  // namespace

std::optional<SplitRule> split_rule_of_regex(std::string_view regex) {
  for (const KnownRegex& known : kKnownRegexes) {
    if (known.regex == regex) return known.rule;
  }
  return std::nullopt;
}

std::string_view regex_of_split_rule(SplitRule rule) {
  for (const KnownRegex& known : kKnownRegexes) {
    if (known.rule == rule) return known.regex;
  }
  return {};
}

size_t Splitter::run(size_t at, uint8_t classes) {
  for (Char c = read(at); c.classes & classes; c = read(at)) at += c.n_bytes;
  return at;
}

size_t Splitter::numbers(size_t at, int max) {
  for (Char c = read(at); max > 0 && (c.classes & kNumber); c = read(at), --max) at += c.n_bytes;
  return at;
}

// 's 't 'm 'd 're 've 'll; `at` where there is none.
size_t Splitter::contraction(size_t at, bool any_case) {
  if (at >= text_.size() || text_[at] != '\'') return at;
  const Char first = read(at + 1);
  const size_t second_at = at + 1 + first.n_bytes;
  const uint32_t a = ending_letter(first.code_point, any_case);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return second_at;
  if (a != 'r' && a != 'v' && a != 'l') return at;
  const Char second = read(second_at);
  const uint32_t b = ending_letter(second.code_point, any_case);
  return b == (a == 'l' ? 'l' : 'e') ? second_at + second.n_bytes : at;
}

size_t Splitter::newlines(size_t at, bool slash) {
  while (at < text_.size() && (text_[at] == '\n' || text_[at] == '\r' || (slash && text_[at] == '/'))) ++at;
  return at;
}

// [^\s\p{L}\p{N}]+
size_t Splitter::symbols(size_t at) {
  for (Char c = read(at); c.n_bytes != 0 && !(c.classes & (kSpace | kLetter | kNumber)); c = read(at)) at += c.n_bytes;
  return at;
}

// \s*[\r\n]+ (if newline_rule), else \s+(?!\S), else \s+: a run of white space up to its last newline, or whole at the
// end of the text, or less its last character, which the next piece may want, or that one alone.
size_t Splitter::spaces(size_t at, bool newline_rule) {
  size_t end = at, last = at, after_newline = at;
  for (Char c = read(at); c.classes & kSpace; c = read(end)) {
    last = end;
    end += c.n_bytes;
    if (is_newline(c.code_point)) after_newline = end;
  }
  if (newline_rule && after_newline != at) return after_newline;
  return end == text_.size() || last == at ? end : last;
}

size_t Splitter::next_digits(size_t at) {
  Char c = read(at);
  if (c.classes & kNumber) return at + c.n_bytes;
  while (c.n_bytes != 0 && !(c.classes & kNumber)) {
    at += c.n_bytes;
    c = read(at);
  }
  return at;
}

size_t Splitter::next_gpt2(size_t at) {
  const size_t ending = contraction(at, false);
  if (ending != at) return ending;
  const size_t body = text_[at] == ' ' ? at + 1 : at;
  const Char c = read(body);
  if (c.classes & kLetter) return run(body, kLetter);
  if (c.classes & kNumber) return run(body, kNumber);
  if (c.n_bytes != 0 && !(c.classes & kSpace)) return symbols(body);
  return spaces(at, false);
}

size_t Splitter::next_llama3(size_t at, int max_numbers) {
  const size_t ending = contraction(at, true);
  if (ending != at) return ending;
  const Char c = read(at);
  if (c.classes & kLetter) return run(at, kLetter);
  if (c.classes & kNumber) return numbers(at, max_numbers);
  if (!is_newline(c.code_point)) {
    const size_t word = run(at + c.n_bytes, kLetter);
    if (word != at + c.n_bytes) return word;
  }
  const size_t body = c.code_point == ' ' ? at + 1 : at;
  const size_t end = symbols(body);
  if (end != body) return newlines(end, false);
  return spaces(at, true);
}

// A run of letters or marks of these classes; Kimi's classes leave out Han.
size_t Splitter::cased_run(size_t at, uint8_t classes) {
  for (Char c = read(at); (c.classes & classes) && !(rule_ == SplitRule::kKimi && (c.classes & kHan)); c = read(at)) {
    at += c.n_bytes;
  }
  return at;
}

// UPPER*LOWER+ from `at`, or `at`. Caseless letters and marks are in both classes. UPPER* takes all it can; if no
// lower-case letter follows, the regex gives back up to the last caseless one, which is then LOWER+.
size_t Splitter::upper_lower(size_t at) {
  constexpr uint8_t kCaseless = kOtherLetter | kMark;
  size_t end = at, after_caseless = at;
  Char c = read(at);
  while ((c.classes & (kUpper | kCaseless)) && !(rule_ == SplitRule::kKimi && (c.classes & kHan))) {
    end += c.n_bytes;
    if (c.classes & kCaseless) after_caseless = end;
    c = read(end);
  }
  return c.classes & kLower ? cased_run(end, kLower | kCaseless) : after_caseless;
}

// The two word alternatives of o200k and Kimi, each first with its optional leading character, then without.
size_t Splitter::cased_word(size_t at) {
  const Char c = read(at);
  const bool lead = c.n_bytes != 0 && !(c.classes & (kLetter | kNumber)) && !is_newline(c.code_point);
  const size_t body = lead ? at + c.n_bytes : at;
  constexpr uint8_t kAnyUpper = kUpper | kOtherLetter | kMark;
  constexpr uint8_t kAnyLower = kLower | kOtherLetter | kMark;
  size_t end = upper_lower(body);
  if (end == body) {
    end = lead ? upper_lower(at) : at;
    if (end == at) {
      const size_t upper = cased_run(body, kAnyUpper);
      if (upper == body) return at;  // with a lead that is a mark, upper_lower(at) has matched it already
      end = cased_run(upper, kAnyLower);
    }
  }
  return contraction(end, true);
}

size_t Splitter::next_o200k(size_t at) {
  const bool kimi = rule_ == SplitRule::kKimi;
  if (kimi) {
    const size_t han = run(at, kHan);
    if (han != at) return han;
  }
  const size_t word = cased_word(at);
  if (word != at) return word;
  const size_t digits = numbers(at, 3);
  if (digits != at) return digits;
  const size_t body = text_[at] == ' ' ? at + 1 : at;
  const size_t end = symbols(body);
  if (end != body) return newlines(end, !kimi);
  return spaces(at, true);
}

size_t Splitter::next(size_t at) {
  switch (rule_) {
    case SplitRule::kDigits:
      return next_digits(at);
    case SplitRule::kGpt2:
      return next_gpt2(at);
    case SplitRule::kLlama3:
      return next_llama3(at, 3);
    case SplitRule::kQwen2:
      return next_llama3(at, 1);
    case SplitRule::kO200k:
    case SplitRule::kKimi:
      return next_o200k(at);
  }
  return text_.size();
}

}  // namespace vestige
