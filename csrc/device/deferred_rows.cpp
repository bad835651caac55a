// Calls of the devices' loops over rows, as steps that wait.
#include "device/deferred.h"

namespace rush::deferred {

namespace {

// Is the dim the innermost one, and the tensor contiguous?
bool are_rows(const Tensor& t, int64_t dim) {
  return t.dim() > 0 && dim == t.dim() - 1 && is_contiguous(t.sizes(), t.strides());
}

}  // namespace

bool take_row_norm(const Tensor& x, int64_t width, const Tensor& weight, const Tensor& bias,
                   bool centred, double eps, const Tensor& y, const Tensor& mean,
                   const Tensor& rstd) {
  const Tensor* operands[] = {&x};
  return take_rows({.fn = RowOp::Norm,
                    .centred = centred,
                    .width = width,
                    .eps = eps,
                    .with = {weight, bias},
                    .beside = {mean, rstd}},
                   operands, y);
}

bool take_row_norm_backward(const Tensor& g, const Tensor& x, int64_t width, const Tensor& weight,
                            const Tensor& mean, const Tensor& rstd, bool centred, const Tensor& gx,
                            const Tensor& gw, const Tensor& gb) {
  const Tensor* operands[] = {&g, &x};
  return take_rows({.fn = RowOp::NormBackward,
                    .centred = centred,
                    .width = width,
                    .with = {weight, mean, rstd},
                    .beside = {gw, gb}},
                   operands, gx);
}

bool take_softmax(const Tensor& x, int64_t dim, bool log, const Tensor& out) {
  if (!are_rows(out, dim)) return false;
  const Tensor* operands[] = {&x};
  const RowOp fn = log ? RowOp::LogSoftmax : RowOp::Softmax;
  return take_rows({.fn = fn, .width = out.sizes().back()}, operands, out);
}

bool take_softmax_backward(const Tensor& g, const Tensor& y, int64_t dim, bool log,
                           const Tensor& gx) {
  if (!are_rows(gx, dim)) return false;
  const Tensor* operands[] = {&g, &y};
  const RowOp fn = log ? RowOp::LogSoftmaxBackward : RowOp::SoftmaxBackward;
  return take_rows({.fn = fn, .width = gx.sizes().back()}, operands, gx);
}

}  // namespace rush::deferred
