// builtins_numbers.cpp: ints of 64 bits, whose overflow raises, floats and bools, as Python computes them.
#include <cmath>
#include <numeric>

#include "jit/builtin_rows.h"
#include "jit/integers.h"

namespace rush::jit {
namespace {

using integers::by_zero;
using integers::divide;
using integers::floordiv;
using integers::mod;
using integers::overflow;

int64_t add(int64_t x, int64_t y) {
  int64_t r;
  if (__builtin_add_overflow(x, y, &r)) overflow();
  return r;
}
int64_t sub(int64_t x, int64_t y) {
  int64_t r;
  if (__builtin_sub_overflow(x, y, &r)) overflow();
  return r;
}
int64_t mul(int64_t x, int64_t y) {
  int64_t r;
  if (__builtin_mul_overflow(x, y, &r)) overflow();
  return r;
}
int64_t power(int64_t x, int64_t n) {
  if (n < 0) raise_value("an int to a negative power is a float; write float(x) ** n");
  int64_t r = 1;
  while (true) {
    if (n & 1) r = mul(r, x);
    if ((n >>= 1) == 0) return r;
    x = mul(x, x);
  }
}
int64_t shift_left(int64_t x, int64_t n) {
  if (n < 0) raise_value("negative shift count");
  if (x == 0) return 0;
  if (n > 62) overflow();
  return mul(x, int64_t{1} << n);
}
int64_t shift_right(int64_t x, int64_t n) {
  if (n < 0) raise_value("negative shift count");
  return x >> (n > 63 ? 63 : n);
}
double mod(double x, double y) {
  if (y == 0) by_zero();
  double r = std::fmod(x, y);
  if (r == 0) return std::copysign(0.0, y);
  return (r < 0) != (y < 0) ? r + y : r;
}
double floordiv(double x, double y) {
  if (y == 0) by_zero();
  const double m = mod(x, y), q = (x - m) / y;
  if (q == 0) return std::copysign(0.0, x / y);
  const double f = std::floor(q);
  return q - f > 0.5 ? f + 1 : f;
}
double power(double x, double y) {
  if (x == 0 && y < 0)
    raise("ZeroDivisionError", ErrorKind::Value, "0.0 cannot be raised to a negative power");
  const double r = std::pow(x, y);
  if (std::isnan(r) && !std::isnan(x) && !std::isnan(y))
    raise_value(
        "a negative number to a fractional power is complex, and programs have no complex numbers");
  if (std::isinf(r) && std::isfinite(x) && std::isfinite(y))
    raise("OverflowError", ErrorKind::Overflow, "numerical result out of range");
  return r;
}
int64_t whole(double x) {
  if (std::isnan(x)) raise_value("cannot convert float NaN to integer");
  if (std::isinf(x))
    raise("OverflowError", ErrorKind::Overflow, "cannot convert float infinity to integer");
  if (!(x >= -9223372036854775808.0 && x < 9223372036854775808.0)) overflow();
  return int64_t(x);
}
double round_to(double x, int64_t digits) {
  if (!std::isfinite(x) || digits > 300) return x;
  if (digits < -300) return 0.0 * x;
  // Through the decimal digits, as Python does, so that 2.675 becomes 2.67.
  char text[800];
  if (digits >= 0) {
    snprintf(text, sizeof text, "%.*f", int(digits), x);
    return std::strtod(text, nullptr);
  }
  const double scale = std::pow(10.0, double(-digits));
  return std::nearbyint(x / scale) * scale;
}
int64_t gcd(int64_t x, int64_t y) {
  if (x == INT64_MIN || y == INT64_MIN) overflow();
  return std::gcd(x, y);
}
int64_t factorial(int64_t n) {
  if (n < 0) raise_value("factorial() not defined for negative values");
  int64_t r = 1;
  for (int64_t k = 2; k <= n; ++k) r = mul(r, k);
  return r;
}

// A function of the C library, with Python's errors.
double checked(double x, double r) {
  if (std::isnan(r) && !std::isnan(x)) raise_value("math domain error");
  if (std::isinf(r) && std::isfinite(x))
    raise("OverflowError", ErrorKind::Overflow, "math range error");
  return r;
}
double logarithm(double x, double r) {
  if (x <= 0) raise_value("expected a positive input");
  return r;
}

// Numbers whose kind only the run knows (Tensor.item).
IValue arithmetic(const IValue& x, const IValue& y, auto&& whole_op, auto&& real_op) {
  if (x.isDouble() || y.isDouble()) return real_op(x.scalar().to_double(), y.scalar().to_double());
  return whole_op(x.integer(), y.integer());
}
bool compare(const IValue& x, const IValue& y, auto&& op) {
  if (x.isDouble() || y.isDouble()) return op(x.scalar().to_double(), y.scalar().to_double());
  return op(x.integer(), y.integer());
}

#define RUSH_NUM "Union[bool, int, float]"
#define RUSH_MATH(name, formula) \
  RUSH_ROW("math_" #name, "float -> float", checked(a.d(0), std::formula(a.d(0))))

constexpr Builtin kRows[] = {
    RUSH_QUICK(AddInt, "add_int", "int, int -> int", add(a.i(0), a.i(1))),
    RUSH_QUICK(SubInt, "sub_int", "int, int -> int", sub(a.i(0), a.i(1))),
    RUSH_QUICK(MulInt, "mul_int", "int, int -> int", mul(a.i(0), a.i(1))),
    RUSH_QUICK(LtInt, "lt_int", "int, int -> bool", a.i(0) < a.i(1)),
    RUSH_QUICK(LeInt, "le_int", "int, int -> bool", a.i(0) <= a.i(1)),
    RUSH_QUICK(GtInt, "gt_int", "int, int -> bool", a.i(0) > a.i(1)),
    RUSH_QUICK(GeInt, "ge_int", "int, int -> bool", a.i(0) >= a.i(1)),
    RUSH_QUICK(EqInt, "eq_int", "int, int -> bool", a.i(0) == a.i(1)),
    RUSH_QUICK(NeInt, "ne_int", "int, int -> bool", a.i(0) != a.i(1)),
    RUSH_QUICK(FloordivInt, "floordiv_int", "int, int -> int", floordiv(a.i(0), a.i(1))),
    RUSH_QUICK(ModInt, "mod_int", "int, int -> int", mod(a.i(0), a.i(1))),
    RUSH_ROW("pow_int", "int, int -> int", power(a.i(0), a.i(1))),
    RUSH_QUICK(DivInt, "truediv_int", "int, int -> float", divide(double(a.i(0)), double(a.i(1)))),
    RUSH_QUICK(NegInt, "neg_int", "int -> int", sub(0, a.i(0))),
    RUSH_ROW("abs_int", "int -> int", a.i(0) < 0 ? sub(0, a.i(0)) : a.i(0)),
    RUSH_ROW("and_int", "int, int -> int", a.i(0) & a.i(1)),
    RUSH_ROW("or_int", "int, int -> int", a.i(0) | a.i(1)),
    RUSH_ROW("xor_int", "int, int -> int", a.i(0) ^ a.i(1)),
    RUSH_ROW("invert_int", "int -> int", ~a.i(0)),
    RUSH_ROW("lshift_int", "int, int -> int", shift_left(a.i(0), a.i(1))),
    RUSH_ROW("rshift_int", "int, int -> int", shift_right(a.i(0), a.i(1))),
    RUSH_ROW("min_int", "int, int -> int", a.i(1) < a.i(0) ? a.i(1) : a.i(0)),
    RUSH_ROW("max_int", "int, int -> int", a.i(1) > a.i(0) ? a.i(1) : a.i(0)),
    RUSH_QUICK(AddFloat, "add_float", "float, float -> float", a.d(0) + a.d(1)),
    RUSH_QUICK(SubFloat, "sub_float", "float, float -> float", a.d(0) - a.d(1)),
    RUSH_QUICK(MulFloat, "mul_float", "float, float -> float", a.d(0) * a.d(1)),
    RUSH_QUICK(LtFloat, "lt_float", "float, float -> bool", a.d(0) < a.d(1)),
    RUSH_QUICK(LeFloat, "le_float", "float, float -> bool", a.d(0) <= a.d(1)),
    RUSH_QUICK(GtFloat, "gt_float", "float, float -> bool", a.d(0) > a.d(1)),
    RUSH_QUICK(GeFloat, "ge_float", "float, float -> bool", a.d(0) >= a.d(1)),
    RUSH_QUICK(EqFloat, "eq_float", "float, float -> bool", a.d(0) == a.d(1)),
    RUSH_QUICK(NeFloat, "ne_float", "float, float -> bool", a.d(0) != a.d(1)),
    RUSH_QUICK(DivFloat, "truediv_float", "float, float -> float", divide(a.d(0), a.d(1))),
    RUSH_ROW("floordiv_float", "float, float -> float", floordiv(a.d(0), a.d(1))),
    RUSH_ROW("mod_float", "float, float -> float", mod(a.d(0), a.d(1))),
    RUSH_ROW("pow_float", "float, float -> float", power(a.d(0), a.d(1))),
    RUSH_ROW("neg_float", "float -> float", -a.d(0)),
    RUSH_ROW("abs_float", "float -> float", std::fabs(a.d(0))),
    RUSH_ROW("min_float", "float, float -> float", a.d(1) < a.d(0) ? a.d(1) : a.d(0)),
    RUSH_ROW("max_float", "float, float -> float", a.d(1) > a.d(0) ? a.d(1) : a.d(0)),
    RUSH_QUICK(Not, "not", "bool -> bool", !a.b(0)),
    RUSH_ROW("and_bool", "bool, bool -> bool", a.b(0) && a.b(1)),
    RUSH_ROW("or_bool", "bool, bool -> bool", a.b(0) || a.b(1)),
    RUSH_ROW("xor_bool", "bool, bool -> bool", a.b(0) != a.b(1)),
    RUSH_QUICK(IntToFloat, "float_int", "int -> float", double(a.i(0))),
    RUSH_ROW("float_bool", "bool -> float", double(a.b(0))),
    RUSH_ROW("int_bool", "bool -> int", int64_t(a.b(0))),
    RUSH_ROW("int_float", "float -> int", whole(a.d(0))),
    RUSH_ROW("bool_int", "int -> bool", a.i(0) != 0),
    RUSH_ROW("bool_float", "float -> bool", a.d(0) != 0),
    RUSH_ROW("round_int", "float -> int", whole(std::nearbyint(a.d(0)))),
    RUSH_ROW("round_digits", "float, int -> float", round_to(a.d(0), a.i(1))),
    RUSH_ROW("int_number", RUSH_NUM " -> int", a[0].isDouble() ? whole(a.d(0)) : a.i(0)),
    RUSH_ROW("float_number", RUSH_NUM " -> float", a[0].scalar().to_double()),
    RUSH_ROW("bool_number", RUSH_NUM " -> bool", a[0].scalar().to<bool>()),
    RUSH_ROW("add_number", RUSH_NUM ", " RUSH_NUM " -> " RUSH_NUM,
             arithmetic(
                 a[0], a[1], [](int64_t x, int64_t y) { return IValue(add(x, y)); },
                 [](double x, double y) { return IValue(x + y); })),
    RUSH_ROW("sub_number", RUSH_NUM ", " RUSH_NUM " -> " RUSH_NUM,
             arithmetic(
                 a[0], a[1], [](int64_t x, int64_t y) { return IValue(sub(x, y)); },
                 [](double x, double y) { return IValue(x - y); })),
    RUSH_ROW("mul_number", RUSH_NUM ", " RUSH_NUM " -> " RUSH_NUM,
             arithmetic(
                 a[0], a[1], [](int64_t x, int64_t y) { return IValue(mul(x, y)); },
                 [](double x, double y) { return IValue(x * y); })),
    RUSH_ROW("truediv_number", RUSH_NUM ", " RUSH_NUM " -> float",
             divide(a[0].scalar().to_double(), a[1].scalar().to_double())),
    RUSH_ROW("neg_number", RUSH_NUM " -> " RUSH_NUM,
             a[0].isDouble() ? IValue(-a.d(0)) : IValue(sub(0, a.i(0)))),
    RUSH_ROW("lt_number", RUSH_NUM ", " RUSH_NUM " -> bool",
             compare(a[0], a[1], [](auto x, auto y) { return x < y; })),
    RUSH_ROW("le_number", RUSH_NUM ", " RUSH_NUM " -> bool",
             compare(a[0], a[1], [](auto x, auto y) { return x <= y; })),
    RUSH_ROW("gt_number", RUSH_NUM ", " RUSH_NUM " -> bool",
             compare(a[0], a[1], [](auto x, auto y) { return x > y; })),
    RUSH_ROW("ge_number", RUSH_NUM ", " RUSH_NUM " -> bool",
             compare(a[0], a[1], [](auto x, auto y) { return x >= y; })),
    RUSH_MATH(sqrt, sqrt),
    RUSH_MATH(exp, exp),
    RUSH_MATH(expm1, expm1),
    RUSH_MATH(sin, sin),
    RUSH_MATH(cos, cos),
    RUSH_MATH(tan, tan),
    RUSH_MATH(asin, asin),
    RUSH_MATH(acos, acos),
    RUSH_MATH(atan, atan),
    RUSH_MATH(sinh, sinh),
    RUSH_MATH(cosh, cosh),
    RUSH_MATH(tanh, tanh),
    RUSH_MATH(asinh, asinh),
    RUSH_MATH(acosh, acosh),
    RUSH_MATH(atanh, atanh),
    RUSH_MATH(erf, erf),
    RUSH_MATH(erfc, erfc),
    RUSH_MATH(lgamma, lgamma),
    RUSH_MATH(gamma, tgamma),
    RUSH_MATH(fabs, fabs),
    RUSH_ROW("math_log", "float -> float", logarithm(a.d(0), std::log(a.d(0)))),
    RUSH_ROW("math_log2", "float -> float", logarithm(a.d(0), std::log2(a.d(0)))),
    RUSH_ROW("math_log10", "float -> float", logarithm(a.d(0), std::log10(a.d(0)))),
    RUSH_ROW("math_log1p", "float -> float",
             (a.d(0) <= -1 ? raise_value("math domain error") : void(), std::log1p(a.d(0)))),
    RUSH_ROW("math_degrees", "float -> float", a.d(0) * (180.0 / M_PI)),
    RUSH_ROW("math_radians", "float -> float", a.d(0) * (M_PI / 180.0)),
    RUSH_ROW("math_atan2", "float, float -> float", std::atan2(a.d(0), a.d(1))),
    RUSH_ROW("math_hypot", "float, float -> float", std::hypot(a.d(0), a.d(1))),
    RUSH_ROW("math_copysign", "float, float -> float", std::copysign(a.d(0), a.d(1))),
    RUSH_ROW("math_fmod", "float, float -> float",
             (a.d(1) == 0 ? raise_value("math domain error") : void(), std::fmod(a.d(0), a.d(1)))),
    RUSH_ROW("math_floor", "float -> int", whole(std::floor(a.d(0)))),
    RUSH_ROW("math_ceil", "float -> int", whole(std::ceil(a.d(0)))),
    RUSH_ROW("math_trunc", "float -> int", whole(a.d(0))),
    RUSH_ROW("math_isnan", "float -> bool", std::isnan(a.d(0))),
    RUSH_ROW("math_isinf", "float -> bool", std::isinf(a.d(0))),
    RUSH_ROW("math_isfinite", "float -> bool", std::isfinite(a.d(0))),
    RUSH_ROW("math_gcd", "int, int -> int", gcd(a.i(0), a.i(1))),
    RUSH_ROW("math_factorial", "int -> int", factorial(a.i(0))),
};

}  // namespace

std::span<const Builtin> number_builtins() { return kRows; }

}  // namespace rush::jit
