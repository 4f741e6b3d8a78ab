#include "base/gguf.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstring>
#include <utility>

namespace vestige {

namespace {

constexpr uint64_t kMostAlignment = uint64_t{1} << 20;
constexpr uint32_t kMostDimensions = 4;
constexpr uint64_t kMostElements = uint64_t{1} << 48;

// Types of metadata values, by their numbers in the file.
enum Kind : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };

/// Bytes of one value; 0 = not of fixed width.
uint64_t width_of(uint32_t kind) {
  constexpr std::array<uint64_t, 13> kWidths = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kind < kWidths.size() ? kWidths[kind] : 0;
}

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

bool is_integer(uint32_t kind) { return kind <= kI32 || kind == kU64 || kind == kI64; }
bool is_real(uint32_t kind) { return kind == kF32 || kind == kF64; }

/// @return false for a u64 past 2^63
bool load_integer(uint32_t kind, const std::byte* at, int64_t* out) {
  switch (kind) {
    case kU8:
      *out = load<uint8_t>(at);
      break;
    case kI8:
      *out = load<int8_t>(at);
      break;
    case kU16:
      *out = load<uint16_t>(at);
      break;
    case kI16:
      *out = load<int16_t>(at);
      break;
    case kU32:
      *out = load<uint32_t>(at);
      break;
    case kI32:
      *out = load<int32_t>(at);
      break;
    default:
      *out = load<int64_t>(at);
      return kind == kI64 || *out >= 0;
  }
  return true;
}

double load_real(uint32_t kind, const std::byte* at) {
  return kind == kF32 ? static_cast<double>(load<float>(at)) : load<double>(at);
}

}  // namespace

/// Walks the file once. Every length is held against what is left before it is used.
class GgufFile::Parser {
 public:
  explicit Parser(GgufFile* out) : out_(*out), bytes_(out->file_.bytes()) {}

  Status run() {
    uint32_t magic = 0, version = 0;
    uint64_t n_tensors = 0, n_values = 0;
    VESTIGE_TRY(take(&magic, "magic"));
    if (magic != 0x46554747) return wrong("it does not begin with GGUF");
    VESTIGE_TRY(take(&version, "version"));
    if (version != 2 && version != 3) {
      return unsupported("%s: GGUF version %u, want 2 or 3", path(), version);
    }
    VESTIGE_TRY(take(&n_tensors, "number of tensors"));
    VESTIGE_TRY(take(&n_values, "number of metadata values"));
    for (uint64_t i = 0; i < n_values; ++i) VESTIGE_TRY(read_value());
    // A tensor's description takes 32 bytes and more.
    if (n_tensors > left() / 32) return wrong("%" PRIu64 " tensors do not fit in it", n_tensors);
    for (uint64_t i = 0; i < n_tensors; ++i) VESTIGE_TRY(read_tensor());
    VESTIGE_TRY(place_tensors());
    std::sort(out_.tensors_.begin(), out_.tensors_.end(),
              [](const GgufTensor& a, const GgufTensor& b) { return a.name < b.name; });
    for (size_t i = 1; i < out_.tensors_.size(); ++i) {
      if (out_.tensors_[i].name == out_.tensors_[i - 1].name) {
        return wrong("tensor \"%s\" is there twice", out_.tensors_[i].name.c_str());
      }
    }
    return {};
  }

 private:
  const char* path() const { return out_.file_.path().c_str(); }
  uint64_t left() const { return bytes_.size() - at_; }

  template <class... Args>
  Status wrong(const char* format, Args... args) const {
    return data_loss((std::string("%s: ") + format).c_str(), path(), args...);
  }

  template <class T>
  Status take(T* out, const char* what) {
    if (left() < sizeof(T)) return wrong("it ends inside the %s", what);
    *out = load<T>(bytes_.data() + at_);
    at_ += sizeof(T);
    return {};
  }

  Status take_string(std::string_view* out, const char* what) {
    uint64_t n = 0;
    VESTIGE_TRY(take(&n, what));
    if (n > left()) return wrong("%s of %" PRIu64 " bytes, %" PRIu64 " are left", what, n, left());
    *out = {reinterpret_cast<const char*>(bytes_.data() + at_), static_cast<size_t>(n)};
    at_ += n;
    return {};
  }

  Status read_value() {
    std::string_view key;
    Value value;
    VESTIGE_TRY(take_string(&key, "metadata key"));
    VESTIGE_TRY(take(&value.type, "type of a metadata value"));
    const std::string name(key);
    if (value.type == kArray) {
      value.is_array = true;
      VESTIGE_TRY(take(&value.type, "type of an array"));
      VESTIGE_TRY(take(&value.count, "length of an array"));
    }
    value.offset = at_;
    const uint64_t width = width_of(value.type);
    if (value.type == kString) {
      std::string_view skipped;
      if (value.count > left() / 8) return wrong("%s: %" PRIu64 " strings do not fit in it", name.c_str(), value.count);
      for (uint64_t i = 0; i < value.count; ++i) VESTIGE_TRY(take_string(&skipped, "metadata string"));
    } else if (width > 0) {
      if (value.count > left() / width)
        return wrong("%s: %" PRIu64 " values do not fit in it", name.c_str(), value.count);
      at_ += value.count * width;
    } else {
      return wrong("%s: value of type %u, want 0 to 12, arrays of plain values only", name.c_str(), value.type);
    }
    if (!out_.values_.emplace(name, value).second) return wrong("metadata key \"%s\" is there twice", name.c_str());
    return {};
  }

  Status read_tensor() {
    std::string_view name;
    uint32_t n_dimensions = 0, type = 0;
    GgufTensor tensor;
    VESTIGE_TRY(take_string(&name, "name of a tensor"));
    tensor.name = name;
    VESTIGE_TRY(take(&n_dimensions, "shape of a tensor"));
    if (n_dimensions < 1 || n_dimensions > kMostDimensions) {
      return wrong("tensor \"%s\" has %u dimensions, want 1 to 4", tensor.name.c_str(), n_dimensions);
    }
    uint64_t n_elements = 1;
    for (uint32_t i = 0; i < n_dimensions; ++i) {
      uint64_t n = 0;
      VESTIGE_TRY(take(&n, "shape of a tensor"));
      if (n < 1 || n > kMostElements / n_elements) {
        return wrong("tensor \"%s\" has %" PRIu64 " elements along one dimension", tensor.name.c_str(), n);
      }
      n_elements *= n;
      tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(n));
    }
    VESTIGE_TRY(take(&type, "type of a tensor"));
    VESTIGE_TRY(take(&tensor.offset, "offset of a tensor"));
    const auto known = dtype_of_ggml(type);
    if (!known) {
      return unsupported("%s: tensor \"%s\" has encoding %u; F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q4_K and Q6_K are read",
                         path(), tensor.name.c_str(), type);
    }
    tensor.dtype = *known;
    const DTypeBlock block = dtype_block(tensor.dtype);
    if (tensor.shape.back() % block.n != 0) {
      return wrong("tensor \"%s\" has rows of %" PRId64 " numbers, not a multiple of %s's %" PRId64,
                   tensor.name.c_str(), tensor.shape.back(), dtype_name(tensor.dtype), block.n);
    }
    tensor.n_bytes = n_elements / static_cast<uint64_t>(block.n) * static_cast<uint64_t>(block.n_bytes);
    out_.tensors_.push_back(std::move(tensor));
    return {};
  }

  /// Offsets from the start of the data to offsets in the file: aligned, inside, and disjoint.
  Status place_tensors() {
    int64_t alignment = 32;
    if (out_.contains("general.alignment")) {
      VESTIGE_ASSIGN(alignment, out_.integer("general.alignment"));
    }
    if (alignment < 1 || (alignment & (alignment - 1)) != 0 || static_cast<uint64_t>(alignment) > kMostAlignment) {
      return wrong("general.alignment = %" PRId64 ", want a power of two up to 2^20", alignment);
    }
    const auto step = static_cast<uint64_t>(alignment);
    const uint64_t begin = (at_ + step - 1) / step * step;
    if (!out_.tensors_.empty() && begin > bytes_.size()) return wrong("it ends before its data");
    std::vector<std::pair<uint64_t, const GgufTensor*>> order;
    for (GgufTensor& t : out_.tensors_) {
      const uint64_t room = bytes_.size() - begin;
      if (t.offset % step != 0) {
        return wrong("tensor \"%s\" at %" PRIu64 ", not a multiple of %" PRIu64, t.name.c_str(), t.offset, step);
      }
      if (t.offset > room || t.n_bytes > room - t.offset) {
        return wrong("tensor \"%s\" of %" PRIu64 " bytes reaches past its end", t.name.c_str(), t.n_bytes);
      }
      t.offset += begin;
      order.emplace_back(t.offset, &t);
    }
    std::sort(order.begin(), order.end());
    for (size_t i = 1; i < order.size(); ++i) {
      const GgufTensor &a = *order[i - 1].second, &b = *order[i].second;
      if (a.offset + a.n_bytes > b.offset) {
        return wrong("tensors \"%s\" and \"%s\" overlap", a.name.c_str(), b.name.c_str());
      }
    }
    return {};
  }

  GgufFile& out_;
  std::span<const std::byte> bytes_;
  uint64_t at_ = 0;
};

Result<GgufFile> GgufFile::open(const std::string& path) {
  GgufFile out;
  VESTIGE_ASSIGN(out.file_, MappedFile::open(path));
  VESTIGE_TRY(Parser(&out).run());
  return out;
}

Status GgufFile::wrong_kind(const std::string& key, std::string_view kind) const {
  return data_loss("%s: metadata \"%s\" is not %.*s", file_.path().c_str(), key.c_str(), static_cast<int>(kind.size()),
                   kind.data());
}

Result<const GgufFile::Value*> GgufFile::value(const std::string& key, bool is_array, std::string_view kind) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return not_found("%s: no metadata \"%s\"", file_.path().c_str(), key.c_str());
  if (found->second.is_array != is_array) return wrong_kind(key, kind);
  return &found->second;
}

std::vector<std::string> GgufFile::keys() const {
  std::vector<std::string> out;
  for (const auto& [key, value] : values_) out.push_back(key);
  return out;
}

Result<int64_t> GgufFile::integer(const std::string& key) const {
  VESTIGE_ASSIGN(const Value* v, value(key, false, "an integer"));
  int64_t out = 0;
  if (!is_integer(v->type) || !load_integer(v->type, file_.bytes().data() + v->offset, &out)) {
    return wrong_kind(key, "an integer");
  }
  return out;
}

Result<double> GgufFile::real(const std::string& key) const {
  VESTIGE_ASSIGN(const Value* v, value(key, false, "a number"));
  if (is_real(v->type)) return load_real(v->type, file_.bytes().data() + v->offset);
  VESTIGE_ASSIGN(const int64_t whole, integer(key));
  return static_cast<double>(whole);
}

Result<bool> GgufFile::boolean(const std::string& key) const {
  VESTIGE_ASSIGN(const Value* v, value(key, false, "true or false"));
  if (v->type != kBool) return wrong_kind(key, "true or false");
  return load<uint8_t>(file_.bytes().data() + v->offset) != 0;
}

Result<std::string_view> GgufFile::text(const std::string& key) const {
  VESTIGE_ASSIGN(const Value* v, value(key, false, "text"));
  if (v->type != kString) return wrong_kind(key, "text");
  const std::byte* at = file_.bytes().data() + v->offset;
  return std::string_view(reinterpret_cast<const char*>(at + 8), static_cast<size_t>(load<uint64_t>(at)));
}

Result<std::vector<int64_t>> GgufFile::integers(const std::string& key) const {
  VESTIGE_ASSIGN(const Value* v, value(key, true, "a list of integers"));
  if (!is_integer(v->type)) return wrong_kind(key, "a list of integers");
  std::vector<int64_t> out(static_cast<size_t>(v->count));
  const std::byte* at = file_.bytes().data() + v->offset;
  for (int64_t& x : out) {
    if (!load_integer(v->type, at, &x)) return wrong_kind(key, "a list of integers below 2^63");
    at += width_of(v->type);
  }
  return out;
}

Result<std::vector<double>> GgufFile::reals(const std::string& key) const {
  VESTIGE_ASSIGN(const Value* v, value(key, true, "a list of numbers"));
  if (!is_real(v->type)) return wrong_kind(key, "a list of numbers");
  std::vector<double> out(static_cast<size_t>(v->count));
  const std::byte* at = file_.bytes().data() + v->offset;
  for (double& x : out) {
    x = load_real(v->type, at);
    at += width_of(v->type);
  }
  return out;
}

Result<std::vector<std::string_view>> GgufFile::texts(const std::string& key) const {
  VESTIGE_ASSIGN(const Value* v, value(key, true, "a list of texts"));
  if (v->type != kString) return wrong_kind(key, "a list of texts");
  std::vector<std::string_view> out(static_cast<size_t>(v->count));
  const std::byte* at = file_.bytes().data() + v->offset;
  for (std::string_view& text : out) {
    text = {reinterpret_cast<const char*>(at + 8), static_cast<size_t>(load<uint64_t>(at))};
    at += 8 + text.size();
  }
  return out;
}

const GgufTensor* GgufFile::find(std::string_view name) const {
  const auto at = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                   [](const GgufTensor& t, std::string_view n) { return t.name < n; });
  return at == tensors_.end() || at->name != name ? nullptr : &*at;
}

}  // namespace vestige
