// Dropout on the CPU: choices that are known, applied in one pass.
#include "device/nn/dropout.h"

#include "core/threads.h"
#include "cpu/lines.h"
#include "cpu/prepare.h"
#include "functors/stored.h"

namespace rush {

namespace {

constexpr int64_t kGrain = 16384;

// y = x * scale + shift where an element is kept; floor elsewhere, but NaN stays NaN.
template <class T>
void masked_affine(const T* x, const truth* kept, const DropoutRule& rule, T* y, int64_t n) {
  const T scale = T(rule.scale), shift = T(rule.shift), floor = T(rule.floor);
  for (int64_t i = 0; i < n; ++i) {
    const T scaled = x[i] * scale;
    y[i] = kept[i] ? scaled + shift : scaled * T(0) + floor;
  }
}

void masked_cpu(const Tensor& x, const Tensor& mask, const DropoutRule& rule, const Tensor& out) {
  // All three in one order, and in a type that has loops.
  const DType type = compute_type(x.dtype());
  const auto lying_like_out = [&](const Tensor& t, DType dtype) {
    if (t.strides() == out.strides() && t.dtype() == dtype && t.sizes() == out.sizes()) return t;
    const Tensor made = make_tensor(out.sizes(), out.strides(), dtype, {});
    copy_cpu(arranged_form(t), made);
    return made;
  };
  const Tensor from = lying_like_out(x, type), keep = lying_like_out(mask, DType::Bool);
  const Tensor y = out.dtype() == type ? out : make_tensor(out.sizes(), out.strides(), type, {});
  const bool affine = rule.shift != 0 || rule.floor != 0;
  dispatch<DType::Float32, DType::Float64>("dropout", type, [&]<class T>() {
    parallel_for(y.numel(), kGrain, [&](int64_t i, int64_t end) {
      const T* x_at = from.data<T>() + i;
      T* y_at = y.data<T>() + i;
      if (affine)
        masked_affine(x_at, keep.data<truth>() + i, rule, y_at, end - i);
      else
        line_kernels<T>().masked_scale(y_at, x_at, keep.data<uint8_t>() + i, T(rule.scale),
                                       end - i);
    });
  });
  if (!y.is_same(out)) copy_cpu(y, out);
}

const bool registered = [] {
  dropout_loops(DeviceType::CPU) = {nullptr, masked_cpu};
  return true;
}();

}  // namespace
}  // namespace rush
