// aliasing.h: outputs that share memory with inputs, or with each other. Decided once for all forms
// that write into a user's tensor, before anything is resized or written.
//
// - Most blocks compute aside and copy: right whatever is shared.
// - `in_place_safe`: run() may write over self itself, element by element. What shares only some
//   elements raises (`refuses_overlap`), as in PyTorch. A composite says it for these rules alone.
// - `reads_across`: of such a block, the inputs other than self are read elsewhere than where the
//   output is written at that time (addmm, scatter), so they must not be the output either.
// - `refuses_sharing`: any shared element raises, except where out is self and in_place_safe says
//   that this works.
#pragma once

#include "ops/framework/spec.h"

namespace rush::op {

template <class Op>
constexpr bool in_place_safe = requires { requires Op::in_place_safe; };
// Does an output raise that shares some, but not all of its elements with an input? By default
// where run() may read and write one tensor, but not two that overlap: PyTorch raises there, and a
// program that gets by without a copy would be a surprise.
template <class Op>
constexpr bool refuses_overlap = requires { requires Op::refuses_overlap; } ||
                                 (in_place_safe<Op> && !requires { Op::refuses_overlap; });
template <class Op>
constexpr bool refuses_sharing = requires { requires Op::refuses_sharing; };
template <class Op>
constexpr bool reads_across = requires { requires Op::reads_across; } ||
                              (refuses_sharing<Op> && !requires { Op::reads_across; });

// What a block allows between its output and one input.
struct SharingRules {
  bool exact_is_fine = false;  // run() may write over the input itself
  bool refuses_part = false;   // raise where they share some elements, instead of computing aside
  bool refuses_any = false;
  bool refuses_resize = false;  // raise where the output is the input and has another shape
};
// For the tensor argument at this position; where in_place_safe holds, the first one is self.
template <class Op>
constexpr SharingRules sharing_rules(size_t position) {
  const bool is_self = position == 0 && in_place_safe<Op>;
  const bool in_step = is_self || !reads_across<Op>;
  return {in_place_safe<Op> && in_step, (refuses_overlap<Op> && in_step) || refuses_sharing<Op>,
          refuses_sharing<Op> && !is_self, in_place_safe<Op> && in_step};
}

// The slow half of must_compute_aside(): they share a storage, or may do so unknowingly.
RUSH_API bool look_at_sharing(const char* op, const Tensor& out, const Dims& sizes,
                              const Tensor& input, SharingRules rules);

// Would writing a result of these sizes into `out` spoil `input` for run()? Raises where the block
// refuses that.
inline bool must_compute_aside(const char* op, const Tensor& out, const Dims& sizes,
                               const Tensor& input, SharingRules rules) {
  if (!input.defined()) return false;
  const Storage &a = *out.storage(), &b = *input.storage();
  if (&a != &b && !a.is_foreign() && !b.is_foreign()) [[likely]]
    return false;
  return look_at_sharing(op, out, sizes, input, rules);
}

// May these results be written into these outputs: dtype, device, memory that takes writes, each
// element of memory once, no two outputs in one place? Raises otherwise; changes nothing.
RUSH_API void check_outs(const char* op, std::span<const Tensor> outs, std::span<const Spec> specs);
// Brings the outputs to the results' sizes, with a warning for each that held something.
RUSH_API void resize_wrong_outs(const char* op, std::span<const Tensor> outs,
                                std::span<const Spec> specs);
inline void resize_outs(const char* op, std::span<const Tensor> outs, std::span<const Spec> specs) {
  bool fit = true;
  for (size_t i = 0; i < outs.size(); ++i) fit = fit && outs[i].sizes() == specs[i].sizes;
  if (!fit) [[unlikely]]
    resize_wrong_outs(op, outs, specs);
}
// Writes finished results, which may be views of anything, into the outputs, by the same rules.
// `writer` lives as long as the program.
RUSH_API void write_outs(const char* op, const char* writer, std::span<const Tensor> outs,
                         std::span<Tensor> results);

}  // namespace rush::op
