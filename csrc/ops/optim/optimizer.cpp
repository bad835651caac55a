// Steps of optimisers: one pass over all parameters of a group. Norms and scales of lists.
#include "device/optim.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "autograd/snapshot.h"
#include "core/interrupt.h"
#include "core/misaligned.h"
#include "device/lists.h"
#include "device/runtime.h"
#include "ops/framework/data.h"
#include "ops/framework/op.h"
#include "ops/ops.h"
#include "ops/optim/optimizer_rules.h"
#include "ops/optim/uses.h"

namespace rush {
namespace {

bool same_flat_layout(const Tensor& a, const Tensor& b) {
  return (a.is_contiguous() && b.is_contiguous()) || a.strides() == b.strides();
}

void check_fits(const char* op, const char* what, size_t i, const Tensor& p, const Tensor& t) {
  check_shape(t.sizes() == p.sizes(), op, "parameter ", i, " has shape ", p.sizes(), ", its ", what,
              " ", t.sizes());
  check_dtype(t.dtype() == p.dtype(), op, "parameter ", i, " is ", p.dtype(), ", its ", what, " ",
              t.dtype());
  rush::check(t.device() == p.device(), ErrorKind::Device, op, "parameter ", i, " is on ",
              p.device(), ", its ", what, " on ", t.device());
}

void check_operands(const char* op, TensorList params, TensorList grads, TensorList states,
                    size_t num_states) {
  for (size_t i = 0; i < params.size(); ++i) {
    const Tensor& p = params[i];
    check_dtype((p.is_floating() && !is_float8(p.dtype())) || p.is_complex(), op, "parameter ", i,
                " is ", p.dtype(), "; only floating and complex tensors can be optimised");
    check_in_place(op, p);
    check_fits(op, "gradient", i, p, grads[i]);
    for (const Tensor& state : states.subspan(i * num_states, num_states)) {
      check_fits(op, "state", i, p, state);
      check_in_place(op, state);
    }
  }
}

// One call's arguments, checked.
struct Step {
  const OptimizerRuleInfo& rule;
  OptimizerRule kernel;
  size_t num_states;
  TensorList params, grads, scalars, states;
  const double* options;
  const OptimizerFormula* formula;  // null: the scalars are on the host, and so is the arithmetic

  size_t num_scalars() const { return size_t(rule.scalars); }
  const Tensor& state(size_t i, size_t k) const { return states[i * num_states + k]; }

  void check_scalars() const {
    const char* op = rule.writer;
    for (size_t i = 0; i < params.size(); ++i) {
      const Tensor& p = params[i];
      for (size_t k = 0; k < num_scalars(); ++k) {
        const Tensor& s = scalars[i * num_scalars() + k];
        rush::check(s.numel() == 1 && (s.is_floating() || category(s.dtype()) == Category::Integer),
                    ErrorKind::Argument, op, "parameter ", i, "'s ", k == 0 ? "step" : "scalar",
                    " must be a tensor with one real element, not ", s.sizes(), " of ", s.dtype());
        if (formula) {
          rush::check(s.device() == p.device() && s.dtype() == scalars[0].dtype() &&
                          (s.dtype() == DType::Float32 || s.dtype() == DType::Float64),
                      ErrorKind::Argument, op, "parameter ", i, " is on ", p.device(),
                      ", its step count on ", s.device(), " as ", s.dtype(),
                      "; step counts on a GPU must all be there, in float32 or all in float64");
        } else {
          rush::check(s.device().is_cpu() || p.is_meta(), ErrorKind::Device, op, "parameter ", i,
                      " is on ", p.device(), ", its step count on ", s.device());
        }
        check_in_place(op, s);
      }
    }
  }

  Step only(size_t i) const {
    return {rule,
            kernel,
            num_states,
            params.subspan(i, 1),
            grads.subspan(i, 1),
            scalars.subspan(i * num_scalars(), num_scalars()),
            states.subspan(i * num_states, num_states),
            options,
            formula};
  }

  // The device works out the numbers.
  void run_by_formula() const {
    std::vector<OptimizerTensor> flat(params.size());
    std::vector<std::pair<Tensor, Tensor>> write_backs;  // to, from
    std::vector<Tensor> kept;
    for (size_t i = 0; i < params.size(); ++i) {
      place(i, flat[i], write_backs, kept);
      for (size_t k = 0; k < num_scalars(); ++k)
        flat[i].scalars[k] = scalars[i * num_scalars() + k].data<char>();
    }
    const Device device = params[0].device();
    optim_loops(device).step(kernel, flat, formula, device);
    for (const auto& [to, from] : write_backs) copy_data(to, from);
  }

  // Works out the numbers of each parameter. Most have the same step count: then the powers of the
  // last one serve again.
  void run() const {
    if (formula) return run_by_formula();
    std::vector<OptimizerTensor> flat(params.size());
    std::vector<std::pair<Tensor, Tensor>> write_backs;  // to, from
    std::vector<Tensor> kept;
    double before[kMaxOptimizerScalars], after[kMaxOptimizerScalars];
    for (size_t i = 0; i < params.size(); ++i) {
      OptimizerTensor& t = flat[i];
      double now[kMaxOptimizerScalars] = {};
      bool single = true;
      for (size_t k = 0; k < num_scalars(); ++k) {
        const Tensor& s = scalars[i * num_scalars() + k];
        single = single && s.dtype() != DType::Float64;
        now[k] = s.dtype() == DType::Float32 && !is_misaligned(s)
                     ? double(*s.data<float>())
                     : load_scalar(s.data(), s.dtype()).to_double();
      }
      if (i > 0 && std::equal(now, now + num_scalars(), before)) {
        std::copy(flat[i - 1].numbers, flat[i - 1].numbers + kMaxOptimizerNumbers, t.numbers);
      } else {
        std::copy(now, now + num_scalars(), before);
        std::copy(now, now + num_scalars(), after);
        rule.prepare(options, after, single, t.numbers);
      }
      for (size_t k = 0; k < num_scalars(); ++k) {
        const Tensor& s = scalars[i * num_scalars() + k];
        if (s.dtype() == DType::Float32 && !is_misaligned(s))
          *s.data<float>() = float(after[k]);
        else
          store_scalar(s.data(), s.dtype(),
                       s.is_floating() ? Scalar(after[k]) : Scalar(int64_t(after[k])));
      }
      place(i, t, write_backs, kept);
    }
    const Device device = params[0].device();
    optim_loops(device).step(kernel, flat, nullptr, device);
    for (const auto& [to, from] : write_backs) copy_data(to, from);
  }

  // The addresses of one parameter's operands: their own where all lie alike without gaps, else
  // those of contiguous copies.
  void place(size_t i, OptimizerTensor& t, std::vector<std::pair<Tensor, Tensor>>& write_backs,
             std::vector<Tensor>& kept) const {
    const Tensor& p = params[i];
    bool flat = is_flat(p) && same_flat_layout(p, grads[i]);
    flat = flat && is_flat(grads[i]);
    for (size_t k = 0; k < num_states; ++k)
      flat = flat && same_flat_layout(p, state(i, k)) && is_flat(state(i, k));
    auto address = [&](const Tensor& x, bool written) {
      if (flat || (x.is_contiguous() && is_flat(x))) return x.data<char>();
      const Tensor copy = contiguous_data(x);
      if (written)
        write_backs.emplace_back(x, copy);
      else
        kept.push_back(copy);
      return copy.data<char>();
    };
    t.ptrs[0] = address(p, true);
    t.ptrs[1] = address(grads[i], false);
    for (size_t k = 0; k < num_states; ++k) t.ptrs[2 + k] = address(state(i, k), true);
    // A complex number is two real ones: PyTorch steps both parts by themselves.
    t.dtype = to_real(p.dtype());
    t.numel = p.is_complex() ? 2 * p.numel() : p.numel();
  }

  void bump_versions() const {
    for (const Tensor& t : params) t.bump_version(rule.writer);
    for (const Tensor& t : states) t.bump_version(rule.writer);
    for (const Tensor& t : scalars) t.bump_version(rule.writer);
  }
};

// The parameters of one device with what belongs to them, and options where that device has them.
struct DevicePart {
  std::vector<Tensor> params, grads, scalars, states;
  std::vector<double> options;
  std::vector<OptimizerOption> on_device;

  void move_option(const OptimizerOption& o) {
    if (optim_loops(params[0]).takes_formula)
      on_device.push_back({o.place, to(o.value, params[0].device())});
    else
      options[size_t(o.place)] = o.value.item().to_double();
  }
};

std::vector<DevicePart> split_by_device(const OptimizerRuleInfo& rule, size_t num_states,
                                        TensorList params, TensorList grads, TensorList scalars,
                                        TensorList states, std::span<const double> options,
                                        std::span<const OptimizerOption> on_device) {
  std::vector<DevicePart> parts;
  const auto part_of = [&](const Tensor& p) -> DevicePart& {
    for (DevicePart& part : parts)
      if (part.params[0].device() == p.device()) return part;
    parts.emplace_back().options.assign(options.begin(), options.end());
    return parts.back();
  };
  const auto append = [](std::vector<Tensor>& to, TensorList from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  const size_t each = size_t(rule.scalars);
  for (size_t i = 0; i < params.size(); ++i) {
    DevicePart& part = part_of(params[i]);
    part.params.push_back(params[i]);
    part.grads.push_back(grads[i]);
    append(part.scalars, scalars.subspan(i * each, each));
    append(part.states, states.subspan(i * num_states, num_states));
  }
  for (DevicePart& part : parts)
    for (const OptimizerOption& o : on_device) part.move_option(o);
  return parts;
}

bool is_capturing(const Tensor& t) {
  const auto asks = device_runtime(t).is_capturing;
  return asks && asks(t.device());
}

// A step for the parameters of one device.
int64_t step_on_device(const OptimizerRuleInfo& rule, TensorList params, TensorList grads,
                       TensorList scalars, TensorList states, std::span<const double> options,
                       std::span<const OptimizerOption> on_device) {
  const OptimizerRule kernel = rule.kernel(options.data());
  const bool takes_formula = !params.empty() && optim_loops(params[0]).takes_formula;
  const bool scalars_are_there = !scalars.empty() && device_traits(scalars[0]).separate_memory;
  const bool by_formula =
      takes_formula && (scalars_are_there || (scalars.empty() && !on_device.empty()));
  std::vector<double> numbers(options.begin(), options.end());
  OptimizerFormula formula{};
  if (by_formula) {
    formula.numbers = rule.numbers;
    formula.scalars = rule.scalars;
    formula.wide = !scalars.empty() && scalars[0].dtype() == DType::Float64;
    std::copy(options.begin(), options.end(), formula.options);
    for (const OptimizerOption& o : on_device) {
      rush::check(o.value.device() == params[0].device() && o.value.dtype() == DType::Float64 &&
                      o.value.numel() == 1,
                  ErrorKind::Argument, rule.writer,
                  "an option given as a tensor must have one element, on the parameters' device");
      formula.places[o.place] = o.value.data<double>();
    }
  } else {
    check_argument(on_device.empty() || takes_formula, rule.writer, "an option is on ",
                   on_device.empty() ? Device{} : on_device[0].value.device(),
                   ", the parameters are not");
  }
  const Step step{rule,   kernel,         size_t(optimizer_states(kernel)), params, grads, scalars,
                  states, numbers.data(), by_formula ? &formula : nullptr};
  step.check_scalars();
  rush::check(by_formula || rule.scalars == 0 || params.empty() || !is_capturing(params[0]),
              ErrorKind::Runtime, rule.writer,
              "a CUDA graph is being captured, and the step counts are on the host, where replays "
              "cannot move them on; make the optimizer with capturable=True");
  // Step counts on the host are worked with there, and so is what goes with them.
  if (!by_formula)
    for (const OptimizerOption& o : on_device)
      numbers[size_t(o.place)] = o.value.item().to_double();
  flush_pending("an optimizer takes its step");
  for (const TensorList written : {params, states, scalars})
    for (const Tensor& t : written) before_write(t);
  const bool repeated = check_uses(rule.writer, params, grads, states);
  int64_t elements = 0;
  for (const Tensor& p : params) elements += p.numel();
  // A model whose parameters are of two different steps is worth little, and who catches Ctrl-C
  // often saves it: a step that takes well under a second is taken as a whole.
  constexpr int64_t most_whole = int64_t{1} << 27;
  std::optional<HoldInterrupts> whole;
  if (elements <= most_whole) whole.emplace();
  try {
    if (!params.empty() && !params[0].is_meta()) {
      if (repeated) {
        for (size_t i = 0; i < params.size(); ++i) step.only(i).run();
      } else {
        step.run();
      }
    }
  } catch (...) {  // interrupted halfway
    step.bump_versions();
    throw;
  }
  step.bump_versions();
  return elements;
}

}  // namespace

int64_t optimizer_step_with(std::string_view rule_name, TensorList params, TensorList grads,
                            TensorList scalars, TensorList states, std::span<const double> options,
                            std::span<const OptimizerOption> on_device) {
  const OptimizerRuleInfo& rule = optimizer_rule(rule_name);
  check_argument(options.size() == size_t(rule.options), rule.writer, "expected ", rule.options,
                 " options, got ", options.size());
  const size_t n = params.size(),
               num_states = size_t(optimizer_states(rule.kernel(options.data())));
  const size_t num_scalars = size_t(rule.scalars);
  check_argument(
      grads.size() == n && scalars.size() == n * num_scalars && states.size() == n * num_states,
      rule.writer, n, " parameters need as many gradients, ", num_scalars, " scalars and ",
      num_states, " states each; got ", grads.size(), ", ", scalars.size(), " and ", states.size());
  const NoGradGuard no_grad;  // the step is no part of any graph
  check_operands(rule.writer, params, grads, states, num_states);  // before anything changes
  const auto elsewhere = [&](const Tensor& p) { return p.device() != params[0].device(); };
  if (std::none_of(params.begin(), params.end(), elsewhere)) [[likely]]
    return step_on_device(rule, params, grads, scalars, states, options, on_device);
  int64_t elements = 0;
  for (const DevicePart& part :
       split_by_device(rule, num_states, params, grads, scalars, states, options, on_device))
    elements += step_on_device(rule, part.params, part.grads, part.scalars, part.states,
                               part.options, part.on_device);
  return elements;
}

struct OptimizerStep {
  static constexpr const char* name = "optimizer_step";

  static int64_t call(std::string_view rule, TensorList params, TensorList grads,
                      TensorList scalars, TensorList states, std::span<const double> options) {
    return optimizer_step_with(rule, params, grads, scalars, states, options, {});
  }
};

namespace {

// The tensors as flat stretches of real numbers; others than contiguous ones through copies.
class FlatList {
 public:
  FlatList(const char* op, TensorList tensors, bool writes) : op_(op), tensors_(tensors) {
    if (writes) flush_pending("a list of tensors is written to");
    for (const Tensor& t : tensors) {
      check_dtype((t.is_floating() && !is_float8(t.dtype())) || t.is_complex(), op,
                  "expected floating or complex tensors that are computed in, got ", t.dtype());
      if (writes) check_in_place(op, t);
      Tensor flat = is_flat(t) ? t : contiguous_data(t);
      if (writes && !flat.is_same(t)) write_backs_.emplace_back(t, flat);
      const int64_t n = t.is_complex() ? 2 * t.numel() : t.numel();
      if (n > 0) flat_.push_back({flat.data<char>(), n, to_real(t.dtype())});
      kept_.push_back(std::move(flat));
    }
    repeated_ = writes && check_uses(op, tensors, {}, {});
  }
  std::span<const FlatTensor> get() const { return flat_; }
  const ListLoops& loops() const { return list_loops(tensors_[0]); }
  // Calls f with all of them at once; one after the other where a tensor stands there twice.
  template <class F>
  void pass(F&& f) const {
    if (flat_.empty()) return;
    try {
      if (!repeated_) return f(get());
      for (size_t i = 0; i < flat_.size(); ++i) f(get().subspan(i, 1));
    } catch (...) {  // interrupted halfway
      for (const Tensor& t : tensors_) t.bump_version(op_);
      throw;
    }
  }
  void written() {
    for (const auto& [to, from] : write_backs_) copy_data(to, from);
    for (const Tensor& t : tensors_) t.bump_version(op_);
  }

 private:
  const char* op_;
  TensorList tensors_;
  std::vector<FlatTensor> flat_;
  std::vector<Tensor> kept_;
  std::vector<std::pair<Tensor, Tensor>> write_backs_;
  bool repeated_ = false;
};

// Are they on several devices, or on one that has no loops over lists?
bool go_one_by_one(TensorList tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [&](const Tensor& t) {
    return t.device() != tensors[0].device() || !list_loops(t).norm;
  });
}
// x where t is.
Tensor beside(const Tensor& x, const Tensor& t) {
  return x.device() == t.device() ? x : to(x, t.device());
}

// A number that is wanted where the tensors are. What a host reads may stay there.
Tensor number_beside(const char* op, const Tensor& number, TensorList tensors) {
  rush::check(number.numel() == 1 && number.is_floating(), ErrorKind::Argument, op,
              "the factor must be a floating tensor with one element, got ", number.dtype(),
              " of shape ", number.sizes());
  return tensors.empty() ? number : beside(number, tensors[0]);
}

}  // namespace

struct ListNorm {
  static constexpr const char* name = "_list_norm";
  static Tensor norm_of_norms(TensorList tensors, double ord, DType dtype) {
    std::vector<Tensor> norms;
    for (const Tensor& t : tensors)
      norms.push_back(beside(cast(_vector_norm(t, ord), dtype), tensors[0]));
    return _vector_norm(stack(norms), ord);
  }
  // The norm of complex numbers is that of their magnitudes.
  static Tensor call(TensorList tensors, double ord) {
    DType dtype = default_dtype();
    for (const Tensor& t : tensors)
      dtype = &t == tensors.data() ? to_real(t.dtype()) : promote(dtype, to_real(t.dtype()));
    std::vector<Tensor> magnitudes;
    for (const Tensor& t : tensors)
      magnitudes.push_back(t.is_complex() && ord != 2 ? rush::abs(t) : t);
    const NoGradGuard no_grad;
    if (go_one_by_one(tensors)) return norm_of_norms(magnitudes, ord, dtype);
    const FlatList flat(name, magnitudes, false);
    if (flat.get().empty())
      return scalar_tensor(0.0, dtype, tensors.empty() ? Device() : tensors[0].device());
    const Tensor out = make_tensor(Dims{}, dtype, tensors[0].device());
    if (flat.loops().norm(flat.get(), ord, {&out, 1})) return out;
    return norm_of_norms(magnitudes, ord, dtype);
  }
};

struct ListScale {
  static constexpr const char* name = "_list_scale_";
  static int64_t call(TensorList tensors, const Tensor& scale) {
    const NoGradGuard no_grad;
    if (go_one_by_one(tensors)) {  // without waiting for the factor
      for (const Tensor& t : tensors) mul_(t, beside(scale, t));
      return int64_t(tensors.size());
    }
    const Tensor factor = number_beside(name, scale, tensors);
    FlatList flat(name, tensors, true);
    flat.pass([&](std::span<const FlatTensor> part) { flat.loops().scale(part, factor); });
    flat.written();
    return int64_t(tensors.size());
  }
};

struct ListUnscale {
  static constexpr const char* name = "_list_unscale_";
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  // One element, in the type that devices take which are not waited for.
  static bool is_single(const Tensor& t) {
    return t.numel() == 1 && t.dtype() == DType::Float32 && !is_misaligned(t);
  }
  static int64_t call(TensorList tensors, const Tensor& found_inf, const Tensor& inv_scale) {
    const NoGradGuard no_grad;
    if (tensors.empty()) return 0;
    if (go_one_by_one(tensors) || !(is_single(found_inf) && is_single(inv_scale))) {
      // The largest magnitude of each shows what is not finite, in one launch per tensor.
      std::vector<Tensor> largest;
      for (const Tensor& t : tensors) {
        if (t.numel() > 0)
          largest.push_back(beside(cast(_vector_norm(t, kInfinity), DType::Float64), found_inf));
        mul_(t, beside(inv_scale, t));
      }
      if (largest.empty()) return int64_t(tensors.size());
      const Tensor bad = cast(logical_not(all(isfinite(stack(largest)))), found_inf.dtype());
      copy_(found_inf, maximum(found_inf, expand(bad, found_inf.sizes())));
      return int64_t(tensors.size());
    }
    const Tensor factor = number_beside(name, inv_scale, tensors);
    const Tensor found = number_beside(name, found_inf, tensors);
    check_in_place(name, found_inf);
    FlatList flat(name, tensors, true);
    flat.pass([&](std::span<const FlatTensor> part) { flat.loops().unscale(part, factor, found); });
    if (!found.is_same(found_inf)) copy_data(found_inf, found);
    found_inf.bump_version(name);
    flat.written();
    return int64_t(tensors.size());
  }
};

}  // namespace rush

#include "ops/optimizer.inc"
