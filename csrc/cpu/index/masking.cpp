// Loops whose results are as long as the data says: nonzero, masked_select; and masked fills.
#include <algorithm>

#include "cpu/loop_nest.h"
#include "device/index.h"
#include "functors/complex.h"

namespace rush {
namespace {

template <class T>
bool is_nonzero(T v) {
  if constexpr (is_complex_v<T>)
    return v.re != 0.0f || v.im != 0.0f;
  else if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>)
    return (v.bits & 0x7fff) != 0;
  else
    return v != T(0);
}

template <class F>
void dispatch_mask(const Tensor& x, F&& f) {
  // Integers are zero when their bytes are; bool is read as a byte, whatever value a foreign buffer
  // put there.
  if (category(x.dtype()) <= Category::Integer)
    dispatch_width(x.dtype(), [&]<typename W>() {
      if constexpr (std::is_integral_v<W>) f.template operator()<W>();
    });
  else
    dispatch<DType::Float32, DType::Float64, DType::Float16, DType::BFloat16, DType::Complex64,
             DType::Complex128, DType::Complex32>("nonzero", x.dtype(), f);
}

// Calls f(i) for each of the `count` nonzeros from `begin` on. Free of branches on the data.
template <class T, class F>
void compact(const T* x, int64_t begin, int64_t count, F&& store) {
  for (int64_t i = begin, n = 0; n < count; ++i) {
    store(n, i);
    n += is_nonzero(x[i]);
  }
}

template <class W>
struct FillContext {
  W value;
};

template <class W>
void masked_fill_row(char* const* p, const int64_t* s, int64_t n, const void* context) {
  const W value = static_cast<const FillContext<W>*>(context)->value;
  constexpr int64_t item = sizeof(W);
  if (s[0] == item && s[1] == item && s[2] == 1) {
    W* out = reinterpret_cast<W*>(p[0]);
    const W* self = reinterpret_cast<const W*>(p[1]);
    const auto* mask = reinterpret_cast<const uint8_t*>(p[2]);
    if constexpr (std::is_integral_v<W>) {
#pragma omp simd
      for (int64_t k = 0; k < n; ++k) {
        const W on = W(0) - W(mask[k] != 0);  // all ones where the mask is true: no branch to guess
        out[k] = W((value & on) | (self[k] & W(~on)));
      }
    } else {
      for (int64_t k = 0; k < n; ++k) out[k] = mask[k] ? value : self[k];
    }
    return;
  }
  for (int64_t k = 0; k < n; ++k) {
    const bool on = p[2][k * s[2]] != 0;
    *reinterpret_cast<W*>(p[0] + k * s[0]) =
        on ? value : *reinterpret_cast<const W*>(p[1] + k * s[1]);
  }
}

// x is counted in pieces of this many elements.
constexpr int64_t kPiece = 1 << 13;

Tensor count(const Tensor& x) {
  const int64_t pieces = (x.numel() + kPiece - 1) / kPiece;
  const Tensor counts = make_tensor(Dims{pieces + 1}, DType::Int64);
  auto* starts = counts.data<int64_t>();
  starts[0] = 0;
  dispatch_mask(x, [&]<typename T>() {
    const T* p = x.data<T>();
    parallel_for(pieces, 1, [&](int64_t b, int64_t e) {
      for (int64_t piece = b; piece < e; ++piece) {
        const int64_t end = std::min(x.numel(), (piece + 1) * kPiece);
        int64_t n = 0;
        for (int64_t i = piece * kPiece; i < end; ++i) n += is_nonzero(p[i]);
        starts[piece + 1] = n;
      }
    });
  });
  for (int64_t i = 1; i <= pieces; ++i) starts[i] += starts[i - 1];
  return counts;
}

// f(first element, first result, results) for each piece.
template <class F>
void for_pieces(const Tensor& counts, F&& f) {
  const auto* starts = counts.data<int64_t>();
  parallel_for(counts.numel() - 1, 1, [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; ++i) f(i * kPiece, starts[i], starts[i + 1] - starts[i]);
  });
}

void write_positions(const Tensor& x, const Tensor& counts, int64_t* positions) {
  dispatch_mask(x, [&]<typename T>() {
    const T* p = x.data<T>();
    for_pieces(counts, [&](int64_t begin, int64_t start, int64_t count) {
      int64_t* out = positions + start;
      compact(p, begin, count, [&](int64_t n, int64_t i) { out[n] = i; });
    });
  });
}

void write_coordinates(const Tensor& x, const Tensor& counts, const Tensor& to, int64_t stride,
                       int64_t dim_stride) {
  const int64_t dims = x.dim();
  auto* positions = to.data<int64_t>();
  if (dims == 1 && stride == 1) return write_positions(x, counts, positions);
  const int64_t row = x.sizes().back();
  dispatch_mask(x, [&]<typename T>() {
    const T* p = x.data<T>();
    for_pieces(counts, [&](int64_t begin, int64_t start, int64_t count) {
      int64_t flat[kPiece];
      compact(p, begin, count, [&](int64_t n, int64_t i) { flat[n] = i; });
      // Coordinates change only when the row does, so that few divisions are needed.
      int64_t coordinates[kMaxDims], row_begin = -1, row_end = -1;
      for (int64_t n = 0; n < count; ++n) {
        if (flat[n] >= row_end) {
          int64_t rest = flat[n] / row;
          row_begin = rest * row;
          row_end = row_begin + row;
          for (int64_t d = dims - 1; d-- > 0;) {
            coordinates[d] = rest % x.sizes()[size_t(d)];
            rest /= x.sizes()[size_t(d)];
          }
        }
        int64_t* out = positions + (start + n) * stride;
        for (int64_t d = 0; d < dims - 1; ++d) out[d * dim_stride] = coordinates[d];
        out[(dims - 1) * dim_stride] = flat[n] - row_begin;
      }
    });
  });
}

void select(const Tensor& x, const Tensor& counts, const Tensor& values, const Tensor& out) {
  dispatch_mask(x, [&]<typename T>() {
    if constexpr (sizeof(T) == 1) {
      const T* p = x.data<T>();
      dispatch_width(values.dtype(), [&]<typename W>() {
        const W* from = values.data<W>();
        for_pieces(counts, [&](int64_t begin, int64_t start, int64_t count) {
          W* to = out.data<W>() + start;
          compact(p, begin, count, [&](int64_t n, int64_t i) { to[n] = from[i]; });
        });
      });
    }
  });
}

void place(const char*, const Tensor& x, const Tensor& counts, const Tensor& source,
           const Tensor& out) {
  dispatch_mask(x, [&]<typename T>() {
    if constexpr (sizeof(T) == 1) {
      const T* p = x.data<T>();
      dispatch_width(out.dtype(), [&]<typename W>() {
        W* to = out.data<W>();
        for_pieces(counts, [&](int64_t begin, int64_t start, int64_t count) {
          const W* from = source.data<W>() + start;
          for (int64_t i = begin, n = 0; n < count; ++i) {
            if (p[i]) to[i] = from[n++];
          }
        });
      });
    }
  });
}

void masked_fill(const Tensor& self, const Tensor& mask, const Tensor& value, const Tensor& out) {
  if (out.numel() == 0) return;
  dispatch_width(out.dtype(), [&]<typename W>() {
    FillContext<W> context;
    store_scalar(&context.value, out.dtype(), value.item());
    loop({out, self, mask}, masked_fill_row<W>, &context);
  });
}

const bool registered = [] {
  IndexLoops& loops = index_loops(DeviceType::CPU);
  loops.masked_fill = masked_fill;
  loops.nonzero_counts = count;
  loops.nonzero_coordinates = write_coordinates;
  loops.masked_select = select;
  loops.masked_scatter = place;
  return true;
}();

}  // namespace
}  // namespace rush
