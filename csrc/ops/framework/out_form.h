// out_form.h: the out= form of a block. Everything that may raise comes before anything is resized
// or written, and what the inputs share with the outputs is decided (ops/framework/aliasing.h)
// while both are as the program gave them.
#pragma once

#include "ops/framework/op.h"

namespace rush::op {
namespace detail {

// Must the results be computed aside, because an input shares memory with an output? Looks at all
// pairs: one of them may be refused.
template <class Op, size_t N, class... A>
bool inputs_share(const std::array<Tensor, N>& outs, const std::array<Spec, N>& specs,
                  const A&... args) {
  bool aside = false;
  for (size_t i = 0; i < N; ++i) {
    [[maybe_unused]] size_t position = 0;
    (visit_tensors(
         [&](const Tensor& t) {
           const SharingRules rules = sharing_rules<Op>(position++);
           aside = must_compute_aside(Op::name, outs[i], specs[i].sizes, t, rules) || aside;
         },
         args),
     ...);
  }
  return aside;
}

}  // namespace detail

template <class Op, size_t N, class... A>
auto call_out(const std::array<Tensor, N>& outs, const A&... args) {
  const auto checked = Op::check(args...);
  std::array<Spec, N> specs;
  if constexpr (N == 1)
    specs[0] = checked;
  else
    specs = checked;
  check_no_grad_for_out(Op::name, grad_enabled() && (any_requires_grad(args...) ||
                                                     any_requires_grad(TensorList(outs))));
  if constexpr (requires { Op::check_out(outs[0]); })
    Op::check_out(outs[0]);  // what only this form refuses
  check_outs(Op::name, outs, specs);
  bool aside = detail::inputs_share<Op>(outs, specs, args...) || may_fail<Op>;
  for (size_t i = 0; i < N; ++i) aside = aside || outs[i].dtype() != specs[i].dtype;
  const auto run = [&](const std::array<Tensor, N>& to) {
    std::apply([&](const auto&... out) { run_block<Op, N>(to[0], args..., out...); }, to);
  };
  write_counted(Op::name, outs, [&] {
    if (outs[0].is_meta()) {
      resize_outs(Op::name, outs, specs);
    } else if (aside) {
      std::array<Tensor, N> results;
      for (size_t i = 0; i < N; ++i) results[i] = specs[i].allocate();
      run(results);
      resize_outs(Op::name, outs, specs);
      for (size_t i = 0; i < N; ++i) write_back(outs[i], results[i]);
    } else {
      resize_outs(Op::name, outs, specs);
      run(outs);
    }
  });
  return std::tuple_cat(outs);
}
template <class Op, class... A>
const Tensor& call_out(const Tensor& out, const A&... args) {
  call_out<Op>(std::array<Tensor, 1>{out}, args...);
  return out;
}

// Composites have their results before they write, so that only what is refused is looked for.
template <class Op, size_t N, class... A>
auto compose_out(const std::array<Tensor, N>& outs, const A&... args) {
  check_no_grad_for_out(Op::name, grad_enabled() && (any_requires_grad(args...) ||
                                                     any_requires_grad(TensorList(outs))));
  std::array<Tensor, N> results;
  if constexpr (N == 1)
    results[0] = Op::call(args...);
  else
    results =
        std::apply([](const auto&... r) { return std::array<Tensor, N>{r...}; }, Op::call(args...));
  if constexpr (refuses_overlap<Op> || refuses_sharing<Op>) {
    std::array<Spec, N> specs;
    for (size_t i = 0; i < N; ++i) specs[i].sizes = results[i].sizes();
    detail::inputs_share<Op>(outs, specs, args...);
  }
  write_outs(Op::name, Op::name, outs, results);
  return std::tuple_cat(outs);
}
template <class Op, class... A>
const Tensor& compose_out(const Tensor& out, const A&... args) {
  compose_out<Op>(std::array<Tensor, 1>{out}, args...);
  return out;
}

}  // namespace rush::op
