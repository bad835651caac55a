// The coarse forms of functors against the exact ones: every half and every bfloat16 is tried. Here the
// special function units are exact, so what is tested are the formulas and where they are used.
#include "cuda_on_cpu.h"

#include <cmath>
#include <cstdio>

#include "testing.h"

#include "cuda/kernels/functions.h"

using namespace rush;

namespace {

// The largest relative error over all inputs. What is below 1e-36 may be 0, and infinities and NaN
// must be those of the exact functor.
template <class H, class Coarse, class Exact, class... Gradient>
double worst(Coarse coarse, Exact exact, Gradient... g) {
  double most = 0;
  for (int bits = 0; bits < 1 << 16; ++bits) {
    const float x = float(H::from_bits(u16(bits)));
    const float got = coarse(g..., x);
    const double want = exact(double(g)..., double(x));
    const float rounded = float(want);
    if (std::isnan(rounded) || std::isinf(rounded)) {
      if (std::isnan(got) != std::isnan(rounded) || (!std::isnan(got) && got != rounded))
        return 1e9;
    } else if (std::abs(rounded) < 1e-36f) {
      if (std::abs(got) > 1.01e-36f) return 1e9;
    } else {
      most = std::max(most, std::abs(double(got) - want) / std::abs(want));
    }
  }
  return most;
}

constexpr double kEnough = 2e-5;  // a half type keeps 4.9e-4 at best

template <class F>
using Run = Running<F, float, bfloat16>;

template <class F>
bool unary_is_near() {
  static_assert(!is_same<Run<F>, F>);
  const double a = worst<half>(Run<F>{}, F{}), b = worst<bfloat16>(Run<F>{}, F{});
  if (a > kEnough || b > kEnough) std::fprintf(stderr, "%g %g\n", a, b);
  return a <= kEnough && b <= kEnough;
}
// The sum in a gradient crosses zero, where no relative error holds: a bound on the absolute one.
template <class F>
bool backward_is_near() {
  static_assert(!is_same<Run<F>, F>);
  double most = 0;
  for (int bits = 0; bits < 1 << 16; ++bits) {
    const float x = float(half::from_bits(u16(bits)));
    const double want = F{}(0.75, double(x));
    const float got = Run<F>{}(0.75f, x);
    if (!std::isfinite(want)) continue;
    if (!std::isfinite(got)) return false;
    most = std::max(most, std::abs(double(got) - want));
  }
  if (most > kEnough) std::fprintf(stderr, "%g\n", most);
  return most <= kEnough;
}

}  // namespace

TEST(activations) {
  EXPECT(unary_is_near<functors::Sigmoid>());
  EXPECT(unary_is_near<functors::Silu>());
  EXPECT(unary_is_near<functors::Gelu>());
  EXPECT(unary_is_near<functors::LogSigmoid>());
  EXPECT(unary_is_near<functors::Mish>());
  EXPECT(unary_is_near<functors::Hardswish>());
}

TEST(gelu_by_tanh) {
  // The exact functor loses its digits below -3, where 1 + tanh cancels: a formula that does not.
  const auto exact = [](double x) {
    const double u = 0.79788456080286535588 * (x + 0.044715 * x * x * x);
    return x / (1 + std::exp(-2 * u));
  };
  EXPECT(worst<half>(Run<functors::GeluTanh>{}, exact) < 2 * kEnough);
  EXPECT(worst<bfloat16>(Run<functors::GeluTanh>{}, exact) < 2 * kEnough);
}

TEST(gradients) {
  EXPECT(backward_is_near<functors::SiluBackward>());
  EXPECT(backward_is_near<functors::GeluBackward>());
  EXPECT(backward_is_near<functors::GeluTanhBackward>());
  EXPECT(backward_is_near<functors::LogSigmoidBackward>());
  EXPECT(backward_is_near<functors::MishBackward>());
  EXPECT(backward_is_near<functors::HardswishBackward>());
}

TEST(softplus) {
  for (const float beta : {1.0f, 0.5f, 3.0f}) {
    const Run<functors::Softplus<float>> coarse{beta, 20.0f};
    const functors::Softplus<double> exact{beta, 20.0};
    EXPECT(worst<half>(coarse, exact) < kEnough);
    EXPECT(worst<bfloat16>(coarse, exact) < kEnough);
    const Run<functors::SoftplusBackward<float>> back{beta, 20.0f};
    EXPECT(worst<half>(back, functors::SoftplusBackward<double>{beta, 20.0}, 0.75f) < kEnough);
  }
}

TEST(arithmetic) {
  EXPECT(unary_is_near<functors::Reciprocal>());
  EXPECT(unary_is_near<functors::Sqrt>());
  EXPECT(unary_is_near<functors::Rsqrt>());
  EXPECT(worst<bfloat16>(Run<functors::Div>{}, functors::Div{}, 1e30f) < kEnough);
}

TEST(small_differences) { EXPECT(unary_is_near<functors::Expm1>()); }

TEST(angles) {
  const float inf = limits<float>::inf;
  const auto legs = {0.0f, -0.0f, 1e-30f, -0.01f, 0.9f, 1.0f, -7.0f, 3e30f, inf, -inf};
  for (const float y : legs) {
    EXPECT(worst<half>(Run<functors::Atan2>{}, functors::Atan2{}, y) < kEnough);
    EXPECT(worst<bfloat16>(Run<functors::Atan2>{}, functors::Atan2{}, y) < kEnough);
    for (const float x : legs)
      EXPECT(std::signbit(Run<functors::Atan2>{}(y, x)) == std::signbit(std::atan2(y, x)));
  }
}

TEST(only_where_half_types_are_written) {
  static_assert(is_same<Running<functors::Gelu, float, float>, functors::Gelu>);
  static_assert(is_same<Running<functors::Gelu, double, half>, functors::Gelu>);
  static_assert(is_same<Running<functors::Exp, float, half>, functors::Exp>);
  static_assert(is_same<Running<functors::Gelu, float, half>, Coarsely<functors::Gelu>>);
}
