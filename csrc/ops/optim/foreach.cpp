// Operators of each tensor of a list in one pass. They take what is plain: real floating tensors of
// one type and device without gaps, no gradient wanted, nobody between call and op. For anything else
// they say no, and the callers (rushlight/_functions/foreach.py) go from tensor to tensor.
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "autograd/meta.h"
#include "core/memoryless.h"
#include "core/modes.h"
#include "device/lists.h"
#include "ops/foreach_ops.h"
#include "ops/framework/op.h"
#include "ops/ops.h"
#include "ops/optim/uses.h"

namespace rush {
namespace {

// The functor that an op runs over floating numbers.
struct Formula {
  int arity = 0;  // 0: there is none
  unsigned fn = 0;
  const FnInfo* facts = nullptr;

  Formula() = default;
  explicit Formula(UnaryFn f) : arity(1), fn(unsigned(f)), facts(&info(f)) {}
  explicit Formula(BinaryFn f) : arity(2), fn(unsigned(f)), facts(&info(f)) {}
  explicit Formula(TernaryFn f) : arity(3), fn(unsigned(f)), facts(&info(f)) {}
};

// Functors by the names of their ops, and what messages call the op that writes.
template <class Fn>
struct Named {
  Fn fn;
  std::string writer;
};
template <class Fn>
const Named<Fn>* look_up(std::string_view op) {
  static const auto names = [] {
    std::unordered_map<std::string, Named<Fn>> all;
    for (int i = 0; i < int(Fn::kCount); ++i) {
      const std::string name = op_name_of(info(Fn(i)).name);
      if (info(Fn(i)).result == FnResult::Same)
        all.emplace(name, Named<Fn>{Fn(i), concat("_foreach_", name, "_")});
    }
    return all;
  }();
  const auto at = names.find(std::string(op));
  return at == names.end() ? nullptr : &at->second;
}
template <class Fn>
Formula find(std::string_view op) {
  const Named<Fn>* found = look_up<Fn>(op);
  return found ? Formula(found->fn) : Formula();
}
const char* writer_of(std::string_view op) {
  if (const auto* found = look_up<UnaryFn>(op)) return found->writer.c_str();
  if (const auto* found = look_up<BinaryFn>(op)) return found->writer.c_str();
  const auto* found = look_up<TernaryFn>(op);
  return found ? found->writer.c_str() : "_foreach";
}

bool contains(std::span<const double> numbers, double x) {
  return std::find(numbers.begin(), numbers.end(), x) != numbers.end();
}

// What one call of an op over a list is made of.
struct Call {
  std::string_view op;
  TensorList self, other, third;
  std::span<const double> numbers, value;

  bool is_clamp() const { return op == "clamp" && numbers.size() == 2; }

  // The ops choose among functors by what they are given, and so do we.
  bool fill(ListWork& work) const {
    const Formula f = formula();
    if (f.arity == 0 || f.facts->params > 1) return false;
    work.arity = f.arity;
    work.fn = f.fn;
    work.compute = compute_type(self[0].dtype());
    work.inputs[0].tensors = self;
    work.inputs[1] = {other, f.arity == 2 ? numbers : std::span<const double>()};
    work.inputs[2] = {third, f.arity == 3 ? numbers : std::span<const double>()};
    if (is_clamp()) {
      work.inputs[1].numbers = numbers.first(1);
      work.inputs[2].numbers = numbers.last(1);
    }
    for (int i = 0; i < f.arity; ++i)
      if (work.inputs[size_t(i)].tensors.empty() && work.inputs[size_t(i)].numbers.empty())
        return false;
    if (f.facts->params == 1) {
      work.value = f.arity == 1 ? numbers : value;
      if (work.value.empty()) return false;
    }
    return !is_float8(self[0].dtype()) && (f.facts->types >> int(work.compute) & 1);
  }

 private:
  Formula formula() const {
    if (is_clamp()) {
      const bool has_nan = std::isnan(numbers[0]) || std::isnan(numbers[1]);
      return has_nan ? Formula() : Formula(TernaryFn::ClampTensor);
    }
    if (!third.empty() || (!other.empty() && !numbers.empty())) return find<TernaryFn>(op);
    if (!other.empty()) {
      if (op == "clamp_min") return Formula(BinaryFn::Maximum);
      if (op == "clamp_max") return Formula(BinaryFn::Minimum);
      return with_alpha();
    }
    if (numbers.empty()) return find<UnaryFn>(op);
    if (op == "clamp_min" || op == "maximum" || op == "clamp_max" || op == "minimum") {
      if (std::any_of(numbers.begin(), numbers.end(), [](double x) { return std::isnan(x); }))
        return {};
      return Formula(op == "clamp_min" || op == "maximum" ? UnaryFn::ClampMin : UnaryFn::ClampMax);
    }
    if (op == "pow") {
      if (numbers.size() == 1 && numbers[0] == 2) return Formula(UnaryFn::Square);
      if (numbers.size() == 1 && numbers[0] == 0.5) return Formula(UnaryFn::Sqrt);
      if (contains(numbers, 2) || contains(numbers, 0.5)) return {};
    }
    return with_alpha();
  }
  Formula with_alpha() const {
    if (value.empty() || value[0] == 1) return find<BinaryFn>(op);
    if (op == "add") return Formula(BinaryFn::AddAlpha);
    return op == "sub" ? Formula(BinaryFn::SubAlpha) : Formula();
  }
};

// One pass may go over them: real floating numbers of one type, on one device, without gaps.
bool is_plain(TensorList tensors) {
  const Tensor& first = tensors[0];
  for (const Tensor& t : tensors) {
    if (!t.is_floating() || t.dtype() != first.dtype() || t.device() != first.device() ||
        !is_flat(t))
      return false;
  }
  return list_loops(first).pointwise != nullptr;
}
bool lie_alike(TensorList a, TensorList b) {
  if (a.size() != b.size() || a[0].device() != b[0].device()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].sizes() != b[i].sizes() || a[i].strides() != b[i].strides()) return false;
  }
  return true;
}

// Nothing but the values is wanted, now.
bool is_values_only(std::initializer_list<TensorList> lists) {
  if (t_modes & (kIntercept | kDefer | kForward)) return false;
  if (!grad_enabled()) return true;
  for (const TensorList list : lists)
    if (std::any_of(list.begin(), list.end(), [](const Tensor& t) { return requires_grad(t); }))
      return false;
  return true;
}

// An input beside self: as many tensors that lie as self's do, or one number for all. A number of
// another type does not change the result's, unless a tensor of self is no more than a number.
bool fits(TensorList self, TensorList input) {
  if (input.empty()) return true;
  if (input.size() == 1 && input[0].dim() == 0) {
    const Tensor& x = input[0];
    if (!x.is_floating() || x.device() != self[0].device()) return false;
    return x.dtype() == self[0].dtype() ||
           std::none_of(self.begin(), self.end(), [](const Tensor& t) { return t.dim() == 0; });
  }
  return is_plain(input) && input[0].dtype() == self[0].dtype() && lie_alike(self, input);
}

bool fits(const Call& call) {
  const auto counts = [&](size_t n) { return n <= 1 || n == call.self.size(); };
  return !call.self.empty() && (counts(call.numbers.size()) || call.is_clamp()) &&
         counts(call.value.size()) && is_values_only({call.self, call.other, call.third}) &&
         is_plain(call.self) && fits(call.self, call.other) && fits(call.self, call.third) &&
         // The ends of lerp have to be of one type.
         (call.op != "lerp" || call.other.empty() || call.other[0].dtype() == call.self[0].dtype());
}

std::vector<Tensor> like(TensorList tensors) {
  std::vector<Tensor> made;
  made.reserve(tensors.size());
  for (const Tensor& t : tensors)
    made.push_back(make_tensor(t.sizes(), t.strides(), t.dtype(), t.device()));
  return made;
}

// Memory that is written is neither read nor written elsewhere in the pass.
bool stand_alone(TensorList written, TensorList a, TensorList b = {}) {
  std::vector<Tensor> read(a.begin(), a.end());
  read.insert(read.end(), b.begin(), b.end());
  return !share_memory(written, read);
}

// Writes the tensors in one pass, which is what the op called `writer` does in place.
template <class F>
bool write_all(const char* writer, TensorList tensors, F&& pass) {
  for (const Tensor& t : tensors) check_in_place(writer, t);
  rush::op::write_counted(writer, tensors, [&] { pass(list_loops(tensors[0])); });
  return true;
}

}  // namespace

struct ListMap {
  static constexpr const char* name = "_list_map";
  static std::vector<Tensor> call(std::string_view op, TensorList self, TensorList other,
                                  TensorList third, std::span<const double> numbers,
                                  std::span<const double> value) {
    const Call given{op, self, other, third, numbers, value};
    ListWork work{};
    if (!fits(given) || !given.fill(work)) return {};
    std::vector<Tensor> outs = like(self);
    work.outs = outs;
    list_loops(self[0]).pointwise(work);
    return outs;
  }
};

struct ListMapInPlace {
  static constexpr const char* name = "_list_map_";
  static bool call(std::string_view op, TensorList self, TensorList other, TensorList third,
                   std::span<const double> numbers, std::span<const double> value) {
    const Call given{op, self, other, third, numbers, value};
    ListWork work{};
    if (!fits(given) || !given.fill(work) || !stand_alone(self, other, third)) return false;
    work.outs = self;
    return write_all(writer_of(op), self, [&](const ListLoops& loops) { loops.pointwise(work); });
  }
};

struct ListCopy {
  static constexpr const char *name = "_list_copy_", *writer = "_foreach_copy_";
  static bool call(TensorList self, TensorList src) {
    if (self.empty() || src.empty() || !is_values_only({self, src}) || !is_plain(self) ||
        !is_plain(src) || !lie_alike(self, src) || !stand_alone(self, src))
      return false;
    return write_all(writer, self, [&](const ListLoops& loops) { loops.copy(src, self); });
  }
};

struct ListClone {
  static constexpr const char* name = "_list_clone";
  static std::vector<Tensor> call(TensorList self) {
    if (self.empty() || !is_values_only({self}) || !is_plain(self)) return {};
    std::vector<Tensor> copies = like(self);
    list_loops(self[0]).copy(self, copies);
    return copies;
  }
};

struct ListFill {
  static constexpr const char *name = "_list_fill_", *writer = "_foreach_zero_";
  static bool call(TensorList self, double value) {
    if (self.empty() || !is_values_only({self}) || !is_plain(self) || !stand_alone(self, {}))
      return false;
    return write_all(writer, self, [&](const ListLoops& loops) { loops.fill(self, value); });
  }
};

struct ListNorms {
  static constexpr const char* name = "_list_norms";
  static std::vector<Tensor> call(TensorList self, double ord, std::optional<DType> dtype) {
    if (self.empty() || !is_values_only({self}) || !is_plain(self) || is_float8(self[0].dtype()) ||
        (dtype && *dtype != self[0].dtype()))
      return {};
    std::vector<FlatTensor> flat;
    std::vector<Tensor> outs;
    for (const Tensor& t : self) {
      if (t.numel() == 0) return {};
      flat.push_back({t.data<char>(), t.numel(), t.dtype()});
      outs.push_back(make_tensor(Dims{}, t.dtype(), t.device()));
    }
    if (!list_loops(self[0]).norm(flat, ord, outs)) return {};
    return outs;
  }
};

// One call of Python's for all tensors: code that runs once per step is not in the caches, and takes
// several times as long there as in a loop.
struct ListIsFinite {
  static constexpr const char* name = "_list_is_finite";
  static bool call(TensorList self, bool gradients) {
    const NoGradGuard no_grad;
    for (const Tensor& given : self) {
      const Tensor t = gradients ? grad_of(given) : given;
      if (!t.defined()) continue;
      if (!t.device().is_cpu() || !is_floating(t.dtype()) || is_float8(t.dtype()) ||
          is_memoryless(t))
        return false;
      const bool half = is_reduced_float(t.dtype());
      const auto wide = half ? std::optional(DType::Float32) : std::nullopt;
      const Tensor total = t.numel() == 1 ? t : sum(t, std::nullopt, false, wide);
      if (!std::isfinite(total.item().to_double())) return false;
    }
    return true;
  }
};

}  // namespace rush

#include "ops/foreach.inc"
