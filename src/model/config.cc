#include "model/config.h"

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/mapped_file.h"

namespace vestige {

struct ConfigNode {
  nlohmann::json object;
};

namespace {

using nlohmann::json;

/// The value, cut to a length fit for a message.
std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 60) + "...";
  return text;
}

const json* lookup(const json& object, const char* key) { return key == nullptr ? nullptr : json_member(object, key); }

bool in_range(const json& value, int64_t min, int64_t max, int64_t* out) {
  const std::optional<int64_t> n = json_int(value, min, max);
  *out = n.value_or(0);
  return n.has_value();
}

Status out_of_range(const std::string& where, const IntKey& want, const json& value) {
  return data_loss("%s: %s = %s, want an integer in [%lld, %lld]", where.c_str(), want.key, shown(value).c_str(),
                   static_cast<long long>(want.min), static_cast<long long>(want.max));
}

}  // namespace

Result<Config> Config::parse(std::string_view json_text, const std::string& where) {
  auto parsed = parse_json(json_text);
  if (!parsed.ok()) return parsed.status().with_context(where);
  if (!parsed->is_object()) return data_loss("%s: not a JSON object", where.c_str());
  Config out;
  out.node_ = std::make_shared<const ConfigNode>(ConfigNode{std::move(parsed).value()});
  out.where_ = where;
  return out;
}

Result<Config> Config::read(const std::string& dir) {
  const std::string path = dir + "/config.json";
  VESTIGE_ASSIGN(const MappedFile file, MappedFile::open(path));
  return parse({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path);
}

bool Config::has(const char* key) const { return lookup(node_->object, key) != nullptr; }

bool Config::is_null(const char* key) const {
  const auto at = node_->object.find(key);
  return at != node_->object.end() && at->is_null();
}

Result<int64_t> Config::integer(const IntKey& want) const {
  const json* value = lookup(node_->object, want.key);
  if (value == nullptr) value = lookup(node_->object, want.alias);
  int64_t out = want.absent;
  if (value == nullptr) {
    if (out != IntKey::kRequired) return out;
    return data_loss("%s: %s is missing, want an integer in [%lld, %lld]", where_.c_str(), want.key,
                     static_cast<long long>(want.min), static_cast<long long>(want.max));
  }
  if (!in_range(*value, want.min, want.max, &out)) return out_of_range(where_, want, *value);
  return out;
}

Result<double> Config::real(const RealKey& want) const {
  const json* value = lookup(node_->object, want.key);
  if (value == nullptr && want.absent != RealKey::kRequired) return want.absent;
  const double out = value != nullptr && value->is_number() ? value->get<double>() : RealKey::kRequired;
  if (out >= want.min && out <= want.max) return out;
  return data_loss("%s: %s = %s, want a number in [%g, %g]", where_.c_str(), want.key,
                   value == nullptr ? "(missing)" : shown(*value).c_str(), want.min, want.max);
}

Result<bool> Config::flag(const char* key, bool absent) const {
  const json* value = lookup(node_->object, key);
  if (value == nullptr) return absent;
  if (value->is_boolean()) return value->get<bool>();
  return data_loss("%s: %s = %s, want true or false", where_.c_str(), key, shown(*value).c_str());
}

Result<std::string> Config::text(const char* key, const std::string& absent) const {
  const json* value = lookup(node_->object, key);
  if (value == nullptr) return absent;
  if (value->is_string()) return value->get<std::string>();
  return data_loss("%s: %s = %s, want a string", where_.c_str(), key, shown(*value).c_str());
}

Result<std::vector<int64_t>> Config::integers(const IntKey& want) const {
  std::vector<int64_t> out;
  const json* value = lookup(node_->object, want.key);
  if (value == nullptr) return out;
  const json list = value->is_array() ? *value : json::array({*value});
  for (const json& element : list) {
    int64_t n = 0;
    if (!in_range(element, want.min, want.max, &n)) return out_of_range(where_, want, element);
    out.push_back(n);
  }
  return out;
}

Result<std::vector<double>> Config::reals(const RealKey& want) const {
  std::vector<double> out;
  const json* value = lookup(node_->object, want.key);
  if (value == nullptr) return out;
  for (const json& element : value->is_array() ? *value : json::array({*value})) {
    const double x = element.is_number() ? element.get<double>() : RealKey::kRequired;
    if (!(x >= want.min && x <= want.max)) {
      return data_loss("%s: %s holds %s, want numbers in [%g, %g]", where_.c_str(), want.key, shown(element).c_str(),
                       want.min, want.max);
    }
    out.push_back(x);
  }
  return out;
}

Result<std::vector<std::string>> Config::texts(const char* key) const {
  std::vector<std::string> out;
  const json* value = lookup(node_->object, key);
  if (value == nullptr) return out;
  for (const json& element : value->is_array() ? *value : json::array({*value})) {
    if (!element.is_string())
      return data_loss("%s: %s holds %s, want strings", where_.c_str(), key, shown(element).c_str());
    out.push_back(element.get<std::string>());
  }
  return out;
}

Result<Config> Config::section(const char* key) const {
  const json* value = lookup(node_->object, key);
  if (value == nullptr || !value->is_object()) {
    return data_loss("%s: %s is %s, want an object", where_.c_str(), key,
                     value == nullptr ? "missing" : shown(*value).c_str());
  }
  Config out;
  out.node_ = std::make_shared<const ConfigNode>(ConfigNode{*value});
  out.where_ = where_ + ": " + key;
  return out;
}

}  // namespace vestige
