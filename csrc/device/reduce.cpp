#include "device/reduce.h"

namespace rush {

constinit DeviceTable<ReduceLoops> reduce_loops;

void reduce(ReduceFn fn, const Tensor& x, const Tensor& out, std::initializer_list<Scalar> params) {
  reduce_loops(x).reduce(fn, x, out, {params.begin(), params.size()});
}

void reduce(FoldFn fn, const Tensor& x, const Tensor& out) { reduce_loops(x).fold(fn, x, out); }

void reduce_var(const Tensor& x, const Tensor& out, double correction, bool take_sqrt,
                const Tensor* mean_out) {
  reduce_loops(x).var(x, out, correction, take_sqrt, mean_out);
}

void reduce_arg(ReduceFn fn, const Tensor& x, const Tensor& values, const Tensor& indices,
                int64_t dim) {
  reduce_loops(x).arg(fn, x, values, indices, dim);
}

void scan(ScanFn fn, const Tensor& x, const Tensor& out, int64_t dim, const Tensor* indices) {
  reduce_loops(x).scan(fn, x, out, indices, dim);
}

double folded_count(const Tensor& x, const Tensor& out) {
  double count = 1;
  for (size_t d = 0; d < size_t(x.dim()); ++d) {
    if (out.sizes()[d] != x.sizes()[d] || x.sizes()[d] == 1) count *= double(x.sizes()[d]);
  }
  return count;
}

Tensor part_of(const Tensor& z, int64_t part) {
  Dims strides = z.strides();
  for (int64_t& s : strides) s *= 2;
  return make_tensor(z.storage(), z.sizes(), strides, z.offset() * 2 + part, to_real(z.dtype()));
}

}  // namespace rush
