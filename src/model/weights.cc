#include "model/weights.h"

#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/block_codes.h"
#include "base/json.h"
#include "base/load_number.h"
#include "base/sha256.h"
#include "model/gguf_model.h"

namespace vestige {

namespace {

bool exists(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0;
}

/// tensor -> shard, as the index has it. A shard is a plain file name: an index cannot point out of its folder.
Result<std::map<std::string, std::string>> read_index(const std::string& path) {
  VESTIGE_ASSIGN(const nlohmann::json index, read_json(path));
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    return data_loss("%s: no weight_map", path.c_str());
  }
  std::map<std::string, std::string> out;
  for (const auto& [tensor, shard] : index["weight_map"].items()) {
    const std::string name = shard.is_string() ? shard.get<std::string>() : std::string();
    if (name.empty() || name.find('/') != std::string::npos || name.find('\0') != std::string::npos ||
        !name.ends_with(".safetensors")) {
      return data_loss("%s: shard of \"%s\" is not the plain name of a .safetensors file", path.c_str(),
                       tensor.c_str());
    }
    out.emplace(tensor, name);
  }
  if (out.empty()) return data_loss("%s: weight_map is empty", path.c_str());
  return out;
}

std::vector<int64_t> without_ones(const std::vector<int64_t>& shape) {
  std::vector<int64_t> out;
  for (int64_t n : shape) {
    if (n != 1) out.push_back(n);
  }
  return out;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

ConstTensorView dense_view(const void* data, DType dtype, const std::vector<int64_t>& shape) {
  switch (shape.size()) {
    case 1:
      return {data, dtype, {shape[0]}};
    case 2:
      return {data, dtype, {shape[0], shape[1]}};
    default:
      return {data, dtype, {shape[0], shape[1], shape[2]}};
  }
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

Result<Weights> Weights::open(const std::string& dir) {
  Weights out;
  out.dir_ = dir;
  const std::string single = dir + "/model.safetensors", index_path = single + ".index.json";
  if (exists(single) || !exists(index_path)) {
    VESTIGE_ASSIGN(out.files_.emplace_back(), SafetensorsFile::open(single));
    for (const auto& t : out.files_.front().tensors()) out.where_.emplace(t.name, &out.files_.front());
    return out;
  }
  VESTIGE_ASSIGN(const auto index, read_index(index_path));
  std::map<std::string, const SafetensorsFile*> shards;
  for (const auto& [tensor, shard] : index) shards.emplace(shard, nullptr);
  for (auto& [name, file] : shards) {
    VESTIGE_ASSIGN(out.files_.emplace_back(), SafetensorsFile::open(dir + "/" + name));
    file = &out.files_.back();
  }
  for (const auto& [tensor, shard] : index) {
    const SafetensorsFile* file = shards.at(shard);
    if (file->entry(tensor) == nullptr) {
      return data_loss("%s: tensor \"%s\" is not in %s", index_path.c_str(), tensor.c_str(), shard.c_str());
    }
    out.where_.emplace(tensor, file);
  }
  return out;
}

Result<Weights> Weights::of(GgufFile file) {
  Weights out;
  out.dir_ = file.file().path();
  out.gguf_ = std::move(file);
  for (const GgufTensor& tensor : out.gguf_->tensors()) {
    if (auto name = hub_name_of(tensor.name)) out.blocks_.emplace(std::move(*name), &tensor);
  }
  return out;
}

Result<Weight> Weights::lookup_blocks(const GgufTensor& tensor, const std::vector<int64_t>& shape) {
  if (without_ones(tensor.shape) != without_ones(shape)) {
    return data_loss("%s: tensor \"%s\" has shape %s, want %s", dir_.c_str(), tensor.name.c_str(),
                     shape_text(tensor.shape).c_str(), shape_text(shape).c_str());
  }
  Weight out;
  n_bytes_ += static_cast<int64_t>(tensor.n_bytes);
  out.data = dense_view(gguf_->data(tensor), tensor.dtype, shape);
  n_params_ += out.data.n_elements();
  // Blocks are read byte by byte and lie anywhere; plain numbers at their own alignment only.
  const size_t width = dtype_bytes(tensor.dtype);
  if (width > 0 && tensor.offset % width != 0) {
    VESTIGE_ASSIGN(out.data, widen(out));
  }
  return out;
}

Result<Weight> Weights::lookup(const std::string& name, const std::vector<int64_t>& shape) {
  if (const auto blocks = blocks_.find(name); blocks != blocks_.end()) return lookup_blocks(*blocks->second, shape);
  const auto at = where_.find(name);
  if (at == where_.end()) return not_found("%s: no tensor \"%s\"", dir_.c_str(), name.c_str());
  const SafetensorsFile& file = *at->second;
  const SafetensorsEntry& entry = *file.entry(name);
  if (without_ones(entry.shape) != without_ones(shape)) {
    return data_loss("%s: tensor \"%s\" has shape %s, want %s", file.file().path().c_str(), name.c_str(),
                     shape_text(entry.shape).c_str(), shape_text(shape).c_str());
  }
  const bool is_f8 = entry.dtype == DType::kF8E4M3;
  if (!is_f8 && entry.dtype != DType::kF32 && entry.dtype != DType::kBF16 && entry.dtype != DType::kF16) {
    return data_loss("%s: tensor \"%s\" is %s, want F32, BF16, F16 or F8_E4M3", file.file().path().c_str(),
                     name.c_str(), dtype_name(entry.dtype));
  }
  Weight out;
  out.data = dense_view(file.view(entry).data, entry.dtype, shape);
  n_params_ += out.data.n_elements();
  n_bytes_ += static_cast<int64_t>(entry.n_bytes);
  if (!is_f8) return out;

  if (shape.size() != 2) {
    return unsupported("%s: tensor \"%s\" is F8_E4M3 with %zu dimensions, want 2", file.file().path().c_str(),
                       name.c_str(), shape.size());
  }
  const std::string scale_name = name + "_scale_inv";
  const std::vector<int64_t> scale_shape = {ceil_div(shape[0], kScaleBlock), ceil_div(shape[1], kScaleBlock)};
  const auto scale_at = where_.find(scale_name);
  const SafetensorsEntry* scale = scale_at == where_.end() ? nullptr : scale_at->second->entry(scale_name);
  if (scale == nullptr) {
    return not_found("%s: tensor \"%s\" is F8_E4M3 and has no \"%s\"", dir_.c_str(), name.c_str(), scale_name.c_str());
  }
  if (scale->dtype != DType::kF32 || scale->shape != scale_shape) {
    return data_loss("%s: tensor \"%s\" is %s %s, want %s F32", scale_at->second->file().path().c_str(),
                     scale_name.c_str(), shape_text(scale->shape).c_str(), dtype_name(scale->dtype),
                     shape_text(scale_shape).c_str());
  }
  out.scale = scale_at->second->view(*scale);
  n_bytes_ += static_cast<int64_t>(scale->n_bytes);
  return out;
}

Result<Weight> Weights::get(const std::string& name, const std::vector<int64_t>& shape) { return lookup(name, shape); }

Result<float*> Weights::allocate(int64_t n_floats) {
  VESTIGE_ASSIGN(Buffer buffer, Buffer::create(static_cast<size_t>(n_floats) * sizeof(float)));
  owned_.push_back(std::move(buffer));
  return reinterpret_cast<float*>(owned_.back().data());
}

Result<ConstTensorView> Weights::widen(const Weight& weight) {
  const ConstTensorView& in = weight.data;
  const int64_t n = in.n_elements(), n_columns = in.dim(in.rank - 1);
  VESTIGE_ASSIGN(float* const out, allocate(n));
  if (in.dtype != DType::kF8E4M3) {
    decode_blocks(in.dtype, in.as<std::byte>(), n, out);
  } else {
    for (int64_t i = 0; i < n; ++i) out[i] = load_number(in.data, in.dtype, i);
    const float* scale = weight.scale.as<float>();
    for (int64_t i = 0; i < n; ++i) {
      out[i] *= scale[i / n_columns / kScaleBlock * weight.scale.dim(1) + i % n_columns / kScaleBlock];
    }
  }
  n_bytes_ += n * static_cast<int64_t>(sizeof(float)) - stored_bytes(in.dtype, n);
  ConstTensorView view = in;
  view.data = out;
  view.dtype = DType::kF32;
  return view;
}

Result<ConstTensorView> Weights::get_wide(const std::string& name, const std::vector<int64_t>& shape) {
  VESTIGE_ASSIGN(const Weight weight, lookup(name, shape));
  if (weight.data.dtype == DType::kF32 || weight.data.dtype == DType::kBF16) return weight.data;
  return widen(weight);
}

Result<ConstTensorView> Weights::get_f32(const std::string& name, const std::vector<int64_t>& shape) {
  VESTIGE_ASSIGN(const Weight weight, lookup(name, shape));
  if (weight.data.dtype == DType::kF32) return weight.data;
  return widen(weight);
}

Result<ConstTensorView> Weights::get_stacked(const std::vector<std::string>& names, const std::vector<int64_t>& shape) {
  const int64_t n_each = shape[0] * shape[1];
  VESTIGE_ASSIGN(float* const out, allocate(n_each * static_cast<int64_t>(names.size())));
  float* to = out;
  for (const std::string& name : names) {
    VESTIGE_ASSIGN(const ConstTensorView part, get_f32(name, shape));
    to = std::copy_n(part.as<float>(), n_each, to);
  }
  return ConstTensorView(out, DType::kF32, {shape[0] * static_cast<int64_t>(names.size()), shape[1]});
}

Result<std::string> Weights::identity() const {
  if (gguf_) return sha256_file(gguf_->file().path());
  Sha256 all;
  VESTIGE_ASSIGN(const std::string config, sha256_file(dir_ + "/config.json"));
  all.update(config);
  for (const SafetensorsFile& file : files_) {
    VESTIGE_ASSIGN(const std::string digest, sha256_file(file.file().path()));
    all.update(digest);
  }
  return all.finish();
}

}  // namespace vestige
