#include "eval/store.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/json.h"
#include "base/mapped_file.h"

namespace vestige::eval {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr char kFormat[] = "vestige.eval";
constexpr int64_t kVersion = 1;

Json identity_json(const RunIdentity& id) {
  return {{"format", kFormat}, {"version", kVersion},         {"vestige_version", id.vestige_version},
          {"model", id.model}, {"tokenizer", id.tokenizer},   {"corpus", id.corpus},
          {"seed", id.seed},   {"block_rows", id.block_rows}, {"aware", id.aware}};
}

/// Writes the folder's run.json, or compares with what is there.
Status check_identity(const std::string& path, const RunIdentity& identity) {
  const Json mine = identity_json(identity);
  std::error_code error;
  if (!fs::exists(path, error)) {
    const std::string text = mine.dump(1) + "\n";
    VESTIGE_ASSIGN(const auto file, AtomicFile::create(path));
    VESTIGE_TRY(file->write(std::as_bytes(std::span(text))));
    return file->commit();
  }
  VESTIGE_ASSIGN(const nlohmann::json theirs, read_json(path));
  for (const auto& [name, value] : mine.items()) {
    const nlohmann::json* other = json_member(theirs, name.c_str());
    if (other != nullptr && *other == nlohmann::json(value)) continue;
    if (other == nullptr && name == "aware" && !identity.aware) continue;  // folders from before there was a choice
    return mismatch("%s: the runs of this folder have %s = %s, this one has %s; name another --out", path.c_str(),
                    name.c_str(), other == nullptr ? "nothing" : other->dump().c_str(), value.dump().c_str());
  }
  return {};
}

std::string own_name(Shard shard) {
  if (shard.count == 1) return "results.jsonl";
  return "results-" + std::to_string(shard.index) + "-of-" + std::to_string(shard.count) + ".jsonl";
}

Status system_error(const char* what, const std::string& path) {
  return io_error("%s: cannot %s: %s", path.c_str(), what, std::strerror(errno));
}

}  // namespace

Store::~Store() {
  if (fd_ >= 0) close(fd_);
}

Result<std::unique_ptr<Store>> Store::open(const std::string& dir, const RunIdentity& identity, Shard shard) {
  auto store = std::unique_ptr<Store>(new Store());
  if (dir.empty()) return store;
  std::error_code error;
  fs::create_directories(dir, error);
  if (error) return io_error("%s: cannot create the folder: %s", dir.c_str(), error.message().c_str());
  VESTIGE_TRY(check_identity((fs::path(dir) / "run.json").string(), identity));
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(dir, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("results") && name.ends_with(".jsonl")) paths.push_back(entry.path().string());
  }
  if (error) return io_error("%s: cannot list the folder: %s", dir.c_str(), error.message().c_str());
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) VESTIGE_TRY(store->load_file(path));
  VESTIGE_TRY(store->open_own((fs::path(dir) / own_name(shard)).string()));
  return store;
}

/// A last line without its newline is one that a killed run left, or that another shard is writing just now.
Status Store::load_file(const std::string& path) {
  VESTIGE_ASSIGN(const MappedFile file, MappedFile::open(path));
  std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  for (int64_t number = 1; text.find('\n') != std::string_view::npos; ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(line.size() + 1);
    auto parsed = parse_result_line(line);
    if (!parsed.ok()) return parsed.status().with_context(path + ", line " + std::to_string(number));
    if (parsed->outcome) remember(std::move(*parsed->outcome));
    if (parsed->gate) remember(std::move(*parsed->gate));
  }
  return {};
}

Status Store::open_own(const std::string& path) {
  path_ = path;
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) return system_error("open", path);
  off_t end = lseek(fd_, 0, SEEK_END);
  for (char last = 0; end > 0; --end) {
    if (pread(fd_, &last, 1, end - 1) != 1) return system_error("read", path);
    if (last == '\n') break;
  }
  if (ftruncate(fd_, end) != 0 || lseek(fd_, end, SEEK_SET) < 0) return system_error("cut", path);
  return {};
}

Status Store::write_line(const std::string& line) {
  if (fd_ < 0) return {};
  const std::string text = line + "\n";
  for (size_t at = 0; at < text.size();) {
    const ssize_t n = write(fd_, text.data() + at, text.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error("write", path_);
    at += static_cast<size_t>(n);
  }
  return fsync(fd_) == 0 ? Status() : system_error("flush", path_);
}

void Store::remember(Outcome o) {
  const bool added = places_.emplace(Key(o.task, o.length, o.trial, o.arm), outcomes_.size()).second;
  if (added) outcomes_.push_back(std::move(o));
}

void Store::remember(GateOutcome gate) {
  for (GateOutcome& known : gates_) {
    if (known.gate != gate.gate || known.length != gate.length || known.subject != gate.subject) continue;
    known = std::move(gate);
    return;
  }
  gates_.push_back(std::move(gate));
}

bool Store::has(const std::string& task, int64_t length, int32_t trial, const std::string& arm) const {
  return places_.contains(Key(task, length, trial, arm));
}

const GateOutcome* Store::find_gate(const std::string& gate, int64_t length, const std::string& subject) const {
  for (const GateOutcome& known : gates_) {
    if (known.gate == gate && known.length == length && known.subject == subject) return &known;
  }
  return nullptr;
}

Status Store::add(Outcome outcome) {
  VESTIGE_TRY(write_line(outcome_line(outcome)));
  remember(std::move(outcome));
  return {};
}

Status Store::add(GateOutcome gate) {
  VESTIGE_TRY(write_line(gate_line(gate)));
  remember(std::move(gate));
  return {};
}

}  // namespace vestige::eval
