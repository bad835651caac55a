// Exports plain loops over functors by name, for tests/test_functors.py to call through ctypes.
#include "functors/activation.h"

using namespace rush;
using namespace rush::functors;

// Note [Loops over functors]
// ivdep, not omp simd: the latter turns every temporary struct in the body (a half on its way to
// memory, a functor inside a functor) into an array of lanes, and g++ 12 then gives up.
namespace {

template <class F, class T>
void map1(F f, const T* x, T* y, long n) {
#pragma GCC ivdep
  for (long i = 0; i < n; ++i) y[i] = f(x[i]);
}
template <class F, class T>
void map2(F f, const T* a, const T* b, T* y, long n) {
#pragma GCC ivdep
  for (long i = 0; i < n; ++i) y[i] = f(a[i], b[i]);
}

}  // namespace

// A row exports NAME_float, NAME_double ...
#define UNARY_AS(name, functor, type, suffix) \
  extern "C" void name##_##suffix(const type* x, type* y, long n) { map1(functor, x, y, n); }
#define BINARY_AS(name, functor, type, suffix)                                     \
  extern "C" void name##_##suffix(const type* a, const type* b, type* y, long n) { \
    map2(functor, a, b, y, n);                                                     \
  }
#define UNARY(name) UNARY_AS(name, name{}, float, float) UNARY_AS(name, name{}, double, double)
#define UNARY_C(name)                               \
  UNARY(name)                                       \
  UNARY_AS(name, name{}, complex<float>, complex64) \
  UNARY_AS(name, name{}, complex<double>, complex128)
#define BINARY(name) BINARY_AS(name, name{}, float, float) BINARY_AS(name, name{}, double, double)
#define BINARY_I(name)                \
  BINARY_AS(name, name{}, i8, int8)   \
  BINARY_AS(name, name{}, u8, uint8)  \
  BINARY_AS(name, name{}, i16, int16) \
  BINARY_AS(name, name{}, i32, int32) \
  BINARY_AS(name, name{}, i64, int64)

// clang-format off: each line makes a function; the formatter takes them for one expression
UNARY_C(Exp)
UNARY_C(Exp2)
UNARY_C(Expm1)
UNARY_C(Log)
UNARY_C(Log2)
UNARY_C(Log10)
UNARY_C(Log1p)
UNARY_C(Sqrt)
UNARY_C(Rsqrt)
UNARY_C(Sin)
UNARY_C(Cos)
UNARY_C(Tan)
UNARY_C(Asin)
UNARY_C(Acos)
UNARY_C(Atan)
UNARY_C(Sinh)
UNARY_C(Cosh)
UNARY_C(Tanh)
UNARY_C(Asinh)
UNARY_C(Acosh)
UNARY_C(Atanh)
UNARY_C(Sigmoid)
UNARY_C(Reciprocal)
UNARY(Erf)
UNARY(Erfc)
UNARY(Erfinv)
UNARY(Lgamma)
UNARY(Digamma)
UNARY(I0)
UNARY(Sinc)
UNARY(Entr)
UNARY(Floor)
UNARY(Ceil)
UNARY(Trunc)
UNARY(Round)
UNARY(Frac)
UNARY(Sign)
UNARY(Abs)
UNARY(Relu)
UNARY(Silu)
UNARY(Mish)
UNARY(Gelu)
UNARY(GeluTanh)
UNARY(LogSigmoid)
UNARY(Selu)
UNARY(Softsign)
UNARY(Hardswish)
UNARY(Hardsigmoid)
UNARY(Tanhshrink)
UNARY_AS(Softplus, (Softplus<float>{1, 20}), float, float)
UNARY_AS(Softplus, (Softplus<double>{1, 20}), double, double)
UNARY_AS(Logit, (Logit<float>{-1}), float, float)
UNARY_AS(Logit, (Logit<double>{-1}), double, double)
UNARY_AS(Elu, (Elu<float>{1.5f, 1, 1}), float, float)
UNARY_AS(Elu, (Elu<double>{1.5, 1, 1}), double, double)
BINARY(Pow)
BINARY(Atan2)
BINARY(Hypot)
BINARY(Fmod)
BINARY(Remainder)
BINARY(FloorDivide)
BINARY(TruncDivide)
BINARY(Logaddexp)
BINARY(Logaddexp2)
BINARY(Xlogy)
BINARY(Nextafter)
BINARY(Copysign)
BINARY(Maximum)
BINARY(Minimum)
BINARY(Fmax)
BINARY(Fmin)
BINARY(Heaviside)
BINARY(Ldexp)
BINARY(SigmoidBackward)
BINARY(TanhBackward)
BINARY(GeluBackward)
BINARY(GeluTanhBackward)
BINARY(SiluBackward)
BINARY(MishBackward)
BINARY_AS(Pow, Pow{}, complex<float>, complex64)
BINARY_AS(Pow, Pow{}, complex<double>, complex128)
BINARY_AS(Div, Div{}, complex<float>, complex64)
BINARY_AS(Div, Div{}, complex<double>, complex128)
BINARY_AS(Mul, Mul{}, complex<float>, complex64)
BINARY_AS(Mul, Mul{}, complex<double>, complex128)
BINARY_I(Add)
BINARY_I(Sub)
BINARY_I(Mul)
BINARY_I(FloorDivide)
BINARY_I(TruncDivide)
BINARY_I(Remainder)
BINARY_I(Fmod)
BINARY_I(Pow)
BINARY_I(Gcd)
BINARY_I(Lcm)
BINARY_I(BitwiseAnd)
BINARY_I(BitwiseOr)
BINARY_I(BitwiseXor)
BINARY_I(BitwiseLeftShift)
BINARY_I(BitwiseRightShift)
BINARY_I(Maximum)
BINARY_I(Minimum)
BINARY_I(Heaviside)
// clang-format on

// Conversions of the 16-bit floats, and the random generator's functions.
extern "C" void half_from_float(const float* x, u16* y, long n) {
  for (long i = 0; i < n; ++i) y[i] = half(x[i]).bits;
}
extern "C" void float_from_half(const u16* x, float* y, long n) {
  for (long i = 0; i < n; ++i) y[i] = half::from_bits(x[i]);
}
extern "C" void bfloat16_from_float(const float* x, u16* y, long n) {
  for (long i = 0; i < n; ++i) y[i] = bfloat16(x[i]).bits;
}
extern "C" void philox_log(const float* x, float* y, long n) {
  for (long i = 0; i < n; ++i) y[i] = math::philox_log(x[i]);
}
extern "C" void philox_sin(const float* x, float* y, long n) {
  for (long i = 0; i < n; ++i) y[i] = math::philox_sincos(x[i]).sin;
}
extern "C" void philox_cos(const float* x, float* y, long n) {
  for (long i = 0; i < n; ++i) y[i] = math::philox_sincos(x[i]).cos;
}
