// Ops on integers and bits.
#include "ops/pointwise/pointwise.h"

namespace rush {
namespace {

// Integers are not differentiated.
struct Discrete {
  static constexpr bool differentiable = false;
};

}  // namespace

struct BitwiseNot : SameUnary<"bitwise_not", UnaryFn::BitwiseNot>, Discrete {};
struct BitwiseAnd : SameBinary<"bitwise_and", BinaryFn::BitwiseAnd>, Discrete {};
struct BitwiseOr : SameBinary<"bitwise_or", BinaryFn::BitwiseOr>, Discrete {};
struct BitwiseXor : SameBinary<"bitwise_xor", BinaryFn::BitwiseXor>, Discrete {};
struct BitwiseLeftShift : SameBinary<"bitwise_left_shift", BinaryFn::BitwiseLeftShift>, Discrete {};
struct BitwiseRightShift : SameBinary<"bitwise_right_shift", BinaryFn::BitwiseRightShift>,
                           Discrete {};
struct Gcd : SameBinary<"gcd", BinaryFn::Gcd>, Discrete {};
struct Lcm : SameBinary<"lcm", BinaryFn::Lcm>, Discrete {};

// A number on the left.
struct BitwiseAndScalar : Named<"bitwise_and"> {
  static Tensor call(const Scalar& a, const Tensor& b) { return bitwise_and(wrap_number(a), b); }
};
struct BitwiseOrScalar : Named<"bitwise_or"> {
  static Tensor call(const Scalar& a, const Tensor& b) { return bitwise_or(wrap_number(a), b); }
};
struct BitwiseXorScalar : Named<"bitwise_xor"> {
  static Tensor call(const Scalar& a, const Tensor& b) { return bitwise_xor(wrap_number(a), b); }
};
struct BitwiseLeftShiftScalar : Named<"bitwise_left_shift"> {
  static Tensor call(const Scalar& a, const Tensor& b) {
    return bitwise_left_shift(wrap_number(a), b);
  }
};
struct BitwiseRightShiftScalar : Named<"bitwise_right_shift"> {
  static Tensor call(const Scalar& a, const Tensor& b) {
    return bitwise_right_shift(wrap_number(a), b);
  }
};

}  // namespace rush

#include "ops/bits.inc"
