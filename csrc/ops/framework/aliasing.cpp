#include "ops/framework/aliasing.h"

#include <algorithm>
#include <string_view>

#include "autograd/snapshot.h"
#include "core/layout.h"
#include "core/modes.h"
#include "core/small_vector.h"
#include "core/warn.h"
#include "ops/framework/data.h"

namespace rush::op {
namespace {

[[noreturn, gnu::cold]] void fail_sharing(const char* op, const Tensor& out, const Tensor& input) {
  fail(ErrorKind::Runtime, op, "unsupported operation: the output (shape ", out.sizes(),
       ", strides ", out.strides(), ", offset ", out.offset(), ") and an input (shape ",
       input.sizes(), ", strides ", input.strides(), ", offset ", input.offset(),
       ") share some of their memory; clone() one of them first");
}

// Ops whose out= has to be of the result's own type, as in PyTorch. Elsewhere the result is converted.
constexpr std::string_view kOwnType[] = {"aminmax", "complex", "gather", "multinomial", "polar"};

void check_out(const char* op, const Tensor& out, const Spec& spec) {
  if (out.dtype() != spec.dtype) [[unlikely]]
    check_dtype(std::ranges::find(kOwnType, std::string_view(op)) == std::end(kOwnType), op,
                "expected out to be ", spec.dtype, ", as the result is, got ", out.dtype());
  check_dtype(can_cast(spec.dtype, out.dtype()), op, "the result is ", spec.dtype,
              " and cannot be cast to out's dtype ", out.dtype());
  check(out.device() == spec.device, ErrorKind::Device, op, "out is on ", out.device(),
        ", the inputs are on ", spec.device);
  check(!out.storage()->read_only(), ErrorKind::Runtime, op, "out wraps read-only memory");
  check(!out.impl()->has(TensorImpl::kInference) || t_modes & kInferenceMode, ErrorKind::Runtime,
        op,
        "out was made under inference_mode() and must not be written outside of it; clone() it");
  check(!has_internal_overlap(out), ErrorKind::Runtime, op,
        "more than one index of out refers to one memory location, as after expand()");
  const Storage& memory = *out.storage();
  if (!memory.is_foreign() && !memory.is_shared()) [[likely]]
    return;
  check(out.sizes() == spec.sizes ||
            size_t((out.offset() + numel(spec.sizes)) * out.element_size()) <= memory.nbytes(),
        ErrorKind::Runtime, op, "out, of shape ", out.sizes(), ", cannot be resized to ",
        spec.sizes, ": its memory belongs to another library or is shared between processes");
}

Dims strides_of(const Spec& spec) {
  return spec.strides.empty() ? contiguous_strides(spec.sizes) : spec.strides;
}

bool may_share(const Tensor& a, const Tensor& b) {
  return a.storage() == b.storage() || a.storage()->is_foreign() || b.storage()->is_foreign();
}

// As it will be after resize_outs().
Tensor resized_window(const Tensor& out, const Spec& spec) {
  if (out.sizes() == spec.sizes) return out;
  return make_tensor(out.storage(), spec.sizes, strides_of(spec), out.offset(), out.dtype());
}

[[gnu::noinline]] void check_outs_are_apart(const char* op, std::span<const Tensor> outs,
                                            std::span<const Spec> specs) {
  for (size_t i = 0; i < outs.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      check(!outs[i].is_same(outs[j]), ErrorKind::Runtime, op, "outputs ", j, " and ", i,
            " are one tensor, which cannot hold two results");
      if (!may_share(outs[i], outs[j])) continue;
      const Overlap o =
          overlap(resized_window(outs[i], specs[i]), resized_window(outs[j], specs[j]));
      check(o != Overlap::Full && o != Overlap::Partial, ErrorKind::Runtime, op, "outputs ", j,
            " and ", i, " share memory; each result needs memory of its own");
    }
  }
}

}  // namespace

bool look_at_sharing(const char* op, const Tensor& out, const Dims& sizes, const Tensor& input,
                     SharingRules rules) {
  const Overlap o = overlap(out, input);
  const bool resized = !(out.sizes() == sizes);
  if ((o == Overlap::Full && rules.refuses_any) || (o == Overlap::Partial && rules.refuses_part))
    fail_sharing(op, out, input);
  if (!resized)
    return o == Overlap::Partial || o == Overlap::Unknown ||
           (o == Overlap::Full && !rules.exact_is_fine);
  check_shape(!(out.is_same(input) && rules.refuses_resize), op, "out is also an input, of shape ",
              out.sizes(), ", and cannot be resized to the result's shape ", sizes);
  // A larger output may grow over the input, or move the storage of both.
  return true;
}

void check_outs(const char* op, std::span<const Tensor> outs, std::span<const Spec> specs) {
  for (size_t i = 0; i < outs.size(); ++i) {
    check_out(op, outs[i], specs[i]);
    outs[i].storage()->note_write();  // and again by bump_version(), when it is done
    before_write(outs[i]);
  }
  if (outs.size() > 1) check_outs_are_apart(op, outs, specs);
}

void resize_wrong_outs(const char* op, std::span<const Tensor> outs, std::span<const Spec> specs) {
  // A warning may be an error for the program: all of them come before the first change.
  for (size_t i = 0; i < outs.size(); ++i) {
    if (outs[i].numel() == 0 || outs[i].sizes() == specs[i].sizes) continue;
    warn(concat(op, ": out had shape ", outs[i].sizes(), " and was resized to the result's shape ",
                specs[i].sizes, "; give an out of that shape, or an empty one (out.resize_(0))"));
  }
  for (size_t i = 0; i < outs.size(); ++i) {
    if (outs[i].sizes() == specs[i].sizes) continue;
    set_geometry(outs[i], specs[i].sizes, strides_of(specs[i]), outs[i].offset());
  }
}

void write_outs(const char* op, const char* writer, std::span<const Tensor> outs,
                std::span<Tensor> results) {
  SmallVector<Spec, 2> specs;
  for (const Tensor& r : results) specs.push_back({r.sizes(), r.dtype(), r.device()});
  const std::span<const Spec> wanted(specs.data(), specs.size());
  check_outs(op, outs, wanted);
  // A result may be an input, or a view of one, and so be the output as well.
  for (size_t j = 0; j < results.size(); ++j) {
    if (is_arranged(results[j]) || results[j].is_meta()) continue;
    bool spoilt = false;
    for (size_t i = 0; i < outs.size(); ++i) {
      if (!may_share(outs[i], results[j])) continue;
      const bool itself = i == j && outs[i].sizes() == specs[i].sizes &&
                          overlap(outs[i], results[j]) == Overlap::Full;
      spoilt = spoilt || !itself;
    }
    if (spoilt) results[j] = clone_data(results[j]);
  }
  resize_outs(op, outs, wanted);
  for (size_t i = 0; i < outs.size(); ++i) {
    outs[i].bump_version(writer);  // before: an interrupt may end the copy halfway
    copy_data(outs[i], results[i]);
  }
}

}  // namespace rush::op
