#include "cache/policies/page_index.h"

#include <utility>

#include "cache/policies/settings.h"
#include "cache/row_store.h"

namespace vestige {

Status PageIndex::extend(const RowPages& rows, int64_t n_closed, Stream& stream) {
  const int64_t n = block_pages(), d = layout_.d_row();
  while (n_indexed_ < n_closed) {
    const auto side_bytes = static_cast<size_t>(n * layout_.row_bytes());
    VESTIGE_ASSIGN(Buffer upper, Buffer::create(side_bytes));
    VESTIGE_ASSIGN(Buffer lower, Buffer::create(boxes() ? side_bytes : 0));
    VESTIGE_ASSIGN(Buffer radius, Buffer::create(static_cast<size_t>(n) * sizeof(float)));
    RowPages closed = rows;
    closed.n_rows = n_closed;
    VESTIGE_TRY(ops::digest_pages({.rows = closed,
                                   .page_rows = settings_.page_rows,
                                   .first_row = n_indexed_,
                                   .upper = TensorView(upper.data(), layout_.dtype, {n, d}),
                                   .lower = boxes() ? TensorView(lower.data(), layout_.dtype, {n, d}) : TensorView(),
                                   .radius = TensorView(radius.data(), DType::kF32, {n}),
                                   .digest = settings_.digest},
                                  stream));
    // Room first: whatever throws, no table points at memory that nobody owns.
    for (auto* table : {&upper_, &lower_, &radius_}) make_room(table, 1);
    make_room(&owned_, 3);
    upper_.push_back(upper.data());
    if (boxes()) lower_.push_back(lower.data());
    radius_.push_back(radius.data());
    owned_.push_back(std::move(upper));
    if (boxes()) owned_.push_back(std::move(lower));
    owned_.push_back(std::move(radius));
    n_indexed_ += block_rows_;
  }
  return {};
}

Status PageIndex::recall(const RecallStep& step, Stream& stream) {
  if (n_indexed_ != step.n_closed) {
    return internal_error("recall over %lld closed rows, the index has %lld", static_cast<long long>(step.n_closed),
                          static_cast<long long>(n_indexed_));
  }
  const PageSet set = {.upper = upper_.data(),
                       .lower = boxes() ? lower_.data() : nullptr,
                       .radius = radius_.data(),
                       .block_pages = block_pages(),
                       .page_rows = settings_.page_rows,
                       .n_pages = n_indexed_ / settings_.page_rows,
                       .dtype = layout_.dtype,
                       .kept = step.kept};
  return ops::scan_pages({.q = step.q,
                          .sets = std::span(&set, 1),
                          .threshold = settings_.top_k > 0 ? ConstTensorView() : step.kept_max,
                          .top_k = settings_.top_k,
                          .ids = step.ids,
                          .n_ids = step.n_ids,
                          .n_fired = step.n_fired,
                          .scale = step.scale},
                         stream);
}

int64_t PageIndex::scan_bytes(int64_t n_closed) const {
  return n_closed / settings_.page_rows * digest_bytes() + n_closed;  // and the kept mask
}

Status PageIndex::save(const std::string& prefix, TensorSink& sink) const {
  const auto put = [&](const char* name, const std::vector<const void*>& blocks) -> Status {
    std::vector<ConstTensorView> parts;
    for (const void* block : blocks) parts.push_back({block, layout_.dtype, {block_pages(), layout_.d_row()}});
    return parts.empty() ? Status() : sink.put_rows(prefix + name, parts);
  };
  VESTIGE_TRY(put("page_upper", upper_));
  VESTIGE_TRY(put("page_lower", lower_));
  if (radius_.empty()) return {};
  std::vector<ConstTensorView> parts;
  for (const void* block : radius_) parts.push_back({block, DType::kF32, {block_pages()}});
  return sink.put_rows(prefix + "page_radius", parts);
}

Status PageIndex::load(const std::string& prefix, const TensorSource& source, int64_t n_closed) {
  PageIndex loaded(layout_, static_cast<int32_t>(block_rows_), settings_);
  const int64_t n_pages = n_closed / settings_.page_rows;
  const auto get = [&](const char* name, std::vector<const void*>* blocks) -> Status {
    VESTIGE_ASSIGN(const ConstTensorView view, source.get(prefix + name, layout_.dtype, {n_pages, layout_.d_row()}));
    for (int64_t page = 0; page < n_pages; page += block_pages()) blocks->push_back(view.slice(page, 1).data);
    return {};
  };
  if (n_closed > 0) {
    VESTIGE_TRY(get("page_upper", &loaded.upper_));
    if (boxes()) VESTIGE_TRY(get("page_lower", &loaded.lower_));
    VESTIGE_ASSIGN(const ConstTensorView radius, source.get(prefix + "page_radius", DType::kF32, {n_pages}));
    for (int64_t page = 0; page < n_pages; page += block_pages()) {
      loaded.radius_.push_back(radius.slice(page, 1).data);
    }
    loaded.n_indexed_ = n_closed;
  }
  *this = std::move(loaded);
  return {};
}

class PagePolicy final : public PositionalPolicy {
 public:
  PagePolicy(PolicyConfig config, const PageSettings& settings)
      : PositionalPolicy(std::move(config)), settings_(settings) {}
  std::unique_ptr<RecallIndex> create_index(const RowLayout& layout, const KeyRotation&) const override {
    if (config().ratio == 1 || settings_.max_recall == 0) return nullptr;
    return std::make_unique<PageIndex>(layout, config().block_rows, settings_);
  }

 private:
  PageSettings settings_;
};

std::vector<PolicySetting> page_settings(std::vector<PolicySetting> own) {
  own.push_back({"page_rows", 32, 1, 4096, "rows of a page; divides block_rows"});
  own.push_back({"n_pages", 8, 1, 1 << 20, "pages that each head picks, in the modes that pick a number"});
  own.push_back({"max_recall", 4096, 0, 1 << 24, "rows recalled in a step; more = the whole archive; 0 = no recall"});
  return own;
}

Result<PageSettings> read_page_settings(const PolicyConfig& config) {
  PageSettings s;
  VESTIGE_ASSIGN(s.page_rows, whole_setting(config, "page_rows"));
  VESTIGE_ASSIGN(s.top_k, whole_setting(config, "n_pages"));
  VESTIGE_ASSIGN(s.max_recall, whole_setting(config, "max_recall"));
  if (config.block_rows % s.page_rows != 0) {
    return invalid_argument("%s.page_rows = %d, want a divisor of block_rows = %d", config.name.c_str(), s.page_rows,
                            config.block_rows);
  }
  return s;
}

Result<std::shared_ptr<const CachePolicy>> make_page_policy(PolicyConfig config, const PageSettings& settings) {
  return std::shared_ptr<const CachePolicy>(std::make_shared<PagePolicy>(std::move(config), settings));
}

}  // namespace vestige
