// op.h: how a block (check, run, grad) becomes an operator with all its forms. See
// docs/adding_an_op.md.
//
// Each form is a template over the block. The good path of op::call is: check, allocate, run, one
// test whether autograd may care. Everything about gradients stands in record() and its kin, out of
// line. The out= forms stand in ops/framework/out_form.h.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "autograd/bridge.h"
#include "autograd/engine.h"
#include "core/layout.h"
#include "core/modes.h"
#include "ops/framework/aliasing.h"
#include "ops/framework/aligned_run.h"
#include "ops/framework/arranged.h"
#include "ops/framework/host_run.h"
#include "ops/framework/kept.h"
#include "ops/framework/registry.h"
#include "ops/framework/spec.h"

namespace rush {

// Bits of `needs`: the i-th tensor argument, the i-th result, or all results. A result that is not
// named may be overwritten by the program, as in relu_(batch_norm(x)).
constexpr uint32_t in(int i) { return 1u << i; }
constexpr uint32_t result(int i) { return 1u << (24 + i); }
inline constexpr uint32_t kOut = 0xffu << 24;

// What a view op returns: a window onto self's storage. Another dtype counts the offset and strides
// in its own elements.
struct Geometry {
  Dims sizes, strides;
  int64_t offset;
  std::optional<DType> dtype{};
};

// What `grad` may ask about the call it differentiates.
class Ctx {
 public:
  Ctx(const Node& node, std::span<const bool> wanted, GradSpan outs)
      : node_(node), wanted_(wanted), outs_(outs) {}
  bool wants(size_t i) const { return i < wanted_.size() && wanted_[i]; }
  size_t inputs() const { return wanted_.size(); }
  // Sizes and dtype of input i; only for inputs that want a gradient.
  const Dims& sizes(size_t i) const { return meta(i).sizes; }
  DType dtype(size_t i) const { return meta(i).dtype; }
  Device device(size_t i) const { return meta(i).device; }
  bool arranged(size_t i) const { return meta(i).arranged; }  // see core/layout.h
  // Saved where `needs` of an input that requires a gradient says so.
  const Tensor& out(size_t i = 0) const {
    internal_assert(i < outs_.size(), "a gradient reads a result that was not kept");
    return outs_[i];
  }

 private:
  const ResultMeta& meta(size_t i) const {
    const Edge& e = node_.edges()[i];
    return e.node->results()[e.slot];
  }
  const Node& node_;
  std::span<const bool> wanted_;
  GradSpan outs_;
};

// What `jvp` may ask: the tangents of the inputs (undefined for zero) and the result.
class Jvp {
 public:
  Jvp(GradSpan tangents, const Tensor& out) : tangents_(tangents), out_(out) {}
  const Tensor& tangent(size_t i) const { return tangents_[i]; }
  const Tensor& out() const { return out_; }

 private:
  GradSpan tangents_;
  const Tensor& out_;
};

// The traits of blocks whose loops take tensors on any device and in any layout; they derive from
// this. (What the traits mean: below, where they are read.)
struct RunsAnywhere {
  static constexpr bool any_device = true;
  static constexpr bool any_layout = true;
};

namespace op {

template <class T>
struct FunctionTraits;
template <class R, class... A>
struct FunctionTraits<R (*)(A...)> {
  using Result = R;
  using Args = std::tuple<std::remove_cvref_t<A>...>;
};

template <class F>
using ArgsOf = typename FunctionTraits<F>::Args;
template <class F>
using ResultOf = typename FunctionTraits<F>::Result;

template <class T>
inline constexpr size_t result_count = 1;
template <class T, size_t N>
inline constexpr size_t result_count<std::array<T, N>> = N;

template <class Op>
concept HasGrad = requires { &Op::grad; };
template <class Op>
concept HasNeeds = requires { Op::needs[0]; };
template <class Op>
concept HasJvp = requires { &Op::jvp; };
// A block without `grad` that says so is not differentiable by nature (comparisons); one that says
// nothing has no formula, and backward through it raises.
template <class Op>
concept NotDifferentiable = requires { requires !Op::differentiable; };

// Exists only in place, and leaves nothing of the old value: check() has nothing to return.
template <class Op>
concept Overwrites = requires { &Op::check; } && std::is_void_v<ResultOf<decltype(&Op::check)>>;

template <class Op>
constexpr bool may_fail = requires { requires Op::may_fail; };
// Does run() work wherever its tensors are? See ops/framework/host_run.h.
template <class Op>
constexpr bool any_device = requires { requires Op::any_device; };
// Does run() serve any order of dims in memory equally well? See ops/framework/arranged.h.
template <class Op>
constexpr bool any_layout = requires { requires Op::any_layout; };
// Does run() look at no element, so that it does not matter where they lie? See
// ops/framework/aligned_run.h.
template <class Op>
constexpr bool any_alignment = requires { requires Op::any_alignment; };
// Does grad() take undefined gradients of results that nobody used? Else they come as zeros.
template <class Op>
constexpr bool takes_undefined = requires { requires Op::takes_undefined; };
template <class Op>
constexpr bool repeats_are_fine = requires { requires Op::repeats_are_fine; };
template <class Op>
constexpr bool is_differentiable_result(size_t i) {
  if constexpr (requires { Op::non_differentiable; }) return !(Op::non_differentiable >> i & 1);
  return true;
}

// Tensor arguments of a call, in order, lists spelled out.
template <class F>
void visit_tensors(F&& f, const Tensor& t) {
  f(t);
}
template <class F>
void visit_tensors(F&& f, TensorList ts) {
  for (const Tensor& t : ts) f(t);
}
template <class F, class A>
void visit_tensors(F&&, const A&) {}

template <class... A>
bool any_tracked(const A&... args) {
  bool any = false;
  (visit_tensors([&](const Tensor& t) { any |= is_tracked(t); }, args), ...);
  return any;
}
template <class... A>
bool any_requires_grad(const A&... args) {
  bool any = false;
  (visit_tensors([&](const Tensor& t) { any = any || requires_grad(t); }, args), ...);
  return any;
}
template <class... A>
bool any_tangent(const A&... args) {
  bool any = false;
  (visit_tensors([&](const Tensor& t) { any = any || has_tangent(t); }, args), ...);
  return any;
}

// Which tensor arguments the wanted gradients read.
template <class Op, class... A>
uint32_t saved_mask(const A&... args) {
  uint32_t mask = 0;
  if constexpr (HasNeeds<Op>) {
    constexpr size_t rules = std::size(Op::needs);
    size_t i = 0;
    (visit_tensors(
         [&](const Tensor& t) {
           if (requires_grad(t)) mask |= Op::needs[std::min(i, rules - 1)];
           ++i;
         },
         args),
     ...);
  }
  return mask;
}
// The same, for the gradients that a derived tangent asks for.
template <class Op>
uint32_t saved_mask_of(GradSpan tangents) {
  uint32_t mask = 0;
  if constexpr (HasNeeds<Op>) {
    for (size_t i = 0; i < tangents.size(); ++i) {
      if (tangents[i].defined()) mask |= Op::needs[std::min(i, std::size(Op::needs) - 1)];
    }
  }
  return mask;
}

// The node of one call: keeps the arguments, and hands them to Op::grad.
template <class Op, class... A>
class OpNode final : public Node {
 public:
  OpNode(uint32_t mask, const A&... args) : OpNode(mask, std::index_sequence_for<A...>{}, args...) {
    if constexpr (takes_undefined<Op>) set_trait(kTakesUndefined);
    if (t_modes & kDefer) [[unlikely]]
      set_trait(kDefers);
  }

  const char* name() const override { return Op::name; }
  void save_outputs(uint32_t mask, std::span<const Tensor> outs) {
    for (size_t i = 0; i < outs.size(); ++i)
      outs_.push_back(mask & result(int(i)) ? SavedTensor::output(outs[i], uint32_t(i))
                                            : SavedTensor());
  }
  // As above, for a node that is not the one that made them.
  void borrow_outputs(uint32_t mask, std::span<const Tensor> outs) {
    for (size_t i = 0; i < outs.size(); ++i)
      outs_.push_back(mask & result(int(i)) ? SavedTensor(outs[i]) : SavedTensor());
  }

  Grads apply(GradSpan grads, std::span<const bool> wanted) override {
    if constexpr (HasGrad<Op>) {
      SmallVector<Tensor, 2> outs;
      for (const SavedTensor& s : outs_) outs.push_back(s.unpack(this));
      const Ctx ctx(*this, wanted, outs);
      return std::apply(
          [&](const Kept<A>&... kept) -> Grads {
            if constexpr (requires { Op::grad(ctx, grads, kept.get(this)...); })
              return Op::grad(ctx, grads, kept.get(this)...);
            else
              return Op::grad(ctx, grads[0], kept.get(this)...);
          },
          kept_);
    } else if constexpr (Overwrites<Op>) {
      Grads zeros(edges().size());
      const ResultMeta& self = results()[0];
      if (wanted[0]) zeros[0] = engine_ops().zeros(self.sizes, self.dtype, self.device);
      return zeros;
    } else {
      fail(ErrorKind::NotImplemented, Op::name,
           "this operator has no gradient yet; detach() its inputs if none is wanted");
    }
  }

  void release_saved() override {
    std::apply([](Kept<A>&... kept) { (kept.release(), ...); }, kept_);
    for (SavedTensor& s : outs_) s.reset();
  }

  bool show_kept(KeptCall& to) override {
    to.block = &block_id<Op>;
    if constexpr (requires { Op::arguments; }) to.names = Op::arguments;
    if constexpr (HasNeeds<Op>) {
      for (const uint32_t bits : Op::needs) to.needs |= bits;
    }
    std::apply([&](Kept<A>&... kept) { (to.add(kind_of<A>, kept), ...); }, kept_);
    to.results = outs_;
    return true;
  }

 private:
  template <size_t... I>
  OpNode(uint32_t mask, std::index_sequence<I...>, const A&... args)
      : kept_(Kept<A>(args, mask >> tensor_position<I>() & 1)...) {}

  // The place of argument I among the tensor arguments (lists count once).
  template <size_t I>
  static constexpr int tensor_position() {
    constexpr bool is_tensor[] = {(std::is_same_v<A, Tensor> || std::is_same_v<A, TensorList>)...};
    int n = 0;
    for (size_t k = 0; k < I; ++k) n += is_tensor[k];
    return n;
  }

  std::tuple<Kept<A>...> kept_;
  SmallVector<SavedTensor, 1> outs_;
};

// self as it is before the write: its bytes copied, its history kept.
RUSH_API Tensor write_target_copy(const Tensor& self);

// The node of an in-place call. Where a gradient reads self's old value, it is kept as a copy: the
// write will destroy it. Self may be among the other arguments too, as in x.mul_(x).
template <class Op, class... A>
Ref<OpNode<Op, Tensor, A...>> make_inplace_node(const Tensor& self, const A&... rest) {
  const uint32_t mask = saved_mask<Op>(self, rest...);
  bool reads_old = mask & in(0);
  [[maybe_unused]] int i = 1;
  [[maybe_unused]] auto look = [&](const auto& arg) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(arg)>, Tensor>)
      reads_old |= arg.is_same(self) && (mask & in(i));
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(arg)>, Tensor> ||
                  std::is_same_v<std::remove_cvref_t<decltype(arg)>, TensorList>)
      ++i;
  };
  (look(rest), ...);
  const Tensor old = reads_old ? write_target_copy(self) : self;
  [[maybe_unused]] auto before = [&](const auto& arg) -> decltype(auto) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(arg)>, Tensor>)
      return arg.is_same(self) ? old : arg;
    else
      return arg;
  };
  auto node = Ref<OpNode<Op, Tensor, A...>>::adopt(
      new OpNode<Op, Tensor, A...>(mask, old, before(rest)...));
  node->add_edge(gradient_edge(self));
  (visit_tensors([&](const Tensor& t) { node->add_edge(t.defined() ? gradient_edge(t) : Edge{}); },
                 rest),
   ...);
  return node;
}

template <class Op, class... A>
Ref<OpNode<Op, A...>> make_node(const A&... args) {
  auto node = Ref<OpNode<Op, A...>>::adopt(new OpNode<Op, A...>(saved_mask<Op>(args...), args...));
  (visit_tensors([&](const Tensor& t) { node->add_edge(t.defined() ? gradient_edge(t) : Edge{}); },
                 args),
   ...);
  return node;
}

// Results that no gradient flows through remember why: `by`, or else what cut off their inputs.
template <class... A>
[[gnu::noinline]] void note_cut(std::span<const Tensor> outs, const char* by, const A&... args) {
  const Tensor* source = nullptr;
  (visit_tensors(
       [&](const Tensor& t) {
         if (!source && t.defined() && t.impl()->cut_by) source = &t;
       },
       args),
   ...);
  for (const Tensor& out : outs) {
    if (by)
      mark_cut(out, by);
    else if (source)
      inherit_cut(out, *source);
  }
}

template <class Op, class... A>
[[gnu::noinline]] void record_tangents(std::span<const Tensor> outs, const A&... args);

// What autograd keeps of a call: its node (or why there is none), and the tangents of its results.
// A view's tangents are its own affair.
template <class Op, bool tangents = true, class... A>
[[gnu::noinline]] void record(std::span<const Tensor> outs, const A&... args) {
  const bool wanted = any_requires_grad(args...);
  if constexpr (NotDifferentiable<Op>) {
    note_cut(outs, wanted ? Op::name : nullptr, args...);
  } else {
    Ref<OpNode<Op, A...>> node;
    if (!wanted || !grad_enabled()) {
      const char* off = t_modes & kInferenceMode ? kCutByInference : kCutByNoGrad;
      note_cut(outs, wanted ? off : nullptr, args...);
    } else {
      bool any = false;
      for (size_t i = 0; i < outs.size(); ++i)
        any |= is_differentiable(outs[i].dtype()) && is_differentiable_result<Op>(i);
      if (!any) return note_cut(outs, Op::name, args...);
      node = make_node<Op>(args...);
      for (size_t i = 0; i < outs.size(); ++i) {
        const uint32_t slot = node->add_result(outs[i]);
        if (is_differentiable(outs[i].dtype()) && is_differentiable_result<Op>(i))
          set_history(outs[i], Ref<Node>(Ref<Node>::share(node.get())), slot);
      }
    }
    if constexpr (tangents) {
      if (forward_active()) [[unlikely]]
        record_tangents<Op>(outs, args...);
    }
    if constexpr (HasNeeds<Op>) {  // with their tangents
      const uint32_t mask = node ? saved_mask<Op>(args...) : 0;
      if (mask & kOut) node->save_outputs(mask, outs);
    }
  }
}

inline Tensor cut(Bridges& bridges, const Tensor& t) { return bridges.cut(t); }
inline std::vector<Tensor> cut(Bridges& bridges, TensorList ts) {
  std::vector<Tensor> out;
  for (const Tensor& t : ts) out.push_back(bridges.cut(t));
  return out;
}
template <class A>
const A& cut(Bridges&, const A& a) {
  return a;
}

// Differentiates v -> J^T v, given at v = dummies as `back`, along `tangents`: J t.
RUSH_API std::vector<Tensor> transpose_again(const char* op, const Grads& back, GradSpan tangents,
                                             std::span<const Tensor> dummies, bool keep_graph);
// A stand-in for the gradient of each result.
RUSH_API std::vector<Tensor> dummy_gradients(std::span<const Tensor> outs);
// t.tangent = tangent, brought to t's sizes and dtype.
RUSH_API void store_tangent(const Tensor& t, int level, const Tensor& tangent);
// self was overwritten by a result that carries these tangents.
RUSH_API void take_tangents(const Tensor& self, const Tensor& result);

// The tangents of the results: the block's own rule, else derived from its gradient: v -> J^T v is
// linear in v, and differentiating <J^T v, t> with respect to v gives J t.
template <class Op, class... A>
std::vector<Tensor> tangents_of_results(std::span<const Tensor> outs, GradSpan tangents,
                                        const A&... args) {
  std::vector<Tensor> result(outs.size());
  if constexpr (HasJvp<Op>) {
    const Jvp j(tangents, outs[0]);
    result[0] = Op::jvp(j, args...);
  } else if constexpr (HasGrad<Op>) {
    const bool keep_graph =
        grad_enabled() && (any_requires_grad(args...) || any_requires_grad(TensorList(tangents)));
    const uint32_t mask = saved_mask_of<Op>(tangents);
    ModeGuard grad_on(kNoGrad, false);
    Bridges bridges(keep_graph);
    auto node = [&](const auto&... own) {
      return Ref<OpNode<Op, A...>>::adopt(new OpNode<Op, A...>(mask, own...));
    }(cut(bridges, args)...);
    for (const Tensor& out : outs) node->add_result(out);
    SmallVector<bool, 8> wanted;
    for (const Tensor& t : tangents) {
      wanted.push_back(t.defined());
      node->add_edge(t.defined() ? Edge{Ref<Node>::adopt(new Bridge(t)), 0} : Edge{});
    }
    if (mask & kOut) node->borrow_outputs(mask, cut(bridges, TensorList(outs)));
    const std::vector<Tensor> dummies = dummy_gradients(outs);
    const Grads back = node->apply(dummies, std::span<const bool>(wanted.data(), wanted.size()));
    result = transpose_again(Op::name, back, tangents, dummies, keep_graph);
    bridges.reconnect();
  } else {
    fail(ErrorKind::NotImplemented, Op::name, "this operator has no forward-mode rule yet");
  }
  return result;
}

template <class Op, class... A>
void record_tangents(std::span<const Tensor> outs, const A&... args) {
  for (int level = 1, last = visible_forward_level(); level <= last; ++level) {
    const LevelsBelow below(level);  // see Note [Levels]
    Grads tangents;
    bool any = false;
    (visit_tensors(
         [&](const Tensor& t) {
           tangents.push_back(tangent_at(t, level));
           any |= tangents[tangents.size() - 1].defined();
         },
         args),
     ...);
    if (!any) continue;
    const std::vector<Tensor> results = tangents_of_results<Op>(outs, tangents, args...);
    for (size_t i = 0; i < outs.size(); ++i) {
      if (is_differentiable_result<Op>(i)) store_tangent(outs[i], level, results[i]);
    }
  }
}

// Does run() move, convert or compare elements of float8 types? Other blocks never see one.
template <class Op>
constexpr bool takes_float8 = requires { requires Op::takes_float8; };
[[noreturn, gnu::cold]] RUSH_API void fail_for_float8(const char* op, DType t);
template <class... A>
void refuse_float8(const char* op, const A&... args) {
  (visit_tensors(
       [&](const Tensor& t) {
         if (t.defined() && is_float8(t.dtype())) [[unlikely]]
           fail_for_float8(op, t.dtype());
       },
       args),
   ...);
}

// Op::run, where the tensors are, or over host or aligned copies. `written` is one of the results;
// the last `Results` arguments are all of them (0: the first argument is).
template <class Op, size_t Results, class... A>
void run_block(const Tensor& written, const A&... args) {
  if constexpr (!takes_float8<Op>) refuse_float8(Op::name, args...);
  if constexpr (!any_device<Op>) {
    if (needs_host_copy(written)) [[unlikely]]
      return run_on_host<Op, Results>(args...);
  }
  if constexpr (!any_alignment<Op>) {
    if (g_odd_memory.load(std::memory_order_relaxed)) [[unlikely]]
      if (any_tensor([](const Tensor& t) { return is_misaligned(t); }, args...))
        return run_aligned<Op>(args...);
  }
  Op::run(args...);
}

// Does its run() give one step to the pointwise loops of the device, so that it may wait? See Note
// [Pending results] in core/layout.h.
template <class Op>
constexpr bool is_deferrable = requires { requires Op::deferrable; };
template <class Op, class... A>
constexpr bool defers([[maybe_unused]] const A&... args) {
  if constexpr (requires { Op::may_wait(args...); })
    return t_modes & kDefer && Op::may_wait(args...);
  else if constexpr (is_deferrable<Op>)
    return t_modes & kDefer;
  return false;
}

// A tensor, or a tuple of several.
template <size_t n>
struct ResultTuple {
  using type = decltype(std::tuple_cat(std::array<Tensor, n>{}));
};
template <>
struct ResultTuple<1> {
  using type = Tensor;
};
template <class Op>
using Results =
    typename ResultTuple<result_count<std::remove_cvref_t<ResultOf<decltype(&Op::check)>>>>::type;

template <class Op, class... A>
Results<Op> call(const A&... args);

// The functional form where an input is arranged or pending, or a result is to be: see
// ops/framework/arranged.h.
template <class Op, class... A>
[[gnu::noinline, gnu::cold]] Results<Op> call_arranged(const A&... args) {
  const bool waits = defers<Op>(args...);
  if (!waits && share_form_storage(args...)) return call<Op>(args...);
  const auto seen = Op::check(args...);  // what the program will see
  constexpr size_t n = result_count<std::remove_cvref_t<decltype(seen)>>;
  std::array<Tensor, n> outs;
  [[maybe_unused]] const bool otherwise = any_laid_out_otherwise(args...);
  [&](const auto&... forms) {
    if (!waits) compute_pending_first(forms.get()...);
    std::array<Dims, n> strides;
    if constexpr (requires(const Spec& spec) { Op::arranged_strides(spec, forms.get()...); }) {
      for (size_t i = 0; i < n; ++i)
        strides[i] = Op::arranged_strides(spec_at(seen, i), forms.get()...);
    } else {
      const auto inside = Op::check(forms.get()...);
      for (size_t i = 0; i < n; ++i) strides[i] = spec_at(inside, i).strides;
    }
    for (size_t i = 0; i < n; ++i) {
      const Spec& spec = spec_at(seen, i);
      if constexpr (requires { Op::any_order; })
        if (strides[i].empty() && otherwise)
          strides[i] = order_of_arranged(spec.sizes, forms.get()...);
      outs[i] = waits ? pending_form(spec, strides[i]) : allocate_form(spec, strides[i]);
    }
    if (!outs[0].is_meta())
      std::apply([&](const auto&... out) { run_block<Op, n>(outs[0], forms.get()..., out...); },
                 outs);
    for (size_t i = 0; i < n; ++i) {
      const Dims& as_seen = spec_at(seen, i).strides;
      if (is_arranged(outs[i]))
        outs[i] = over_pending(outs[i], as_seen);
      else if (as_seen.empty())
        outs[i] = arrange(std::move(outs[i]));
    }
  }(Form<A>(args)...);
  if (any_tracked(args...)) [[unlikely]]
    record<Op>(outs, args...);
  if constexpr (n == 1)
    return std::move(outs[0]);
  else
    return std::tuple_cat(outs);
}

// The functional form.
template <class Op, class... A>
Results<Op> call(const A&... args) {
  if constexpr (any_layout<Op>) {
    if (any_arranged(args...)) [[unlikely]]
      return call_arranged<Op>(args...);
    if constexpr (requires { Op::arranges(args...); }) {
      if (Op::arranges(args...)) return call_arranged<Op>(args...);
    }
  }
  const auto spec = Op::check(args...);
  constexpr size_t n = result_count<std::remove_cvref_t<decltype(spec)>>;
  if constexpr (n == 1) {
    Tensor out = spec.allocate();
    if (!spec.device.is_meta()) [[likely]]
      run_block<Op, 1>(out, args..., out);
    if (any_tracked(args...)) [[unlikely]]
      record<Op>(std::span<const Tensor>(&out, 1), args...);
    return out;
  } else {
    std::array<Tensor, n> outs;
    for (size_t i = 0; i < n; ++i) outs[i] = spec[i].allocate();
    if (!spec[0].device.is_meta()) [[likely]]
      std::apply([&](const auto&... out) { run_block<Op, n>(outs[0], args..., out...); }, outs);
    if (any_tracked(args...)) [[unlikely]]
      record<Op>(outs, args...);
    return std::tuple_cat(outs);
  }
}

// May the result of this spec be written into t in place? Raises otherwise.
RUSH_API void check_in_place_result(const char* op, const Tensor& t, const Spec& spec);
RUSH_API void check_no_grad_for_out(const char* op, bool any_requires_grad);
RUSH_API void write_back(const Tensor& out,
                         const Tensor& result);  // the bytes of result into out, without history
RUSH_API void assign_in_place(const Tensor& self,
                              const Tensor& result);  // self.copy_(result), with history

// Must an op be computed aside, because self shares memory with an argument other than itself?
// Looks at all of them: one may be refused.
template <class Op, class... A>
bool arguments_share(const Tensor& self, const A&... rest) {
  [[maybe_unused]] constexpr SharingRules rules = sharing_rules<Op>(1);
  bool aside = false;
  (visit_tensors(
       [&](const Tensor& t) {
         aside = must_compute_aside(Op::name, self, self.sizes(), t, rules) || aside;
       },
       rest),
   ...);
  return aside;
}

// self = Op(self, rest...), straight into its memory where that is safe.
template <class Op, class... A>
void write_in_place(const Spec& spec, const Tensor& self, const A&... rest) {
  const bool aside = arguments_share<Op>(self, rest...);
  const bool direct = in_place_safe<Op> && !may_fail<Op> && spec.dtype == self.dtype() && !aside;
  if (direct) [[likely]] {
    run_block<Op, 1>(self, self, rest..., self);
  } else {
    const Tensor temporary = spec.allocate();
    run_block<Op, 1>(temporary, self, rest..., temporary);
    write_back(self, temporary);
  }
}
template <class Op, class... A>
[[gnu::noinline, gnu::cold]] void write_arranged(const Spec& spec, const A&... args) {
  if (share_form_storage(args...)) return write_in_place<Op>(spec, args...);
  [&](const auto&... forms) { write_in_place<Op>(spec, forms.get()...); }(Form<A>(args)...);
}

// The same where self is pending: nothing is written, it gets another form. Whoever else holds the
// old one (recipes, saved tensors) keeps the old values.
template <class Op, class... A>
[[gnu::noinline, gnu::cold]] void exchange_pending(const Spec& spec, const Tensor& self,
                                                   const A&... rest) {
  const Tensor fresh =
      make_pending(spec.sizes, arranged_form(self).strides(), spec.dtype, spec.device);
  [&](const auto&... forms) { run_block<Op, 1>(fresh, forms.get()..., fresh); }(Form<Tensor>(self),
                                                                                Form<A>(rest)...);
  exchange_form(self, fresh);
}

// Runs f, which writes to the tensors, and counts that: also where an interrupt
// (core/interrupt.h) ends it halfway. A block that raises has written nothing, see `may_fail`.
template <class F>
void write_counted(const char* op, std::span<const Tensor> written, F&& f) {
  const auto count = [&] {
    for (const Tensor& t : written) t.bump_version(op);
  };
  if (t_modes & kDefer) [[unlikely]]  // what waits may read what is written
    flush_pending(op);
  try {
    f();
  } catch (const Error&) {
    throw;
  } catch (...) {
    count();
    throw;
  }
  count();
}

template <class Op, class... A>
const Tensor& call_inplace(const Tensor& self, const A&... rest) {
  const Spec spec = Op::check(self, rest...);
  if constexpr (requires { Op::check_in_place(self, spec); })
    Op::check_in_place(self, spec);  // what only this form refuses
  check_in_place_result(Op::name, self, spec);
  const bool tracked = any_tracked(self, rest...);
  check_in_place(Op::name, self, repeats_are_fine<Op>, tracked && any_requires_grad(rest...));
  constexpr bool differentiable = !NotDifferentiable<Op>;
  const bool records =
      differentiable && tracked && grad_enabled() && any_requires_grad(self, rest...);
  Ref<OpNode<Op, Tensor, A...>> node;
  if (records) [[unlikely]]
    node = make_inplace_node<Op>(self, rest...);
  // The tangent's rule reads the inputs as they were, and the result: it runs aside first.
  Tensor aside;
  if constexpr (differentiable) {
    if (tracked && forward_active() && any_tangent(self, rest...)) [[unlikely]]
      aside = call<Op>(self, rest...);
  }
  if (defers<Op>() && in_place_safe<Op> && is_pending(self) && spec.dtype == self.dtype()) {
    exchange_pending<Op>(spec, self, rest...);
    self.bump_version(Op::name);
  } else {
    write_counted(Op::name, {&self, 1}, [&] {
      if (self.is_meta()) [[unlikely]]
        return;
      if constexpr (any_layout<Op>) {
        if (any_arranged(self, rest...)) [[unlikely]]
          return write_arranged<Op>(spec, self, rest...);
      }
      write_in_place<Op>(spec, self, rest...);
    });
  }
  if (aside.defined()) [[unlikely]]
    take_tangents(self, aside);
  if (records) [[unlikely]] {
    rebase_history(self, Ref<Node>::share(node.get()));
    if constexpr (HasNeeds<Op>) {
      const uint32_t mask = saved_mask<Op>(self, rest...);
      if (mask & kOut) node->save_outputs(mask, std::span<const Tensor>(&self, 1));
    }
  }
  return self;
}

// See Note [Tangents of views]: most views need none of their own.
template <class Op, class... A>
Tensor call_view(const Tensor& self, const A&... rest);
template <class Op, class... A>
[[gnu::noinline]] void view_tangents(const Tensor& out, const Tensor& self, const A&... rest) {
  for (int level = 1, last = visible_forward_level(); level <= last; ++level) {
    const Tensor tangent = own_tangent(self, level);
    if (!tangent.defined() || !(self.impl()->base || has_internal_overlap(self))) continue;
    const LevelsBelow below(level);
    set_own_tangent(out, level, call_view<Op>(tangent, rest...));
  }
}

// A view: another geometry over the same storage; no bytes move, so it works on every device.
template <class Op, class... A>
Tensor call_view(const Tensor& self, const A&... rest) {
  const Geometry g = Op::view(self, rest...);
  Tensor out = self.alias(g.sizes, g.strides, g.offset);
  if (g.dtype) out.impl()->dtype = *g.dtype;
  out.impl()->base = self.impl()->base ? self.impl()->base : self.ref();
  out.impl()->set(TensorImpl::kNoGradView, t_modes & kNoGrad);
  if (is_tracked(self)) [[unlikely]] {
    record<Op, false>(std::span<const Tensor>(&out, 1), self, rest...);
    if (forward_active()) view_tangents<Op>(out, self, rest...);
    // See Note [Views made without grad mode].
    if (!grad_enabled() && requires_grad(self)) grad_meta(out).view_version = out.version();
  }
  return out;
}

// Composites: written over other ops, which record themselves.
template <class Op, class... A>
auto compose(const A&... args) {
  return Op::call(args...);
}
template <class Op, class... A>
const Tensor& compose_inplace(const Tensor& self, const A&... rest) {
  check_in_place(Op::name, self, false, any_tracked(rest...) && any_requires_grad(rest...));
  if constexpr (refuses_overlap<Op> || refuses_sharing<Op>) arguments_share<Op>(self, rest...);
  // What the steps save of self must outlive the write at the end.
  const bool records = is_tracked(self) && grad_enabled() && requires_grad(self);
  const Tensor before = records && !self.is_meta() ? write_target_copy(self) : self;
  const Tensor result = Op::call(before, rest...);
  check_in_place_result(Op::name, self, Spec{result.sizes(), result.dtype(), result.device()});
  assign_in_place(self, result);
  return self;
}
// Ops that exist only in place (uniform_): check(self, ...) returns nothing, run(self, ...)
// overwrites self. The old value is gone, so the gradient of self is zero unless the block has a
// `grad`.
template <class Op, class... A>
const Tensor& mutate(const Tensor& self, const A&... rest) {
  Op::check(self, rest...);
  const bool tracked = any_tracked(self, rest...);
  check_in_place(Op::name, self, repeats_are_fine<Op>);
  // Arguments that are tensors are read element by element (bernoulli_).
  [[maybe_unused]] constexpr SharingRules rules{.exact_is_fine = true, .refuses_part = true};
  (visit_tensors(
       [&](const Tensor& t) { must_compute_aside(Op::name, self, self.sizes(), t, rules); }, rest),
   ...);
  const bool records = tracked && grad_enabled() && requires_grad(self);
  Ref<OpNode<Op, Tensor, A...>> node;
  if (records) node = make_inplace_node<Op>(self, rest...);
  std::vector<Tensor> old;  // tangents of self, one a level
  if (tracked && forward_active()) [[unlikely]] {
    for (int level = 1; level <= visible_forward_level(); ++level)
      old.push_back(tangent_at(self, level));
  }
  write_counted(Op::name, {&self, 1}, [&] {
    if (!self.is_meta()) [[likely]]
      run_block<Op, 0>(self, self, rest...);
  });
  if (records) rebase_history(self, Ref<Node>::share(node.get()));
  for (size_t i = 0; i < old.size(); ++i) {
    if (!old[i].defined()) continue;
    const int level = int(i) + 1;
    const LevelsBelow below(level);
    if constexpr (HasGrad<Op>) {
      Grads tangents;
      tangents.push_back(old[i]);
      (visit_tensors([&](const Tensor& t) { tangents.push_back(tangent_at(t, level)); }, rest),
       ...);
      const std::vector<Tensor> fresh =
          tangents_of_results<Op>(std::span<const Tensor>(&self, 1), tangents, self, rest...);
      store_tangent(self, level, fresh[0]);
    } else {
      store_tangent(self, level, Tensor());
    }
  }
  return self;
}

}  // namespace op

// The contract of a block, checked where its forms are generated.
template <class Op>
concept NamedOp = requires {
  { Op::name } -> std::convertible_to<const char*>;
};
template <class Op>
concept ComputeOp = NamedOp<Op> && requires {
  &Op::check;
  &Op::run;
};
template <class Op>
concept ViewOp = NamedOp<Op> && requires { &Op::view; } &&
                 std::same_as<op::ResultOf<decltype(&Op::view)>, Geometry>;
template <class Op>
concept CompositeOp = NamedOp<Op> && requires { &Op::call; };
template <class Op>
concept MutateOp = NamedOp<Op> && requires {
  &Op::check;
  &Op::run;
} && std::same_as<op::ResultOf<decltype(&Op::check)>, void>;

}  // namespace rush
