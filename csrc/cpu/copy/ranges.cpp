// Sequences of numbers.
#include <cmath>

#include "core/threads.h"
#include "device/copy.h"

namespace rush {
namespace {

// Counted in the widest type of its kind, so that no error adds up.
void arange(const Tensor& out, const Scalar& start, const Scalar& step) {
  dispatch_all("arange", out.dtype(), [&]<typename T>() {
    if constexpr (is_complex_v<T> || std::is_same_v<T, bool>) {
      fail(ErrorKind::DType, "arange", "not implemented for ", dtype_of<T>, " tensors");
    } else {
      using Wide = std::conditional_t<std::is_integral_v<T>, int64_t, double>;
      const Wide first = start.to<Wide>(), each = step.to<Wide>();
      T* to = out.data<T>();
      parallel_for(out.numel(), 32768, [&](int64_t begin, int64_t end) {
        int64_t i = begin;
        if constexpr (std::is_integral_v<T>) {
          // Additions only: plain vectors do not multiply 64 bits.
          const uint64_t by = uint64_t(each);
          uint64_t at = uint64_t(first) + uint64_t(begin) * by;
          for (; i + 4 <= end; i += 4, at += 4 * by) {
            to[i] = T(at);
            to[i + 1] = T(at + by);
            to[i + 2] = T(at + 2 * by);
            to[i + 3] = T(at + 3 * by);
          }
        }
        for (; i < end; ++i) to[i] = T(opmath<T>(first + Wide(i) * each));
      });
    }
  });
}

// Fills a vector with f(i), computed in double (complex: in complex double) and cast once.
template <class F>
void fill_by_index(const char* op, const Tensor& t, F f) {
  dispatch_all(op, t.dtype(), [&]<typename T>() {
    T* out = t.data<T>();
    parallel_for(t.numel(), 8192, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out[i] = Scalar(f(i)).template to<T>();
    });
  });
}

void range(const Tensor& out, double start, double step) {
  fill_by_index("range", out, [&](int64_t i) { return start + double(i) * step; });
}

struct Points {
  complex<double> first, last;
  int64_t steps;
  // From both ends, so that the last point is exact.
  complex<double> at(int64_t i) const {
    if (steps == 1) return first;
    const double n = double(steps - 1);
    const complex<double> step{(last.re - first.re) / n, (last.im - first.im) / n};
    if (i < steps / 2) return {first.re + step.re * double(i), first.im + step.im * double(i)};
    const double back = double(steps - 1 - i);
    return {last.re - step.re * back, last.im - step.im * back};
  }
};

void linspace(const Tensor& out, complex<double> first, complex<double> last) {
  const Points points{first, last, out.numel()};
  fill_by_index("linspace", out, [&](int64_t i) { return points.at(i); });
}

void logspace(const Tensor& out, complex<double> first, complex<double> last, double base) {
  const Points points{first, last, out.numel()};
  fill_by_index("logspace", out, [&](int64_t i) -> complex<double> {
    const complex<double> e = points.at(i);
    if (e.im == 0) return {std::pow(base, e.re), 0};
    const double size = std::pow(base, e.re), angle = e.im * std::log(base);
    return {size * std::cos(angle), size * std::sin(angle)};
  });
}

const bool registered = [] {
  CopyLoops& cpu = copy_loops(DeviceType::CPU);
  cpu.arange = arange;
  cpu.range = range;
  cpu.linspace = linspace;
  cpu.logspace = logspace;
  return true;
}();

}  // namespace
}  // namespace rush
