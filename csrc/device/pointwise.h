// pointwise.h: out[i] = f(x[i], ...) for every functor of the op table, by device.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>

#include "device/table.h"
#include "functors/fns.h"
#include "functors/special_fns.h"

namespace rush {

using Params = std::initializer_list<Scalar>;
using ParamSpan = std::span<const Scalar>;

// `compute` is the type the functor works in, already decided (never float16 or bfloat16). Inputs
// that are numbers may be on the host whatever the device.
struct PointwiseLoops {
  void (*unary)(UnaryFn, const Tensor& x, const Tensor& out, ParamSpan, DType compute) = nullptr;
  // An integer divided by zero raises, or is a fault, which raises later.
  void (*binary)(BinaryFn, const Tensor& a, const Tensor& b, const Tensor& out, ParamSpan,
                 DType compute) = nullptr;
  void (*ternary)(TernaryFn, const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& out,
                  ParamSpan, DType compute) = nullptr;
  // All tensors are contiguous, of one shape, float32 or float64 alike. The numbers are those of
  // the functor; functions of one argument do not look at y.
  void (*special)(SpecialFn, const Tensor& x, const Tensor& y, const Tensor& out, double first,
                  double second) = nullptr;
};
extern DeviceTable<PointwiseLoops> pointwise_loops;

// "LogicalAnd" -> "logical_and", for messages.
RUSH_API std::string op_name_of(const char* functor);

// The loops of out's device.
// - The compute type is the promoted type of the inputs, or the one given; operands of another type
//   are converted on the way, in small chunks. So a caller need not cast:
//   `map_unary(UnaryFn::Exp, int_tensor, out, {}, DType::Float32)` is enough.
// - The functor's row says what comes out (the compute type, bool, or the real type of a complex
//   one); an `out` of another type is converted into, too.
// - Inputs broadcast to out's shape. An input may be `out` itself; other overlap is the caller's to
//   refuse.
RUSH_API void map_unary(UnaryFn fn, const Tensor& x, const Tensor& out, Params params = {},
                        std::optional<DType> compute = {});
RUSH_API void map_binary(BinaryFn fn, const Tensor& a, const Tensor& b, const Tensor& out,
                         Params params = {}, std::optional<DType> compute = {});
RUSH_API void map_ternary(TernaryFn fn, const Tensor& a, const Tensor& b, const Tensor& c,
                          const Tensor& out, Params params = {}, std::optional<DType> compute = {});

}  // namespace rush
