// The few ops that the engine needs, handed to it here: autograd may not include ops.
#include "core/memoryless.h"
#include "device/deferred.h"
#include "ops/framework/data.h"
#include "ops/framework/op.h"
#include "ops/framework/operators.h"

namespace rush {
namespace {

Tensor sum_to(const Tensor& g, IntList sizes) {
  const auto lead = size_t(std::max<int64_t>(0, g.dim() - int64_t(sizes.size())));
  Dims dims;
  for (size_t i = 0; i < size_t(g.dim()); ++i) {
    if (i < lead || (sizes[i - lead] == 1 && g.sizes()[i] != 1)) dims.push_back(int64_t(i));
  }
  // Without a view where none is needed: in a compiled function a sum may wait, a view of it does not.
  const bool keeps = dims.size() > lead;
  Tensor out = dims.empty() ? g : sum(g, IntList(dims), keeps);
  if (lead > 0 && keeps) out = reshape(out, sizes);
  check_shape(equal(out.sizes(), sizes), "backward", "a gradient of shape ", g.sizes(),
              " does not fit its tensor of shape ", sizes);
  return out;
}

Tensor cast_gradient(const Tensor& g, DType dtype) {
  // The imaginary part of the gradient of a real tensor is of no use to it.
  return cast(g, dtype);
}

Tensor in_dtype(const Tensor& t, DType dtype) {
  if (t.dtype() == dtype) return t;
  return t.is_complex() ? view_as_real(t) : view_as_complex(t);
}

// A node that reads `view` out of `base` by geometry, for a view whose base got a new history.
Ref<Node> view_node(const Tensor& base, const Tensor& view) {
  ModeGuard grad_on(kNoGrad, false);
  const Tensor seen = in_dtype(base, view.dtype());
  const Tensor again = view_by_geometry(seen, view.sizes(), view.strides(), view.offset(),
                                        seen.strides(), seen.offset());
  return grad_meta(again).grad_fn;
}

const bool g_filled = [] {
  EngineOps& ops = engine_ops();
  ops.add = [](const Tensor& a, const Tensor& b) {
    return is_memoryless(a) || is_memoryless(b) ? g_add_memoryless(a, b, false) : add(a, b);
  };
  ops.add_in_place = [](const Tensor& a, const Tensor& b) {
    if (is_memoryless(b))
      g_add_memoryless(a, b, true);
    else
      add_(a, b);
  };
  ops.sum_to = sum_to;
  ops.cast = cast_gradient;
  ops.clone = [](const Tensor& t) { return is_memoryless(t) ? t : clone(t); };
  ops.clone_strided = [](const Tensor& t, IntList strides) {
    Tensor out = make_tensor(t.sizes(), strides, t.dtype(), t.device());
    copy_(out, t);
    return out;
  };
  ops.lay_out_pending = deferred::contiguous_cast;
  ops.ones_like = [](const Tensor& t) { return ones_like(t); };
  ops.zeros = [](IntList sizes, DType dtype, Device device) {
    return zeros(sizes, dtype, std::nullopt, device);
  };
  ops.copy = [](const Tensor& dst, const Tensor& src) { copy_(dst, src); };
  ops.any_nan = [](const Tensor& t) {
    if (is_memoryless(t)) return g_any_nan_memoryless(t);
    const NoGradGuard no_grad;
    return any(ne(detached(t), detached(t))).item().to<bool>();
  };
  ops.contiguous_clone = [](const Tensor& t) { return clone(t, MemoryFormat::Contiguous); };
  ops.as_strided = [](const Tensor& t, IntList sizes, IntList strides, int64_t offset) {
    return as_strided(t, sizes, strides, offset);
  };
  ops.in_dtype = in_dtype;
  ops.view_node = view_node;
  return true;
}();

}  // namespace
}  // namespace rush
