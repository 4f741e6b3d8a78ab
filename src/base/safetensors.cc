#include "base/safetensors.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/json.h"

namespace vestige {

namespace {

using nlohmann::json;

constexpr uint64_t kLengthBytes = 8;
constexpr DType kAllDTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3,
                                DType::kI32, DType::kI64, DType::kU8};

/// Bytes of a tensor; false if a dimension is negative or the product of those that are not 0 passes int64. A 0 does
/// not excuse the others: strides are products of some of them.
bool tensor_bytes(DType dtype, const std::vector<int64_t>& shape, uint64_t* n_bytes) {
  int64_t n = 1;
  bool empty = false;
  for (int64_t dim : shape) {
    empty = empty || dim == 0;
    if (dim < 0 || __builtin_mul_overflow(n, dim == 0 ? 1 : dim, &n)) return false;
  }
  if (__builtin_mul_overflow(n, static_cast<int64_t>(dtype_bytes(dtype)), &n)) return false;
  *n_bytes = empty ? 0 : static_cast<uint64_t>(n);
  return true;
}

/// A JSON integer in [0, 2^63); false for any other value, 1.0 and -0 included.
bool read_count(const json& value, uint64_t* out) {
  if (!value.is_number_unsigned()) return false;
  *out = value.get<uint64_t>();
  return *out <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
}

Status read_dtype(const json& value, DType* out) {
  if (!value.is_string()) return data_loss("dtype is not a string");
  const auto& name = value.get_ref<const std::string&>();
  for (DType dtype : kAllDTypes) {
    if (name == dtype_name(dtype)) {
      *out = dtype;
      return {};
    }
  }
  return unsupported("dtype \"%.40s\", want F32, F16, BF16, F8_E4M3, I32, I64 or U8", name.c_str());
}

/// One tensor's header entry; offsets come out counted from the start of the data.
Status read_entry(const json& value, SafetensorsEntry* out) {
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") || !value.contains("shape") ||
      !value.contains("data_offsets")) {
    return data_loss("header entry wants exactly dtype, shape and data_offsets");
  }
  VESTIGE_TRY(read_dtype(value["dtype"], &out->dtype));
  const json& shape = value["shape"];
  if (!shape.is_array()) return data_loss("shape is not a list");
  for (const json& dim : shape) {
    uint64_t n = 0;
    if (!read_count(dim, &n)) return data_loss("shape holds something that is not a count");
    out->shape.push_back(static_cast<int64_t>(n));
  }
  const json& offsets = value["data_offsets"];
  uint64_t begin = 0, end = 0, n_bytes = 0;
  if (!offsets.is_array() || offsets.size() != 2 || !read_count(offsets[0], &begin) || !read_count(offsets[1], &end) ||
      begin > end) {
    return data_loss("data_offsets is not a pair of ascending counts");
  }
  if (!tensor_bytes(out->dtype, out->shape, &n_bytes)) return data_loss("shape product overflows");
  if (n_bytes != end - begin) {
    return data_loss("shape wants %llu bytes, data_offsets hold %llu", static_cast<unsigned long long>(n_bytes),
                     static_cast<unsigned long long>(end - begin));
  }
  out->offset = begin;
  out->n_bytes = n_bytes;
  return {};
}

Status read_metadata(const json& value, std::map<std::string, std::string>* out) {
  if (!value.is_object()) return data_loss("__metadata__ is not an object");
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) return data_loss("__metadata__ \"%.80s\" is not a string", key.c_str());
    out->emplace(key, text.get<std::string>());
  }
  return {};
}

/// The tensors tile [0, n_data) exactly.
Status check_layout(const std::vector<SafetensorsEntry>& tensors, uint64_t n_data) {
  std::vector<const SafetensorsEntry*> order;
  for (const auto& t : tensors) order.push_back(&t);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::pair(a->offset, a->n_bytes) < std::pair(b->offset, b->n_bytes);
  });
  uint64_t end = 0;
  for (const auto* t : order) {
    if (t->offset != end) {
      return data_loss("tensor \"%.200s\" begins at data byte %llu, want %llu (%s)", t->name.c_str(),
                       static_cast<unsigned long long>(t->offset), static_cast<unsigned long long>(end),
                       t->offset < end ? "overlap" : "hole");
    }
    end += t->n_bytes;  // cannot wrap: every end was read from a count < 2^63, and this one equals it
  }
  if (end != n_data) {
    return data_loss("tensors end at data byte %llu, the file has %llu", static_cast<unsigned long long>(end),
                     static_cast<unsigned long long>(n_data));
  }
  return {};
}

Status read_header(std::span<const std::byte> bytes, std::vector<SafetensorsEntry>* tensors,
                   std::map<std::string, std::string>* metadata) {
  if (bytes.size() < kLengthBytes) return data_loss("%zu bytes, want at least 8", bytes.size());
  uint64_t n_header = 0;
  std::memcpy(&n_header, bytes.data(), kLengthBytes);
  const uint64_t n_rest = bytes.size() - kLengthBytes;
  if (n_header > SafetensorsFile::kMaxHeaderBytes || n_header > n_rest) {
    return data_loss("header length %llu, want [2, %llu]", static_cast<unsigned long long>(n_header),
                     static_cast<unsigned long long>(std::min(SafetensorsFile::kMaxHeaderBytes, n_rest)));
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, n_header);
  if (text.empty() || text.front() != '{') return data_loss("header does not begin with '{'");
  VESTIGE_ASSIGN(const json header, parse_json(text));
  if (!header.is_object()) return data_loss("header is not an object");

  const uint64_t data_begin = kLengthBytes + n_header;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") {
      VESTIGE_TRY(read_metadata(value, metadata));
      continue;
    }
    SafetensorsEntry entry;
    entry.name = name;
    const Status status = read_entry(value, &entry);
    if (!status.ok()) return status.with_context("tensor \"" + name.substr(0, 200) + "\"");
    tensors->push_back(std::move(entry));
  }
  VESTIGE_TRY(check_layout(*tensors, bytes.size() - data_begin));
  for (auto& t : *tensors) {
    t.offset += data_begin;
    if (t.n_bytes > 0 && t.offset % dtype_bytes(t.dtype) != 0) {
      return data_loss("tensor \"%.200s\" begins at byte %llu, want a multiple of %zu for %s", t.name.c_str(),
                       static_cast<unsigned long long>(t.offset), dtype_bytes(t.dtype), dtype_name(t.dtype));
    }
  }
  std::sort(tensors->begin(), tensors->end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return {};
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  VESTIGE_ASSIGN(MappedFile file, MappedFile::open(path));
  return parse(std::move(file));
}

Result<SafetensorsFile> SafetensorsFile::parse(MappedFile file) {
  SafetensorsFile out;
  out.file_ = std::move(file);
  const Status status = read_header(out.file_.bytes(), &out.tensors_, &out.metadata_);
  if (!status.ok()) return status.with_context(out.file_.path());
  return out;
}

const SafetensorsEntry* SafetensorsFile::entry(std::string_view name) const {
  const auto at = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                   [](const SafetensorsEntry& t, std::string_view n) { return t.name < n; });
  return at != tensors_.end() && at->name == name ? &*at : nullptr;
}

ConstTensorView SafetensorsFile::view(const SafetensorsEntry& entry) const {
  ConstTensorView v;
  v.data = file_.bytes().data() + entry.offset;
  v.dtype = entry.dtype;
  v.rank = std::max(1, static_cast<int>(std::min<size_t>(entry.shape.size(), kMaxRank)));
  v.shape[0] = 1;
  std::copy_n(entry.shape.begin(), std::min<size_t>(entry.shape.size(), kMaxRank), v.shape.begin());
  int64_t step = 1;
  for (int i = v.rank - 1; i >= 0; --i) {
    v.stride[static_cast<size_t>(i)] = step;
    step *= v.dim(i);
  }
  return v;
}

Result<ConstTensorView> SafetensorsFile::find(std::string_view name) const {
  const SafetensorsEntry* t = entry(name);
  if (t == nullptr) {
    return not_found("%s: no tensor \"%.*s\"", file_.path().c_str(), static_cast<int>(name.size()), name.data());
  }
  if (t->shape.size() > kMaxRank) {
    return unsupported("%s: tensor \"%s\" has %zu dimensions, want at most %d", file_.path().c_str(), t->name.c_str(),
                       t->shape.size(), kMaxRank);
  }
  return view(*t);
}

namespace {

/// Declared tensors with pads between them; offsets from the start of the data.
Status lay_out(std::vector<SafetensorsEntry> declared, std::vector<SafetensorsEntry>* out) {
  std::set<std::string> names;
  uint64_t end = 0;
  int64_t n_pads = 0;
  for (auto& t : declared) {
    if (t.name.empty() || t.name.starts_with("__") || !names.insert(t.name).second) {
      return invalid_argument("tensor name \"%s\" is empty, begins with \"__\" or is used twice", t.name.c_str());
    }
    if (!tensor_bytes(t.dtype, t.shape, &t.n_bytes)) {
      return invalid_argument("tensor \"%s\": a dimension is negative or the product overflows", t.name.c_str());
    }
    const uint64_t n_pad =
        (SafetensorsWriter::kAlignment - end % SafetensorsWriter::kAlignment) % SafetensorsWriter::kAlignment;
    if (n_pad > 0) {
      out->push_back({"__pad." + std::to_string(n_pads++), DType::kU8, {static_cast<int64_t>(n_pad)}, end, n_pad});
      end += n_pad;
    }
    t.offset = end;
    if (__builtin_add_overflow(end, t.n_bytes, &end) || end > uint64_t{1} << 62) {
      return invalid_argument("tensors up to \"%s\" pass 2^62 bytes", t.name.c_str());
    }
    out->push_back(std::move(t));
  }
  return {};
}

/// The JSON text, padded with spaces so that the data begin at a multiple of kAlignment.
Result<std::string> header_text(const std::vector<SafetensorsEntry>& tensors,
                                const std::map<std::string, std::string>& metadata) {
  try {
    json header = json::object();
    if (!metadata.empty()) header["__metadata__"] = metadata;
    for (const auto& t : tensors) {
      header[t.name] = {
          {"dtype", dtype_name(t.dtype)}, {"shape", t.shape}, {"data_offsets", {t.offset, t.offset + t.n_bytes}}};
    }
    std::string text = header.dump();
    while ((kLengthBytes + text.size()) % SafetensorsWriter::kAlignment != 0) text += ' ';
    if (text.size() > SafetensorsFile::kMaxHeaderBytes) return invalid_argument("header of %zu bytes", text.size());
    return text;
  } catch (const json::exception&) {
    return invalid_argument("a tensor name or metadata value is not UTF-8");
  }
}

}  // namespace

Result<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::create(
    const std::string& path, std::vector<SafetensorsEntry> tensors,
    const std::map<std::string, std::string>& metadata) {
  auto out = std::unique_ptr<SafetensorsWriter>(new SafetensorsWriter());
  out->path_ = path;
  VESTIGE_TRY(lay_out(std::move(tensors), &out->tensors_));
  VESTIGE_ASSIGN(const std::string text, header_text(out->tensors_, metadata));
  for (auto& t : out->tensors_) t.offset += kLengthBytes + text.size();
  VESTIGE_ASSIGN(out->file_, AtomicFile::create(path));
  const uint64_t n_header = text.size();
  VESTIGE_TRY(out->file_->write(std::as_bytes(std::span(&n_header, 1))));
  VESTIGE_TRY(out->file_->write(std::as_bytes(std::span(text))));
  return out;
}

Status SafetensorsWriter::skip_finished() {
  static constexpr std::byte kZeros[kAlignment] = {};
  for (; current_ < tensors_.size(); ++current_, n_written_ = 0) {
    const SafetensorsEntry& t = tensors_[current_];
    if (t.name.starts_with("__pad.")) {
      VESTIGE_TRY(file_->write(std::span(kZeros).first(t.n_bytes)));
    } else if (n_written_ < t.n_bytes) {
      break;
    }
  }
  return {};
}

Status SafetensorsWriter::write(std::string_view name, std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  VESTIGE_TRY(skip_finished());
  if (current_ == tensors_.size() || tensors_[current_].name != name) {
    return invalid_argument("%s: bytes for tensor \"%.*s\", want \"%s\"", path_.c_str(), static_cast<int>(name.size()),
                            name.data(), current_ < tensors_.size() ? tensors_[current_].name.c_str() : "no more");
  }
  if (bytes.size() > tensors_[current_].n_bytes - n_written_) {
    return invalid_argument("%s: tensor \"%s\" of %llu bytes gets more than that", path_.c_str(),
                            tensors_[current_].name.c_str(),
                            static_cast<unsigned long long>(tensors_[current_].n_bytes));
  }
  n_written_ += bytes.size();
  return file_->write(bytes);
}

Status SafetensorsWriter::finish() {
  VESTIGE_TRY(skip_finished());
  if (current_ < tensors_.size()) {
    return invalid_argument("%s: tensor \"%s\" has %llu of %llu bytes", path_.c_str(), tensors_[current_].name.c_str(),
                            static_cast<unsigned long long>(n_written_),
                            static_cast<unsigned long long>(tensors_[current_].n_bytes));
  }
  return file_->commit();
}

}  // namespace vestige
