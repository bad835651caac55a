// ranges_exact.cu: arange, linspace, logspace: numbers that follow from their position.
//
// As on the CPU: counted in the widest type of its kind, so that no error adds up, without fused
// multiply-adds; linspace counts from both ends, so that the last point is exact.
#include "cuda/kernels/element.h"
#include "cuda/kernels/ranges_args.h"

namespace rush {

template <class T>
__global__ void __launch_bounds__(kThreads) arange(ArangeArgs args) {
  after_earlier();
  for (i64 i = thread_number(); i < args.n; i += thread_count()) {
    if constexpr (is_integral_v<T>) {
      if (args.exact) {
        typed<T>(args.out)[i] = T(i64(u64(args.whole_first) + u64(i) * u64(args.whole_step)));
        continue;
      }
    }
    typed<T>(args.out)[i] = convert<T>(args.first + double(i) * args.step);
  }
}

RUSH_FN complex<double> point_at(const LinspaceArgs& args, i64 i) {
  if (args.n == 1) return {args.first_re, args.first_im};
  const double n = double(args.n - 1);
  const double re = (args.last_re - args.first_re) / n, im = (args.last_im - args.first_im) / n;
  if (i < args.n / 2) return {args.first_re + re * double(i), args.first_im + im * double(i)};
  const double back = double(args.n - 1 - i);
  return {args.last_re - re * back, args.last_im - im * back};
}

template <class T>
__global__ void __launch_bounds__(kThreads) linspace(LinspaceArgs args) {
  after_earlier();
  for (i64 i = thread_number(); i < args.n; i += thread_count()) {
    complex<double> z = point_at(args, i);
    if (args.powers) {
      const double size = math::pow(args.base, z.re), angle = z.im * math::log(args.base);
      z = z.im == 0 ? complex<double>(size, 0)
                    : complex<double>(size * math::cos(angle), size * math::sin(angle));
    }
    if constexpr (is_complex_v<T>)
      typed<T>(args.out)[i] = convert<T>(z);
    else
      typed<T>(args.out)[i] = convert<T>(z.re);
  }
}

}  // namespace rush
