#include "ops/framework/data.h"

#include "core/layout.h"
#include "cpu/copy/copy.h"
#include "cuda/runtime/memory.h"
#include "device/loops.h"
#include "ops/framework/spec.h"

namespace rush {

void copy_data(const Tensor& dst, const Tensor& src, bool non_blocking) {
  if (dst.is_meta() || src.is_meta()) {
    check(dst.is_meta(), ErrorKind::NotImplemented, "copy_",
          "a meta tensor has no values to copy from");
    return;
  }
  if (is_arranged(dst) || is_arranged(src)) [[unlikely]]
    return copy_data(arranged_form(dst), arranged_form(src), non_blocking);
  if (dst.is_cuda() || src.is_cuda()) [[unlikely]]
    device_loops(DeviceType::CUDA).copy(src, dst, non_blocking);
  else
    copy_cpu(src, dst);
}

void fill_data(const Tensor& dst, const Scalar& value) {
  if (dst.is_meta()) return;
  if (is_arranged(dst)) [[unlikely]]
    return fill_data(arranged_form(dst), value);
  if (dst.is_cuda()) [[unlikely]]
    device_loops(DeviceType::CUDA).fill(dst, value);
  else
    fill_cpu(dst, value);
}

Tensor clone_data(const Tensor& src, MemoryFormat format) {
  if (const Tensor form = arranged_form(src);
      format == MemoryFormat::Preserve && !form.is_same(src))
    return arrange(clone_data(form, format));
  Spec spec = like(src);
  if (format != MemoryFormat::Preserve)
    spec.strides = format == MemoryFormat::Contiguous ? Dims{} : strides_for(src.sizes(), format);
  Tensor out = spec.allocate();
  copy_data(out, src);
  return out;
}

Tensor contiguous_data(const Tensor& src) {
  return src.is_contiguous() ? src : clone_data(src, MemoryFormat::Contiguous);
}

Tensor convert_data(const Tensor& src, DType dtype) {
  Tensor out = like(src, dtype).allocate();
  copy_data(out, src);
  return out;
}

Tensor placed(const Tensor& src, Device device) {
  if (src.device().type == device.type && (device.index < 0 || device == src.device())) return src;
  Spec spec = like(src);
  spec.device = device;
  Tensor out = spec.allocate();
  copy_data(out, src);
  return out;
}

namespace {

const bool g_can_settle = [] {
  g_contiguous_storage = [](const Tensor& form) {
    const Tensor out = make_tensor(form.sizes(), form.dtype(), form.device());
    copy_data(out, form);
    // The program still holds the tensor and does not know that this memory goes.
    if (form.is_cuda())
      cuda::record_stream(*form.storage(), cuda::current_stream(form.device().index));
    return out.storage();
  };
  return true;
}();

}  // namespace

Tensor host_data(const Tensor& src) { return src.is_cuda() ? placed(src, Device{}) : src; }

}  // namespace rush
