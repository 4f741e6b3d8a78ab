#include "base/json.h"

#include <exception>
#include <new>
#include <utility>
#include <vector>

#include "base/mapped_file.h"

namespace vestige {

namespace {

using nlohmann::json;

// Builds the value like nlohmann's own handler, but stops at a limit or a key seen before. The offset of such a stop
// is found by the caller from what the parser had read, see CountingIterator.
class Builder final : public nlohmann::json_sax<json> {
 public:
  Builder(const JsonLimits& limits, json* root) : limits_(limits), root_(root) {}

  bool null() override { return put(json(nullptr)) != nullptr; }
  bool boolean(bool v) override { return put(json(v)) != nullptr; }
  bool number_integer(number_integer_t v) override { return put(json(v)) != nullptr; }
  bool number_unsigned(number_unsigned_t v) override { return put(json(v)) != nullptr; }
  bool number_float(number_float_t v, const string_t&) override { return put(json(v)) != nullptr; }
  bool string(string_t& v) override { return put(json(std::move(v))) != nullptr; }
  bool binary(binary_t&) override { return fail("binary value"); }
  bool start_object(std::size_t) override { return open(json::object()); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    auto& object = stack_.back()->get_ref<json::object_t&>();
    const auto [it, fresh] = object.try_emplace(std::move(name));
    slot_ = &it->second;
    return fresh || fail("a key for the second time in one object: \"" + it->first.substr(0, 64) + "\"");
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& e) override {
    position_ = position;
    return fail(e.what());
  }

  const std::string& problem() const { return problem_; }
  size_t position() const { return position_; }

 private:
  json* put(json value) {
    if (++n_values_ > limits_.max_values) {
      fail("more than " + std::to_string(limits_.max_values) + " values");
      return nullptr;
    }
    if (stack_.empty()) {
      *root_ = std::move(value);
      return root_;
    }
    if (stack_.back()->is_array()) {
      auto& array = stack_.back()->get_ref<json::array_t&>();
      return &array.emplace_back(std::move(value));
    }
    *slot_ = std::move(value);
    return slot_;
  }

  bool open(json container) {
    if (stack_.size() >= static_cast<size_t>(limits_.max_depth)) {
      return fail("nested deeper than " + std::to_string(limits_.max_depth));
    }
    json* placed = put(std::move(container));
    if (placed == nullptr) return false;
    stack_.push_back(placed);
    return true;
  }

  bool close() {
    stack_.pop_back();
    return true;
  }

  bool fail(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }

  const JsonLimits& limits_;
  json* root_;
  json* slot_ = nullptr;      // where the value after the last key goes
  std::vector<json*> stack_;  // a container's address is fixed while it is open: its parent only grows after it closes
  size_t n_values_ = 0;
  std::string problem_;
  size_t position_ = 0;
};

// Tells how far the parser has read when the builder stops it.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, const char** seen) : at_(at), seen_(seen) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    *seen_ = ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    const CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** seen_;
};

}  // namespace

Result<json> parse_json(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes) {
    return data_loss("JSON of %zu bytes, want at most %zu", text.size(), limits.max_bytes);
  }
  const char* const begin = text.data();
  const char* seen = begin;
  try {
    json root;
    Builder builder(limits, &root);
    const CountingIterator first(begin, &seen), last(begin + text.size(), &seen);
    if (json::sax_parse(first, last, &builder, json::input_format_t::json, true)) return root;
    const size_t offset = builder.position() != 0 ? builder.position() : static_cast<size_t>(seen - begin);
    return data_loss("not accepted as JSON at byte %zu: %s", offset, builder.problem().c_str());
  } catch (const std::bad_alloc&) {
    return out_of_memory("JSON of %zu bytes: no memory for its values", text.size());
  } catch (const std::exception& e) {
    return data_loss("not accepted as JSON at byte %zu: %s", static_cast<size_t>(seen - begin), e.what());
  }
}

Result<json> read_json(const std::string& path, const JsonLimits& limits) {
  VESTIGE_ASSIGN(const MappedFile file, MappedFile::open(path));
  if (file.bytes().size() > limits.max_bytes) {
    return data_loss("%s: %zu bytes, want at most %zu", path.c_str(), file.bytes().size(), limits.max_bytes);
  }
  std::string text(file.bytes().size(), '\0');
  VESTIGE_TRY(file.read(0, std::as_writable_bytes(std::span(text.data(), text.size()))));
  Result<json> parsed = parse_json(text, limits);
  return parsed.ok() ? std::move(parsed) : Result<json>(parsed.status().with_context(path));
}

const json* json_member(const json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

std::optional<int64_t> json_int(const json& value, int64_t min, int64_t max) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
  const auto n = value.get<int64_t>();
  return n >= min && n <= max ? std::optional(n) : std::nullopt;
}

}  // namespace vestige
