// result_kind.h: which ops give something else than tensors.
#pragma once

#include <span>

#include "core/export.h"

namespace rush {

// An op whose one result is a list of tensors or a number, as the table spells it: "Tensor[]",
// "bool". All others give one tensor or several.
struct SoleResult {
  const char* name;
  const char* overload;
  const char* kind;
};
RUSH_API std::span<const SoleResult> other_results();

}  // namespace rush
