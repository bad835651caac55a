// Diagonals and triangles of matrices; copies of self with a part replaced.
#include <algorithm>
#include <limits>
#include <vector>

#include "core/interrupt.h"
#include "device/copy.h"
#include "ops/copy/creation.h"
#include "ops/framework/data.h"
#include "ops/framework/fits.h"
#include "ops/framework/operators.h"

namespace rush {
namespace {

// Has each element a place of its own, for certain? So it is where each dim steps over all that those
// with smaller steps reach.
bool has_place_for_each(const Tensor& t) {
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride, size
  for (size_t d = 0; d < t.sizes().size(); ++d)
    if (t.sizes()[d] > 1) dims.emplace_back(t.strides()[d], t.sizes()[d]);
  std::ranges::sort(dims);
  int64_t reached = 1;
  for (const auto& [stride, size] : dims) {
    if (stride < reached) return false;
    reached += (size - 1) * stride;
  }
  return true;
}

// A copy that lies as self does, with the gaps that it has. Of several elements in one place it makes
// several.
Tensor copy_lying_alike(const Tensor& self) {
  if (self.is_batched() || self.is_contiguous() || !has_place_for_each(self))
    return clone(self, MemoryFormat::Contiguous);
  const Tensor out =
      empty_strided(self.sizes(), self.strides(), self.dtype(), std::nullopt, self.device());
  copy_(out, self);
  return out;
}

// A copy of self in which the part that `view` cuts out holds src.
template <class View>
Tensor replaced(const char* op, const Tensor& self, const Tensor& src, View view) {
  Tensor out;
  if (src.is_batched() && src.impl()->vmap_level > self.impl()->vmap_level) {
    // Inside vmap the copy needs room for the samples of src.
    out = new_empty(src, self.sizes(), self.dtype());
    copy_(out, self);
  } else {
    out = copy_lying_alike(self);
  }
  const Tensor part = view(out);
  check_shape(part.sizes() == src.sizes(), op,
              "src must have the shape of the part it replaces: ", src.sizes(), " and ",
              part.sizes());
  copy_(part, src);
  return out;
}

}  // namespace

struct SelectScatter {
  static constexpr const char* name = "select_scatter";
  static Tensor call(const Tensor& self, const Tensor& src, int64_t dim, int64_t index) {
    return replaced(name, self, src, [&](const Tensor& t) { return select(t, dim, index); });
  }
};

struct SliceScatter {
  static constexpr const char* name = "slice_scatter";
  static Tensor call(const Tensor& self, const Tensor& src, int64_t dim,
                     std::optional<int64_t> start, std::optional<int64_t> end, int64_t step) {
    return replaced(name, self, src,
                    [&](const Tensor& t) { return slice(t, dim, start, end, step); });
  }
};

struct DiagonalScatter {
  static constexpr const char* name = "diagonal_scatter";
  static Tensor call(const Tensor& self, const Tensor& src, int64_t offset, int64_t dim1,
                     int64_t dim2) {
    return replaced(name, self, src,
                    [&](const Tensor& t) { return diagonal(t, offset, dim1, dim2); });
  }
};

struct FillDiagonal {
  static constexpr const char* name = "fill_diagonal_";
  static constexpr bool any_device = true;
  static constexpr bool takes_float8 = true;
  static void check(const Tensor& self, const Scalar& value, bool) {
    check_shape(self.dim() >= 2, name, "needs at least 2 dimensions, got shape ", self.sizes());
    for (int64_t n : self.sizes())
      check_shape(self.dim() == 2 || n == self.sizes()[0], name,
                  "all sizes must be equal with more than 2 dimensions, got ", self.sizes());
    check_fits(name, self.dtype(), value);
  }
  static void run(const Tensor& self, const Scalar& value, bool wrap) {
    int64_t step = 0, n = self.sizes()[0];
    for (int64_t d = 0; d < self.dim(); ++d) {
      step += self.strides()[size_t(d)];
      n = std::min(n, self.sizes()[size_t(d)]);
    }
    fill_data(make_tensor(self.storage(), Dims{n}, Dims{step}, self.offset(), self.dtype()), value);
    if (!wrap || self.dim() != 2) return;
    // Below, the diagonal starts again after one row that it leaves out.
    const int64_t rows = self.sizes()[0], cols = self.sizes()[1];
    for (int64_t first = cols + 1; cols > 0 && first < rows; first += cols + 1) {
      fill_data(make_tensor(self.storage(), Dims{std::min(cols, rows - first)}, Dims{step},
                            self.offset() + first * self.strides()[0], self.dtype()),
                value);
    }
  }
  static Grads grad(const Ctx&, const Tensor& g, const Tensor&, const Scalar&, bool wrap) {
    return {fill_diagonal_(clone(g), 0, wrap)};
  }
};

template <bool upper>
struct Triangle {
  static constexpr bool takes_float8 = true;
  static constexpr bool any_device = true;
  static constexpr bool in_place_safe = true;
  static constexpr const char* name = upper ? "triu" : "tril";
  static constexpr bool refuses_overlap = false;
  static Spec check(const Tensor& self, int64_t) {
    check_shape(self.dim() >= 2, name, "needs at least 2 dimensions, got shape ", self.sizes());
    return {self.sizes(), self.dtype(), self.device()};
  }
  static void run(const Tensor& self, int64_t diagonal, const Tensor& out) {
    copy_loops(out).triangle(self, diagonal, upper, out);
  }
  static Grads grad(const Ctx&, const Tensor& g, const Tensor&, int64_t diagonal) {
    return {upper ? triu(g, diagonal) : tril(g, diagonal)};
  }
};
struct Tril : Triangle<false> {};
struct Triu : Triangle<true> {};

namespace {

Tensor triangle_indices(const char* op, bool upper, int64_t rows, int64_t cols, int64_t offset,
                        std::optional<DType> dtype, std::optional<Device> device, bool pin_memory) {
  check(rows >= 0 && cols >= 0, ErrorKind::Runtime, op, "row and col must not be negative, got ",
        rows, " and ", cols);
  const DType t = dtype.value_or(DType::Int64);
  check_dtype(t == DType::Int64 || t == DType::Int32, op, "the indices are int64 or int32, not ",
              t);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() - 3;  // of what is added up below
  check(rows <= kMost && cols <= kMost - rows, ErrorKind::Runtime, op, "a matrix of ", rows,
        " rows and ", cols, " columns has more than can be addressed");
  const int64_t shift = std::clamp(offset, -rows - 1, cols + 1);
  auto first = [&](int64_t r) { return upper ? std::clamp<int64_t>(r + shift, 0, cols) : 0; };
  auto last = [&](int64_t r) { return upper ? cols : std::clamp<int64_t>(r + shift + 1, 0, cols); };
  // Rows [begin, end) have elements; among them the lengths change by one a row up to `full`.
  const int64_t begin = upper ? 0 : std::clamp<int64_t>(-shift, 0, rows);
  const int64_t end = upper ? std::clamp<int64_t>(cols - shift, 0, rows) : rows;
  const int64_t full = upper ? std::clamp<int64_t>(-shift, begin, std::max(begin, end))
                             : std::clamp<int64_t>(cols - shift, begin, std::max(begin, end));
  const auto sum = [&](int64_t from, int64_t to) {  // of lengths that change by one
    return from >= to
               ? 0.0
               : 0.5 * double(to - from) *
                     (double(last(from) - first(from)) + double(last(to - 1) - first(to - 1)));
  };
  const double total = sum(begin, full) + sum(full, end);
  check(total < 0x1p52, ErrorKind::Runtime, op, "there would be ", total,
        " indices, too many to address");
  const auto n = int64_t(total);
  const Tensor out = fresh(op, Dims{2, n}, t, device, pin_memory);
  if (out.is_meta() || n == 0) return out;
  copy_loops(out).triangle_indices(rows, cols, shift, upper, out);
  return out;
}

}  // namespace

struct TrilIndices {
  static constexpr const char* name = "tril_indices";
  static Tensor call(int64_t row, int64_t col, int64_t offset, std::optional<DType> dtype,
                     std::optional<Layout>, std::optional<Device> device, bool pin_memory) {
    return triangle_indices(name, false, row, col, offset, dtype, device, pin_memory);
  }
};

struct TriuIndices {
  static constexpr const char* name = "triu_indices";
  static Tensor call(int64_t row, int64_t col, int64_t offset, std::optional<DType> dtype,
                     std::optional<Layout>, std::optional<Device> device, bool pin_memory) {
    return triangle_indices(name, true, row, col, offset, dtype, device, pin_memory);
  }
};

struct Diag {
  static constexpr const char* name = "diag";
  static Tensor call(const Tensor& self, int64_t offset) {
    check_shape(self.dim() == 1 || self.dim() == 2, name, "needs a vector or a matrix, got shape ",
                self.sizes());
    return self.dim() == 1 ? diag_embed(self, offset)
                           : clone(diagonal(self, offset), MemoryFormat::Contiguous);
  }
};

struct DiagEmbed {
  static constexpr const char* name = "diag_embed";
  static Tensor call(const Tensor& self, int64_t offset, int64_t dim1, int64_t dim2) {
    const int64_t rank = self.dim() + 1;
    const auto a = uint32_t(wrap_dim(name, dim1, rank)), b = uint32_t(wrap_dim(name, dim2, rank));
    check(self.dim() > 0, ErrorKind::Index, name, "needs at least 1 dimension");
    check(a != b, ErrorKind::Runtime, name, "dim1 and dim2 must differ, both are ", int64_t(a));
    Dims sizes = self.sizes();
    constexpr int64_t kMost = int64_t(1) << 60;
    check(offset > -kMost && offset < kMost && sizes.back() < kMost, ErrorKind::Runtime, name,
          "a diagonal ", offset, " away from the main one makes a matrix too large to count");
    const int64_t n = sizes.back() + std::abs(offset);
    sizes.erase(sizes.size() - 1);
    sizes.insert(std::min(a, b), n);
    sizes.insert(std::max(a, b), n);
    const Tensor out = new_zeros(self, sizes);
    copy_(diagonal(out, offset, a, b), self);
    return out;
  }
};

struct Diagflat {
  static constexpr const char* name = "diagflat";
  static Tensor call(const Tensor& self, int64_t offset) {
    return diag_embed(reshape(self, Dims{-1}), offset);
  }
};

struct Trace {
  static constexpr const char* name = "trace";
  static Tensor call(const Tensor& self) {
    check_shape(self.dim() == 2, name, "needs a matrix, got shape ", self.sizes());
    return sum(diagonal(self));
  }
};

}  // namespace rush

#include "ops/diagonals.inc"
