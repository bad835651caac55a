// Products with a sparse matrix in CSR layout. They are what bags of embeddings are, too: weighted
// sums of rows, and products of rows at some places. Gradients are made of both, in
// rushlight/sparse/_products.py, which knows the transposed matrix.
#include "device/nn/embedding.h"
#include "device/sparse.h"
#include "ops/framework/data.h"
#include "ops/framework/op.h"
#include "ops/framework/operators.h"

namespace rush {
namespace {

void check_places(const char* op, const Tensor& columns, const Tensor& bounds, int64_t rows) {
  check_shape(columns.dim() == 1 && bounds.dim() == 1 && bounds.numel() == rows + 1, op,
              "there must be ", rows + 1, " bounds and a list of columns, got shapes ",
              bounds.sizes(), " and ", columns.sizes());
  check_dtype((columns.dtype() == DType::Int64 || columns.dtype() == DType::Int32) &&
                  bounds.dtype() == DType::Int64,
              op, "columns must be int64 or int32, bounds int64; got ", columns.dtype(), " and ",
              bounds.dtype());
}

void check_types(const char* op, const Tensor& a, const Tensor& b) {
  check_dtype(is_floating(a.dtype()) && a.dtype() == b.dtype(), op,
              "expects tensors of one floating type, got ", a.dtype(), " and ", b.dtype());
}

Bags bags_of(const Tensor& columns, const Tensor& bounds, const Tensor& values) {
  return {contiguous_data(columns), contiguous_data(bounds),
          values.defined() ? contiguous_data(values) : values, BagMode::Sum, -1};
}

}  // namespace

struct SparseProduct {
  static constexpr const char* name = "_sparse_product";
  static constexpr bool any_device = true;
  static constexpr bool may_fail = true;
  static Spec check(const Tensor& values, const Tensor& dense, const Tensor& columns,
                    const Tensor& bounds) {
    check_types(name, values, dense);
    check_shape(dense.dim() == 2 && values.sizes() == columns.sizes() && bounds.numel() > 0, name,
                "expects a dense matrix and one value per column, got shapes ", dense.sizes(), ", ",
                values.sizes(), " and ", columns.sizes());
    check_places(name, columns, bounds, bounds.numel() - 1);
    common_device(name, {&values, &dense, &columns, &bounds});
    return {Dims{bounds.numel() - 1, dense.sizes()[1]}, values.dtype(), values.device()};
  }
  static void run(const Tensor& values, const Tensor& dense, const Tensor& columns,
                  const Tensor& bounds, const Tensor& out) {
    if (out.numel() == 0) return;
    if (columns.numel() == 0) return fill_data(out, 0);
    const Bags bags = bags_of(columns, bounds, values);
    if (const auto run = sparse_loops(out).product) return run(contiguous_data(dense), bags, out);
    const Device device = out.device();
    embedding_loops(out).bag(contiguous_data(dense), bags, out,
                             make_tensor(Dims{bags.size()}, DType::Int64, device),
                             make_tensor(Dims{0}, DType::Int64, device));
  }
};

struct SampledProduct {
  static constexpr const char* name = "_sampled_product";
  static constexpr bool any_device = true;
  static constexpr bool may_fail = true;
  static Spec check(const Tensor& left, const Tensor& right, const Tensor& columns,
                    const Tensor& bounds) {
    check_types(name, left, right);
    check_shape(left.dim() == 2 && right.dim() == 2 && left.sizes()[1] == right.sizes()[1], name,
                "rows of both matrices must be equally long, got shapes ", left.sizes(), " and ",
                right.sizes());
    check_places(name, columns, bounds, left.sizes()[0]);
    common_device(name, {&left, &right, &columns, &bounds});
    return {columns.sizes(), left.dtype(), left.device()};
  }
  static void run(const Tensor& left, const Tensor& right, const Tensor& columns,
                  const Tensor& bounds, const Tensor& out) {
    if (out.numel() == 0) return;
    const Bags bags = bags_of(columns, bounds, Tensor());
    const Tensor a = contiguous_data(left), b = contiguous_data(right);
    if (const auto run = sparse_loops(out).sampled) return run(a, b, bags, out);
    embedding_loops(out).bag_weights(a, b, bags, out);
  }
};

}  // namespace rush

#include "ops/sparse_products.inc"
