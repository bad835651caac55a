// fused_source.h: the source of one kernel for several steps.
#pragma once

#include <array>
#include <string>

#include "core/export.h"
#include "cuda/runtime/compile_thread.h"
#include "device/fused.h"

namespace rush::cuda {

// How a kernel reads an input; all but the first and the last are those of kernels/fused.h.
// Normal: not at all, see FusedNormal.
enum class InputLies : uint8_t { Number, Single, Flat, Row, Column, Along, Across, Normal };

// What the code depends on beside the steps.
struct FusedForm {
  std::array<InputLies, kFusedInputs> lies;
  bool nest = false;       // or flat
  bool long_nest = false;  // indices of 64 bits
  int width = 1;           // of packs, in elements
};

// Equal for works that share code: nothing in it depends on sizes or values.
RUSH_API std::string fused_key(const FusedWork& work, const FusedForm& form);

RUSH_API GeneratedSource fused_source(const FusedWork& work, const FusedForm& form);
// Of a work with a step over rows; `kernel` is the instance of kernels/fused_rows.h, with Work as
// its first argument. The types of its rows are those of the step.
RUSH_API GeneratedSource fused_rows_source(const FusedWork& work, const FusedForm& form,
                                           const std::string& kernel);
// Packs that a thread takes at a time.
RUSH_API int fused_packs_at_once(const FusedWork& work, const FusedForm& form);

}  // namespace rush::cuda
