// Dropout: random choices are kept as bool, a byte an element, and applied in one pass.
#include "core/threads.h"
#include "cpu/lines.h"
#include "ops/data.h"
#include "ops/op.h"
#include "ops/operators.h"

namespace rush {

struct MaskedScale {
  static constexpr const char* name = "dropout";
  static constexpr bool any_layout = true;
  static Spec check(const Tensor& x, const Tensor& mask, double) {
    return {x.sizes(), x.dtype(), common_device(name, {&x, &mask}),
            is_dense(x.sizes(), x.strides()) ? x.strides() : Dims{}};
  }
  static void run(const Tensor& x, const Tensor& mask, double scale, const Tensor& out) {
    // All three in one order, and in a type that has loops.
    const DType type = is_reduced_float(x.dtype()) ? DType::Float32 : x.dtype();
    auto arranged = [&](const Tensor& t, DType dtype) {
      if (t.strides() == out.strides() && t.dtype() == dtype && t.sizes() == out.sizes()) return t;
      const Tensor made = make_tensor(out.sizes(), out.strides(), dtype, {});
      copy_data(made, t);
      return made;
    };
    const Tensor from = arranged(x, type), keep = arranged(mask, DType::Bool);
    const Tensor y = out.dtype() == type ? out : make_tensor(out.sizes(), out.strides(), type, {});
    const uint8_t* kept = static_cast<const uint8_t*>(keep.data());
    dispatch<DType::Float32, DType::Float64>(name, type, [&]<class T>() {
      parallel_for(y.numel(), 16384, [&](int64_t i, int64_t end) {
        line_kernels<T>().masked_scale(y.data<T>() + i, from.data<T>() + i, kept + i, T(scale),
                                       end - i);
      });
    });
    if (!y.is_same(out)) copy_data(out, y);
  }
  static constexpr uint32_t needs[] = {in(1), 0};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor&, const Tensor& mask, double scale) {
    return {_masked_scale(g, mask, scale), Tensor()};
  }
};

struct DropoutOp {
  static constexpr const char* name = "dropout";
  static Tensor call(const Tensor& x, IntList shape, double p) {
    const Tensor keep = empty(shape, DType::Bool, std::nullopt, x.device());
    bernoulli_(keep, 1 - p, nullptr);
    const bool looped = is_floating(x.dtype());
    if (looped && equal(shape, x.sizes())) return _masked_scale(x, keep, 1 / (1 - p));
    // Whole channels, and complex numbers: the factor is small or rare.
    return x * (cast(keep, x.dtype()) * Scalar(1 / (1 - p)));
  }
};

}  // namespace rush

#include "ops/dropout.inc"
