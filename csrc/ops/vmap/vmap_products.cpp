// The batching rules of products of matrices. Where one factor has samples and the other has not,
// they are more rows of one product: the factor that all share is neither repeated nor read for
// each of them.
#include <algorithm>

#include "ops/framework/operators.h"
#include "ops/vmap/vmap_rules.h"

namespace rush {

Tensor folded(const Tensor& t, int64_t dim, int64_t outer) {
  const Dims sizes = t.sizes();
  Tensor out = t;
  if (outer > 1) {
    Dims split(sizes);
    split[size_t(dim + 1)] = sizes[size_t(dim + 1)] / outer;
    split.insert(uint32_t(dim + 1), outer);
    out = movedim(reshape(t, split), Dims{0}, Dims{dim + 1});
  } else if (dim > 0) {
    out = movedim(t, Dims{0}, Dims{dim});
  }
  Dims joined = Dims(IntList(sizes).subspan(1));
  joined[size_t(dim)] *= sizes[0];
  return reshape(out, joined);
}

Tensor unfolded(const Tensor& t, int64_t samples, int64_t dim, int64_t outer) {
  Dims split = t.sizes(), sizes = split;
  const int64_t one = samples > 0 ? split[size_t(dim)] / samples : 0;
  sizes[size_t(dim)] = one;
  split[size_t(dim)] = one / outer;
  split.insert(uint32_t(dim), samples);
  if (outer > 1) split.insert(uint32_t(dim), outer);
  const Tensor parts = movedim(reshape(t, split), Dims{outer > 1 ? dim + 1 : dim}, Dims{0});
  if (outer == 1) return parts;
  return reshape(parts, with_first(samples, sizes));
}

}  // namespace rush

namespace rush::batch {

// Below, columns of the samples stand side by side in one product; above, a product of each sample
// is large enough, and its result lies in order.
constexpr int64_t kNarrow = 32;

// mm or bmm of two arguments, with samples in dimension 0.
static Tensor multiplied(const BatchedCall& c, size_t i, size_t j) {
  const Tensor a = c.physical(i), b = c.physical(j);
  const bool own_a = c.is_batched(i), own_b = c.is_batched(j);
  if (own_a == own_b || c.size == 0) return matmul(a, b);
  const int64_t rows = c.logical(i).sizes()[size_t(c.logical(i).dim() - 2)],
                columns = c.logical(j).sizes().back();
  if (c.logical(i).dim() == 2) {
    if (own_a || columns > kNarrow) return matmul(a, b);
    return transpose(matmul(transpose(b, 1, 2), transpose(a, 0, 1)), 1, 2);
  }
  // Either the factor that has samples is laid out anew, or the other one is repeated.
  if (own_a && rows <= columns) return unfolded(bmm(folded(a, 1), b), c.size, 1);
  if (own_b && columns <= rows) return unfolded(bmm(a, folded(b, 2)), c.size, 2);
  return matmul(a, b);
}

void matrix_product(BatchedCall& c) { c.finish(multiplied(c, 0, 1)); }

void matrix_vector(BatchedCall& c) {
  if (!c.is_batched(0)) return c.finish(matmul(c.physical(1), transpose(c.logical(0), 0, 1)));
  if (!c.is_batched(1)) return c.finish(matmul(c.physical(0), c.logical(1)));
  c.finish(squeeze(matmul(c.physical(0), unsqueeze(c.physical(1), -1)), Dims{-1}));
}

void vector_product(BatchedCall& c) {
  if (!c.is_batched(0)) return c.finish(matmul(c.physical(1), c.logical(0)));
  if (!c.is_batched(1)) return c.finish(matmul(c.physical(0), c.logical(1)));
  const Tensor row = unsqueeze(c.physical(0), -2), column = unsqueeze(c.physical(1), -1);
  c.finish(squeeze(matmul(row, column), Dims{-2, -1}));
}

// beta * self + alpha * (a @ b)
void add_product(BatchedCall& c) {
  const int64_t rank = c.logical(1).dim();
  const Scalar beta = c.given(3).scalar(), alpha = c.given(4).scalar();
  Tensor product = multiplied(c, 1, 2);
  if (!c.is_batched(1) && !c.is_batched(2)) product = unsqueeze(product, 0);
  auto is_number = [](const Scalar& s, double x) {
    const auto z = s.to<complex<double>>();
    return z.re == x && z.im == 0;
  };
  if (!is_number(alpha, 1)) product = product * alpha;
  if (is_number(beta, 0)) {
    const Dims sizes = with_first(c.size, IntList(product.sizes()).subspan(1));
    return c.finish(expand(product, sizes));
  }
  const Tensor self = c.is_batched(0) ? padded(c.physical(0), rank) : c.logical(0);
  c.finish(self * beta + product);
}

// input @ weight.T + bias. Samples of the input alone are so many more rows.
void linear_map(BatchedCall& c) {
  const bool bias = c.is_tensor(2), own_weight = c.is_batched(1),
             own_bias = bias && c.is_batched(2);
  if (!own_weight && !own_bias) return c.run();
  Tensor x = c.physical(0), w = c.physical(1), out;
  if (!own_weight) {
    out = linear(x, w, Tensor());
  } else if (c.logical(1).dim() == 1) {
    // One output: a product of each row with its sample's weight.
    const bool row = c.logical(0).dim() == 1;
    w = padded(unsqueeze(w, -1), c.logical(0).dim());
    out = squeeze(matmul(row ? unsqueeze(x, -2) : x, w), Dims{-1});
    if (row) out = squeeze(out, Dims{-1});
  } else if (!c.is_batched(0) && c.size > 0) {
    // Outputs of the samples side by side.
    out = unfolded(linear(x, folded(w, 0), Tensor()), c.size, c.logical(0).dim() - 1);
  } else {
    // Rows of one sample as a matrix.
    Dims sizes = c.logical(0).sizes(),
         rows{c.logical(0).numel() / std::max<int64_t>(1, sizes.back()), sizes.back()};
    if (sizes.back() == 0) rows[0] = numel(IntList(sizes).first(sizes.size() - 1));
    x = reshape(x, c.is_batched(0) ? with_first(c.size, rows) : rows);
    sizes[sizes.size() - 1] = c.logical(1).sizes()[0];
    // The gradient of a factor on the left lies as the factor does: where the weight is the larger
    // one, it stands there.
    const bool few = c.is_batched(0) && rows[0] <= c.logical(1).sizes()[0];
    const Tensor product =
        few ? transpose(matmul(w, transpose(x, 1, 2)), 1, 2) : matmul(x, transpose(w, 1, 2));
    out = reshape(product, with_first(c.size, sizes));
  }
  if (!bias) return c.finish(out);
  const bool samples = own_weight || c.is_batched(0);
  if (!samples) out = unsqueeze(out, 0);
  c.finish(out + (own_bias ? padded(c.physical(2), out.dim() - 1) : c.logical(2)));
}

}  // namespace rush::batch
