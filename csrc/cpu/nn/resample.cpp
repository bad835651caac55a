// Resampling along one dim, and patches of images, on the CPU.
#include <algorithm>
#include <vector>

#include "core/interrupt.h"
#include "core/threads.h"
#include "cpu/linalg/product.h"
#include "cpu/lines.h"
#include "cpu/prepare.h"
#include "device/nn/image.h"

namespace rush {

namespace {

constexpr int64_t kGrain = 16384;

// A dense tensor as (outer, size, inner) around one dim, whatever the order of the others.
struct Around {
  int64_t outer, size, inner;
  Around(const Tensor& x, int64_t dim)
      : size(x.sizes()[size_t(dim)]), inner(x.strides()[size_t(dim)]) {
    outer = x.numel() / std::max<int64_t>(1, size * inner);
  }
};

// Output i is the sum of weight[k] * input[index[k]] for k from start[i] to start[i + 1].
struct Taps {
  std::vector<int64_t> start, index;
  std::vector<double> weight;
};

Taps taps_of(const Resampling& how) {
  Taps taps;
  taps.start.push_back(0);
  for (int64_t i = 0; i < how.out; ++i) {
    each_tap(how, i, [&](int64_t index, double weight) {
      taps.index.push_back(index);
      taps.weight.push_back(weight);
    });
    taps.start.push_back(int64_t(taps.index.size()));
  }
  return taps;
}

template <class F>
void for_type(const Tensor& x, F&& f) {
  dispatch<DType::Float32, DType::Float64>("resample", x.dtype(), std::forward<F>(f));
}

// The taps of neighbouring outputs side by side: the k-th of all, then the next; for modes that
// have equally many taps for every output.
template <class T>
struct EqualTaps {
  int64_t count = 0;  // 0: not equally many
  std::vector<int32_t> place;
  std::vector<T> weight;

  EqualTaps(const Taps& taps, int64_t n) {
    const int64_t each = int64_t(taps.index.size()) / std::max<int64_t>(n, 1);
    for (int64_t i = 0; i < n; ++i) {
      if (taps.start[size_t(i + 1)] - taps.start[size_t(i)] != each) return;
    }
    count = each;
    place.resize(size_t(each * n));
    weight.resize(size_t(each * n));
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t k = 0; k < each; ++k) {
        place[size_t(k * n + i)] = int32_t(taps.index[size_t(i * each + k)]);
        weight[size_t(k * n + i)] = T(taps.weight[size_t(i * each + k)]);
      }
    }
  }
};

// Along the last dim: every output gathers its neighbours.
template <class T>
void resample_rows(const T* x, int64_t in, const Taps& taps, T* y, int64_t out, int64_t rows) {
  const EqualTaps<T> equal(taps, out);
  const std::vector<T> weight(taps.weight.begin(), taps.weight.end());
  const int64_t work = std::max<int64_t>(1, int64_t(weight.size()));
  parallel_for(rows, std::max<int64_t>(1, kGrain / work), [&](int64_t r, int64_t end) {
    for (; r < end; ++r) {
      const T* from = x + r * in;
      T* to = y + r * out;
      if (equal.count > 0) {
        line_kernels<T>().gather_inside(to, from, equal.place.data(), equal.weight.data(),
                                        equal.count, out, out);
        continue;
      }
      InterruptCounter interrupts(1 << 17);
      for (int64_t i = 0; i < out; ++i) {
        interrupts.add();
        T sum = 0;
        for (int64_t k = taps.start[size_t(i)]; k < taps.start[size_t(i + 1)]; ++k)
          sum += weight[size_t(k)] * from[taps.index[size_t(k)]];
        to[i] = sum;
      }
    }
  });
}

// Dense tensors with one order of dims, equal but for the size of dim. float32 or float64.
void sum_taps(const Tensor& x, int64_t dim, const Taps& taps, const Tensor& y) {
  const Around from(x, dim), to(y, dim);
  const int64_t inner = to.size == 1 ? from.inner : to.inner;
  for_type(x, [&]<class T>() {
    const T* source = x.data<T>();
    T* target = y.data<T>();
    const int64_t outer = y.numel() / std::max<int64_t>(1, to.size * inner);
    if (inner == 1) return resample_rows<T>(source, from.size, taps, target, to.size, outer);
    const int64_t line = std::max<int64_t>(1, inner * int64_t(taps.weight.size()) / to.size);
    parallel_for(outer * to.size, std::max<int64_t>(1, kGrain / line), [&](int64_t j, int64_t end) {
      for (; j < end; ++j) {
        const int64_t o = j / to.size, i = j % to.size;
        const T* image = source + o * from.size * inner;
        T* out = target + j * inner;
        const int64_t begin = taps.start[size_t(i)], stop = taps.start[size_t(i + 1)];
        for (int64_t k = begin; k < stop; ++k) {
          const T* row = image + taps.index[size_t(k)] * inner;
          const T weight = T(taps.weight[size_t(k)]);
          if (k > begin)
            line_kernels<T>().add(out, row, weight, inner);
          else
            line_kernels<T>().scale(out, row, weight, inner);
        }
      }
    });
  });
}

// gx[index] += weight * g.
void sum_taps_backward(const Tensor& g, int64_t dim, const Taps& taps, const Tensor& gx) {
  const Around from(g, dim), to(gx, dim);
  const int64_t inner = to.size == 1 ? from.inner : to.inner;
  for_type(g, [&]<class T>() {
    const std::vector<T> weight(taps.weight.begin(), taps.weight.end());
    const int64_t outer = gx.numel() / std::max<int64_t>(1, to.size * inner);
    const int64_t work = inner * (to.size + from.size);
    parallel_for(outer, std::max<int64_t>(1, kGrain / work), [&](int64_t o, int64_t end) {
      for (; o < end; ++o) {
        T* image = gx.data<T>() + o * to.size * inner;
        const T* lines = g.data<T>() + o * from.size * inner;
        std::fill_n(image, to.size * inner, T(0));
        InterruptCounter interrupts(1 << 18);
        for (int64_t i = 0; i < from.size; ++i) {
          const int64_t stop = taps.start[size_t(i + 1)];
          interrupts.add((stop - taps.start[size_t(i)]) * inner);
          for (int64_t k = taps.start[size_t(i)]; k < stop; ++k) {
            T* row = image + taps.index[size_t(k)] * inner;
            if (inner == 1)
              *row += weight[size_t(k)] * lines[i];
            else
              line_kernels<T>().add(row, lines + i * inner, weight[size_t(k)], inner);
          }
        }
      }
    });
  });
}

// The taps of bytes: whole multiples of 2^-bits, as PyTorch and Pillow have them, so that pictures
// come out the same to the last bit. Inputs that an edge names twice have one weight.
struct ByteTaps {
  std::vector<int64_t> start{0}, index;
  std::vector<int32_t> weight;
  int bits = 0;

  explicit ByteTaps(const Taps& taps) {
    std::vector<double> exact;
    for (size_t i = 0; i + 1 < taps.start.size(); ++i) {
      for (int64_t k = taps.start[i]; k < taps.start[i + 1]; ++k) {
        const bool again =
            int64_t(index.size()) > start[i] && index.back() == taps.index[size_t(k)];
        if (again) {
          exact.back() += taps.weight[size_t(k)];
        } else {
          index.push_back(taps.index[size_t(k)]);
          exact.push_back(taps.weight[size_t(k)]);
        }
      }
      start.push_back(int64_t(index.size()));
    }
    // As many bits as leave the largest weight below 2^15.
    double largest = 0;
    for (double w : exact) largest = std::max(largest, w);
    while (bits < 22 && int64_t(0.5 + largest * double(int64_t{2} << bits)) < (1 << 15)) ++bits;
    const double unit = double(int64_t{1} << bits);
    for (double w : exact) weight.push_back(int32_t(w * unit + (w < 0 ? -0.5 : 0.5)));
  }

  int32_t half() const { return bits > 0 ? 1 << (bits - 1) : 0; }
  uint8_t byte(int32_t sum) const { return uint8_t(std::clamp(sum >> bits, 0, 255)); }
};

// One output of a line: `inner` bytes, each a sum down the lines above and below it.
void sum_byte_lines(const uint8_t* image, int64_t inner, const ByteTaps& taps, int64_t i,
                    uint8_t* out) {
  constexpr int64_t kBlock = 256;
  int32_t sums[kBlock];
  for (int64_t at = 0; at < inner; at += kBlock) {
    const int64_t n = std::min(kBlock, inner - at);
    std::fill_n(sums, n, taps.half());
    for (int64_t k = taps.start[size_t(i)]; k < taps.start[size_t(i + 1)]; ++k) {
      const uint8_t* line = image + taps.index[size_t(k)] * inner + at;
      const int32_t weight = taps.weight[size_t(k)];
      for (int64_t j = 0; j < n; ++j) sums[j] += weight * line[j];
    }
    for (int64_t j = 0; j < n; ++j) out[at + j] = taps.byte(sums[j]);
  }
}

void sum_taps_of_bytes(const Tensor& x, int64_t dim, const Resampling& how, const Tensor& y) {
  const Around from(x, dim), to(y, dim);
  const int64_t inner = to.size == 1 ? from.inner : to.inner;
  const int64_t outer = y.numel() / std::max<int64_t>(1, to.size * inner);
  const ByteTaps taps(taps_of(how));
  const int64_t work = std::max<int64_t>(1, inner * int64_t(taps.weight.size()));
  parallel_for(outer, std::max<int64_t>(1, kGrain / work), [&](int64_t o, int64_t end) {
    InterruptCounter interrupts(1 << 18);
    for (; o < end; ++o) {
      const uint8_t* image = x.data<uint8_t>() + o * from.size * inner;
      uint8_t* out = y.data<uint8_t>() + o * to.size * inner;
      for (int64_t i = 0; i < to.size; ++i, out += inner) {
        const int64_t stop = taps.start[size_t(i + 1)];
        interrupts.add((stop - taps.start[size_t(i)]) * inner);
        if (inner > 1) {
          sum_byte_lines(image, inner, taps, i, out);
          continue;
        }
        int32_t sum = taps.half();
        for (int64_t k = taps.start[size_t(i)]; k < stop; ++k)
          sum += taps.weight[size_t(k)] * image[taps.index[size_t(k)]];
        *out = taps.byte(sum);
      }
    }
  });
}

// f(plane offset of a column row, input row or -1, first input column) for one row of outputs.
template <class F>
void for_patch_rows(const PatchShape& s, int64_t plane, F&& f) {
  const int64_t points = s.out[0] * s.out[1];
  InterruptCounter interrupts(1 << 18);
  for (int64_t k = 0; k < s.kernel[0] * s.kernel[1]; ++k) {
    const int64_t ky = k / s.kernel[1] * s.dilation[0], kx = k % s.kernel[1] * s.dilation[1];
    for (int64_t oy = 0; oy < s.out[0]; ++oy) {
      interrupts.add(s.out[1]);
      const int64_t iy = oy * s.stride[0] - s.padding[0] + ky;
      f((plane * s.kernel[0] * s.kernel[1] + k) * points + oy * s.out[1],
        iy >= 0 && iy < s.in[0] ? (plane * s.in[0] + iy) * s.in[1] : -1, kx - s.padding[1]);
    }
  }
}

template <class F>
void for_planes(const PatchShape& s, F&& f) {
  const int64_t work = s.kernel[0] * s.kernel[1] * s.out[0] * s.out[1];
  parallel_for(s.planes, std::max<int64_t>(1, kGrain / std::max<int64_t>(work, 1)),
               [&](int64_t p, int64_t end) {
                 for (; p < end; ++p) f(p);
               });
}

void unfold_cpu(const PatchShape& s, const Tensor& x, const Tensor& columns) {
  dispatch_width(x.dtype(), [&]<class T>() {
    const T* from = static_cast<const T*>(x.data());
    T* to = static_cast<T*>(columns.data());
    for_planes(s, [&](int64_t p) {
      for_patch_rows(s, p, [&](int64_t at, int64_t line, int64_t ix) {
        for (int64_t i = 0; i < s.out[1]; ++i, ix += s.stride[1])
          to[at + i] = line >= 0 && ix >= 0 && ix < s.in[1] ? from[line + ix] : T{};
      });
    });
  });
}

void add_patches(const PatchShape& s, const Tensor& columns, const Tensor& x) {
  dispatch<DType::Float32, DType::Float64, DType::Complex64, DType::Complex128>(
      "fold", x.dtype(), [&]<class T>() {
        const T* from = columns.data<T>();
        T* to = x.data<T>();
        for_planes(s, [&](int64_t p) {
          std::fill_n(to + p * s.in[0] * s.in[1], s.in[0] * s.in[1], T(0));
          for_patch_rows(s, p, [&](int64_t at, int64_t line, int64_t ix) {
            if (line < 0) return;
            for (int64_t i = 0; i < s.out[1]; ++i, ix += s.stride[1]) {
              if (ix >= 0 && ix < s.in[1]) to[line + ix] = plus(to[line + ix], from[at + i]);
            }
          });
        });
      });
}

// x with the order of dims that y has, in y's type.
Tensor in_order_of(const Tensor& y, const Tensor& x) {
  const Dims strides = preserved_strides(x.sizes(), y.strides());
  if (x.strides() == strides && x.dtype() == y.dtype()) return x;
  const Tensor out = make_tensor(x.sizes(), strides, y.dtype(), {});
  copy_cpu(arranged_form(x), out);
  return out;
}

template <class F>
void with_taps(const Tensor& x, int64_t dim, const Resampling& how, const Tensor& out, F&& sum) {
  const DType type = compute_type(out.dtype());
  const Tensor y = out.dtype() == type ? out : make_tensor(out.sizes(), out.strides(), type, {});
  sum(in_order_of(y, x), dim, taps_of(how), y);
  if (!y.is_same(out)) copy_cpu(y, out);
}

void resample_cpu(const Tensor& x, int64_t dim, const Resampling& how, const Tensor& out) {
  if (out.dtype() == DType::UInt8) {
    sum_taps_of_bytes(in_order_of(out, x), dim, how, out);
  } else {
    with_taps(x, dim, how, out, sum_taps);
  }
}

void resample_backward_cpu(const Tensor& g, int64_t dim, const Resampling& how, const Tensor& out) {
  with_taps(g, dim, how, out, sum_taps_backward);
}

void fold_cpu(const PatchShape& s, const Tensor& columns, const Tensor& x) {
  if (!is_reduced_float(x.dtype()) && x.dtype() != DType::Bool) return add_patches(s, columns, x);
  const Tensor wide = make_tensor(x.sizes(), DType::Float32);
  add_patches(s, cpu::converted(columns, DType::Float32), wide);
  copy_cpu(wide, x);
}

const bool registered = [] {
  ImageLoops& loops = image_loops(DeviceType::CPU);
  loops.resamples_bytes = true;
  loops.resample = resample_cpu;
  loops.resample_backward = resample_backward_cpu;
  loops.unfold = unfold_cpu;
  loops.fold = fold_cpu;
  return true;
}();

}  // namespace
}  // namespace rush
