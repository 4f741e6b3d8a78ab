#include "cache/policies/anchor/latent_plan.h"

#include <algorithm>
#include <bit>

namespace vestige::anchor {

namespace {

/// Share of a Gaussian's energy that a code leaves: Lloyd-Max.
double energy_left(int32_t bits) {
  static constexpr double kLeft[] = {1, 0.3634, 0.1175, 0.03454, 0.009497};
  return kLeft[bits];
}

LatentForm smallest_form(const RowLayout& layout) {
  LatentForm form;
  form.d_content = layout.d_content;
  form.d_branch = layout.d_branch;
  return form;
}

}  // namespace

int64_t rotated_bytes(int64_t d, int32_t bits) { return d / 8 * bits + 2 * std::popcount(static_cast<uint64_t>(d)); }

int64_t LatentForm::coarse_bytes() const { return rotated_bytes(rank, bits) + rotated_bytes(d_branch, kBranchBits); }

int64_t LatentForm::residual_bytes() const {
  return rotated_bytes(d_content, kResidualBits) + rotated_bytes(d_branch, kResidualBits);
}

int64_t latent_bytes(const LatentForm& form, int64_t n, int64_t n_residuals, bool with_basis) {
  const int64_t mask = 8 * ((n + 63) / 64);
  return (with_basis ? form.basis_bytes() : 0) + n * form.coarse_bytes() + mask + n_residuals * form.residual_bytes();
}

int64_t affordable_residuals(const LatentForm& form, int64_t n, int64_t budget_bytes, bool with_basis) {
  const int64_t room = budget_bytes - latent_bytes(form, n, 0, with_basis);
  return room < 0 ? 0 : std::min(n, room / form.residual_bytes());
}

LatentForm choose_form(const RowLayout& layout, std::span<const float> variance, int64_t n, int64_t budget_bytes) {
  LatentForm best = smallest_form(layout);
  double least = -1, head = 0, all = 0;
  for (const float v : variance) all += double(v);
  int64_t n_head = 0;
  for (LatentForm form = best; form.rank <= form.d_content / 2; form.rank *= 2) {
    for (; n_head < form.rank; ++n_head) head += double(variance[static_cast<size_t>(n_head)]);
    for (form.bits = 2; form.bits <= 4; ++form.bits) {
      if (latent_bytes(form, n, 0, true) > budget_bytes) continue;
      const double share = double(affordable_residuals(form, n, budget_bytes, true)) / double(n);
      const double coarse = all - head + energy_left(form.bits) * head;
      const double left = coarse * (1 - share * (1 - energy_left(LatentForm::kResidualBits)));
      if (least >= 0 && left >= least) continue;
      least = left;
      best = form;
    }
  }
  return best;
}

double highest_latent_ratio(const RowLayout& layout) {
  return double(layout.row_bytes()) / (double(smallest_form(layout).coarse_bytes()) + 8.0 / 64);
}

Status check_latent_layout(const RowLayout& layout) {
  const int32_t c = layout.d_content, b = layout.d_branch;
  if (c % 8 == 0 && b % 8 == 0 && c >= 16 && c <= 4096 && b >= 0 && b <= 4096) return {};
  return unsupported("policy anchor: latent rows of %d + %d, want multiples of 8, 16 to 4096 and 0 to 4096", c, b);
}

}  // namespace vestige::anchor
