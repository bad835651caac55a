// arranged.h: how ops deal with tensors in a layout of the library's own. See Note [Layout is ours]
// in core/layout.h.
//
// A block may say:
//   any_layout        run() serves any order of dims equally well: it is given arranged forms, and
//                     where check() of these asks for strides, so lies the result. Blocks that do
//                     not say so see contiguous tensors.
//   any_order         pointwise: where the forms disagree, the result lies like an arranged one
//   deferrable        its run() gives one step to the pointwise loops, or one conversion to
//                     copy_data(): in a compiled function it may wait (device/deferred.h)
//   may_wait(args)    instead: whether it may with these
//   arranges(args)    shall the result be arranged although no input is?
//   arranged_strides(spec, forms)   how it lies then, where check() cannot tell
//
// What a program sees does not depend on any of this: a result whose spec, by the inputs as they
// are seen, asks for strides, gets these; only the others are arranged.
#pragma once

#include <array>
#include <vector>

#include "core/layout.h"
#include "ops/framework/spec.h"
#include "ops/framework/value.h"

namespace rush::op {

template <class Test, class... A>
bool any_tensor(Test test, const A&... args) {
  const auto look = [&]<class T>(const T& arg) {
    if constexpr (std::is_same_v<T, Tensor>) {
      return arg.defined() && test(arg);
    } else if constexpr (std::is_same_v<T, TensorList>) {
      for (const Tensor& t : arg)
        if (t.defined() && test(t)) return true;
      return false;
    } else {
      return false;
    }
  };
  return (look(args) || ...);
}
template <class... A>
bool any_arranged(const A&... args) {
  return any_tensor([](const Tensor& t) { return is_arranged(t); }, args...);
}
// Only then may a result lie otherwise than the program sees it: the order of sums depends on it.
template <class... A>
bool any_laid_out_otherwise(const A&... args) {
  return any_tensor([](const Tensor& t) { return is_laid_out_otherwise(t); }, args...);
}

// Those that are or were pending, and lie as their forms do, get the storage: nothing is moved.
// Was there any, and is none arranged now?
template <class... A>
bool share_form_storage(const A&... args) {
  bool given = false;
  const auto look = [&]<class T>(const T& arg) {
    const auto give = [&](const Tensor& t) {
      if (!t.defined() || !is_arranged(t) || is_laid_out_otherwise(t)) return;
      t.storage();
      given = true;
    };
    if constexpr (std::is_same_v<T, Tensor>) give(arg);
    if constexpr (std::is_same_v<T, TensorList>)
      for (const Tensor& t : arg) give(t);
  };
  (look(args), ...);
  return given && !any_arranged(args...);
}

// On the CPU what waits is computed before results get memory: they may get that of what it was
// computed from, which lies in a cache.
template <class... A>
void compute_pending_first(const A&... forms) {
  any_tensor(
      [](const Tensor& form) {
        if (form.device().is_cpu() && is_unborn(form)) form.storage();
        return false;
      },
      forms...);
}

// An argument as run() gets it: tensors by their arranged forms.
template <class A>
struct Form {
  const A& value;
  explicit Form(const A& a) : value(a) {}
  const A& get() const { return value; }
};
template <>
struct Form<Tensor> {
  Tensor value;
  explicit Form(const Tensor& t) : value(t.defined() ? arranged_form(t) : t) {}
  const Tensor& get() const { return value; }
};
template <>
struct Form<TensorList> {
  std::vector<Tensor> value;
  explicit Form(TensorList ts) {
    for (const Tensor& t : ts) value.push_back(t.defined() ? arranged_form(t) : t);
  }
  TensorList get() const { return value; }
};

inline const Spec& spec_at(const Spec& spec, size_t) { return spec; }
template <size_t N>
const Spec& spec_at(const std::array<Spec, N>& specs, size_t i) {
  return specs[i];
}

// The memory of a result: as the program will see it where that is not contiguous.
RUSH_API Tensor allocate_form(const Spec& seen, const Dims& strides);
// The same without memory yet, where it pays to wait: see Note [Pending results] in core/layout.h.
RUSH_API Tensor pending_form(const Spec& seen, const Dims& strides);

// The strides of the first tensor of these sizes that is not contiguous; none: empty.
template <class... A>
Dims order_of_arranged(const Dims& sizes, const A&... forms) {
  Dims found;
  const auto look = [&]<class T>(const T& form) {
    if constexpr (std::is_same_v<T, Tensor>) {
      if (found.empty() && form.defined() && !form.is_contiguous() && form.sizes() == sizes &&
          is_dense(form.sizes(), form.strides()))
        found = form.strides();
    }
  };
  (look(forms), ...);
  return found;
}

}  // namespace rush::op
