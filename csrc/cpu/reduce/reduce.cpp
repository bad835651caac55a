// Reductions over any set of dims.
#include <algorithm>
#include <cmath>

#include "cpu/isa_table.h"
#include "cpu/loop_nest.h"
#include "cpu/prepare.h"
#include "cpu/reduce/driver.h"
#include "device/reduce.h"

namespace rush {

namespace {

struct Choice {
  ReduceFn fold;
  DType element;
};

Choice choose(ReduceFn fn, DType x, DType out) {
  const DType norm = floating_fold_type(x, out);
  const bool truth = x == DType::Bool;
  switch (fn) {
    case ReduceFn::Sum:
    case ReduceFn::Mean:
    case ReduceFn::Prod:
      return {fn, wide_type(out)};
    case ReduceFn::Max:
      return truth ? Choice{ReduceFn::Any, x} : Choice{fn, ordered_type(x)};
    case ReduceFn::Min:
      return truth ? Choice{ReduceFn::All, x} : Choice{fn, ordered_type(x)};
    case ReduceFn::Any:
    case ReduceFn::All:
      return {fn, DType::Bool};
    case ReduceFn::CountNonzero:
    case ReduceFn::Norm0:
      return {ReduceFn::CountNonzero, DType::Bool};
    default:  // norms
      return {fn, norm};
  }
}

}  // namespace

FoldCall fold_call(ReduceFn fn, DType x, DType out, double count) {
  const Choice choice = choose(fn, x, out);
  const FoldKernel& kernel = folds_for(choice.element).folds[int(choice.fold)];
  check(kernel.row != nullptr, ErrorKind::DType, "", "reduction not implemented for ", x,
        " tensors");
  return {&kernel, choice.element, fn == ReduceFn::Mean ? count : 0};
}

namespace {

void cpu_reduce(ReduceFn fn, const Tensor& x, const Tensor& out, ParamSpan params) {
  internal_assert(x.dim() == out.dim(), "a reduction's output has its input's rank");
  if (fn == ReduceFn::ArgMax || fn == ReduceFn::ArgMin) return reduce_arg_all(fn, x, out);
  FoldCall call = fold_call(fn, x.dtype(), out.dtype(), 0);
  if (fn == ReduceFn::Mean) call.count = folded_count(x, out);
  if (!params.empty()) call.param = params[0].to_double();
  run_fold(call, x, out);
}

const FoldKernel* shared_folds_of(DType element) {
  if (element == DType::Float64)
    return &kernels_in_use([]<Isa isa>() { return shared_folds<isa, double>(); });
  return &kernels_in_use([]<Isa isa>() { return shared_folds<isa, float>(); });
}

void cpu_fold(FoldFn fn, const Tensor& x, const Tensor& out) {
  internal_assert(x.dim() == out.dim(), "a reduction's output has its input's rank");
  const DType element = floating_fold_type(x.dtype(), out.dtype());
  FoldCall call{shared_folds_of(element) + int(fn), element};
  call.count = folded_count(x, out);
  run_fold(call, x, out);
}

template <class T>
void add_variances(char* const* ptrs, const int64_t* strides, int64_t n, const void* context) {
  const bool root = *static_cast<const bool*>(context);
  for (int64_t i = 0; i < n; ++i) {
    T& a = *reinterpret_cast<T*>(ptrs[0] + i * strides[0]);
    a += *reinterpret_cast<const T*>(ptrs[1] + i * strides[1]);
    if (root) a = std::sqrt(a);
  }
}

void cpu_var(const Tensor& x, const Tensor& out, double correction, bool take_sqrt,
             const Tensor* mean_out) {
  if (x.dtype() == DType::Complex32) {
    if (mean_out) cpu_reduce(ReduceFn::Mean, x, *mean_out, {});
    const Tensor y = make_tensor(out.sizes(), DType::Float32);
    cpu_var(cpu::converted(x, DType::Complex64), y, correction, take_sqrt, nullptr);
    copy_cpu(y, out);
    return;
  }
  if (x.is_complex()) {  // the variances of the parts add up
    const Tensor other = make_tensor(out.sizes(), out.dtype(), out.device());
    if (mean_out) cpu_reduce(ReduceFn::Mean, x, *mean_out, {});
    cpu_var(part_of(x, 0), out, correction, false, nullptr);
    cpu_var(part_of(x, 1), other, correction, false, nullptr);
    const auto row = out.dtype() == DType::Float64 ? add_variances<double> : add_variances<float>;
    loop({out, other}, row, &take_sqrt);
    return;
  }
  const DType element = wide_type(x.dtype());
  const FoldKernel& kernel = folds_for(element).folds[int(ReduceFn::Var)];
  FoldCall call{&kernel, element};
  call.count = take_sqrt;
  call.param = std::max(0.0, folded_count(x, out) - correction);
  call.second = mean_out;
  call.second_param = -1;
  run_fold(call, x, out);
}

const bool registered = [] {
  ReduceLoops& cpu = reduce_loops(DeviceType::CPU);
  cpu.reduce = cpu_reduce;
  cpu.fold = cpu_fold;
  cpu.var = cpu_var;
  cpu.arg = cpu_reduce_arg;
  return true;
}();

}  // namespace
}  // namespace rush
