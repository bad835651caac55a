#include "device/pointwise.h"

namespace rush {

constinit DeviceTable<PointwiseLoops> pointwise_loops;

namespace {

ParamSpan span_of(Params params) { return {params.begin(), params.size()}; }

}  // namespace

std::string op_name_of(const char* functor) {
  std::string out;
  for (const char* c = functor; *c; ++c) {
    const bool upper = *c >= 'A' && *c <= 'Z';
    if (upper && c != functor) out += '_';
    out += upper ? char(*c - 'A' + 'a') : *c;
  }
  return out;
}

void map_unary(UnaryFn fn, const Tensor& x, const Tensor& out, Params params,
               std::optional<DType> compute) {
  const DType type = compute_type(compute.value_or(x.dtype()));
  pointwise_loops(out).unary(fn, x, out, span_of(params), type);
}

void map_binary(BinaryFn fn, const Tensor& a, const Tensor& b, const Tensor& out, Params params,
                std::optional<DType> compute) {
  const DType type = compute_type(compute ? *compute : result_type(a, b));
  pointwise_loops(out).binary(fn, a, b, out, span_of(params), type);
}

void map_ternary(TernaryFn fn, const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& out,
                 Params params, std::optional<DType> compute) {
  if (!compute && a.dtype() == b.dtype() && b.dtype() == c.dtype()) compute = a.dtype();
  if (!compute) {
    ResultType joint;  // the bool condition of `where` is below every other type
    joint.add(b);
    joint.add(c);
    if (a.dtype() != DType::Bool) joint.add(a);
    compute = joint.get();
  }
  pointwise_loops(out).ternary(fn, a, b, c, out, span_of(params), compute_type(*compute));
}

}  // namespace rush
