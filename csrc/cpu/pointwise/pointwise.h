// pointwise.h: out[i] = f(x[i], ...) for every functor of the op table, on any device.
//
// - The compute type is the promoted type of the inputs (float16 and bfloat16 compute in float32),
//   or the one given; operands of another type are converted on the way, in small chunks. So a
//   caller need not cast: `map_unary(UnaryFn::Exp, int_tensor, out, {}, DType::Float32)` is enough.
// - The table entry says what comes out (the compute type, bool, or the real type of a complex
//   one); an `out` of another type is converted into, too.
// - Inputs broadcast to out's shape. An input may be `out` itself; other overlap is the caller's to
//   refuse.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>

#include "core/tensor.h"
#include "functors/fns.h"

namespace rush {

using Params = std::initializer_list<Scalar>;

RUSH_API void map_unary(UnaryFn fn, const Tensor& x, const Tensor& out, Params params = {},
                        std::optional<DType> compute = {});
RUSH_API void map_binary(BinaryFn fn, const Tensor& a, const Tensor& b, const Tensor& out,
                         Params params = {}, std::optional<DType> compute = {});
RUSH_API void map_ternary(TernaryFn fn, const Tensor& a, const Tensor& b, const Tensor& c,
                          const Tensor& out, Params params = {}, std::optional<DType> compute = {});

// Is there an entry for this compute type? float16 and bfloat16 count as float32.
RUSH_API bool has_unary(UnaryFn fn, DType compute);
RUSH_API bool has_binary(BinaryFn fn, DType compute);
RUSH_API bool has_ternary(TernaryFn fn, DType compute);

// What the functor yields for this compute type: itself, Bool, or the real type.
RUSH_API DType unary_result(UnaryFn fn, DType compute);
RUSH_API DType binary_result(BinaryFn fn, DType compute);
RUSH_API DType ternary_result(TernaryFn fn, DType compute);

}  // namespace rush
