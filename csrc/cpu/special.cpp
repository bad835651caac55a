#include "cpu/special.h"

#include "core/threads.h"
#include "functors/binary.h"
#include "functors/special.h"

namespace rush {
namespace {

constexpr int64_t kGrain = 512;

template <class T, class F>
void each(const Tensor& x, const Tensor& out, F f) {
  const T* from = x.data<T>();
  T* to = out.data<T>();
  parallel_for(out.numel(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = f(from[i]);
  });
}
template <class T, class F>
void each(const Tensor& x, const Tensor& y, const Tensor& out, F f) {
  const T *a = x.data<T>(), *b = y.data<T>();
  T* to = out.data<T>();
  parallel_for(out.numel(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = f(a[i], b[i]);
  });
}

}  // namespace

void special_cpu(SpecialFn fn, const Tensor& x, const Tensor& out, double first, double second) {
  dispatch<DType::Float32, DType::Float64>("special", out.dtype(), [&]<class T>() {
    switch (fn) {
      case SpecialFn::Erfcx:
        return each<T>(x, out, functors::Erfcx{});
      case SpecialFn::Ndtr:
        return each<T>(x, out, functors::Ndtr{});
      case SpecialFn::LogNdtr:
        return each<T>(x, out, functors::LogNdtr{});
      case SpecialFn::Ndtri:
        return each<T>(x, out, functors::Ndtri{});
      case SpecialFn::Entr:
        return each<T>(x, out, functors::Entr{});
      case SpecialFn::I1:
        return each<T>(x, out, functors::I1{});
      case SpecialFn::AiryAi:
        return each<T>(x, out, functors::AiryAi{});
      default:
        return each<T>(x, out, functors::Bessel<T>{first, second});
    }
  });
}

void special_cpu(SpecialFn fn, const Tensor& x, const Tensor& y, const Tensor& out, double first,
                 double second) {
  dispatch<DType::Float32, DType::Float64>("special", out.dtype(), [&]<class T>() {
    switch (fn) {
      case SpecialFn::Xlog1py:
        return each<T>(x, y, out, functors::Xlog1py{});
      case SpecialFn::Zeta:
        return each<T>(x, y, out, functors::Zeta{});
      case SpecialFn::Igamma:
        return each<T>(x, y, out, functors::Igamma{});
      case SpecialFn::Igammac:
        return each<T>(x, y, out, functors::Igammac{});
      default:
        return each<T>(x, y, out, functors::Polynomial<T>{first, second});
    }
  });
}

}  // namespace rush
