#pragma once

// The policies of a grid, as text: `name[:ratio][@setting=value[,setting=value...]]`.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "vestige/policy.h"
#include "vestige/status.h"

namespace vestige::eval {

/// One policy of a grid.
struct Arm {
  std::string name;  ///< canonical spec, e.g. "vestige:32@mode=sound"; "full" for full attention
  PolicyConfig policy;
};

/// Cuts a list of specs at its commas. A piece with '=' before any '@' is a further setting of the spec before it, so
/// "full,vestige:8@tau=0.95,z_max=4,random" holds three specs. @return InvalidArgument for an empty piece.
Result<std::vector<std::string>> split_specs(std::string_view list);

/// The arms of one spec: with a ratio one, without one for each of `ratios`; policies that take none
/// (PolicyInfo::takes_ratio) are one arm.
/// Settings are those of the policy, by number or by the name of a choice, and `sinks` and `seed`, which all have.
/// @return InvalidArgument naming the spec and what is wrong with it
Result<std::vector<Arm>> parse_spec(const std::string& spec, std::span<const double> ratios, int32_t block_rows);

/// Every arm of a list, `full` first (added if the list lacks it), each once.
Result<std::vector<Arm>> parse_arms(std::string_view list, std::span<const double> ratios, int32_t block_rows);

/// The spec without its ratio: "vestige@mode=sound". What a plot draws as one line.
std::string arm_family(const std::string& name);

}  // namespace vestige::eval
