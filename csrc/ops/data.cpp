#include "ops/data.h"

#include "cpu/copy.h"
#include "cpu/device_loops.h"
#include "ops/spec.h"

namespace rush {

void copy_data(const Tensor& dst, const Tensor& src, bool non_blocking) {
  if (dst.is_meta() || src.is_meta()) {
    check(dst.is_meta(), ErrorKind::NotImplemented, "copy_",
          "a meta tensor has no values to copy from");
    return;
  }
  if (dst.is_cuda() || src.is_cuda()) [[unlikely]]
    device_loops(DeviceType::CUDA).copy(src, dst, non_blocking);
  else
    copy_cpu(src, dst);
}

void fill_data(const Tensor& dst, const Scalar& value) {
  if (dst.is_meta()) return;
  if (dst.is_cuda()) [[unlikely]]
    device_loops(DeviceType::CUDA).fill(dst, value);
  else
    fill_cpu(dst, value);
}

Tensor clone_data(const Tensor& src, MemoryFormat format) {
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

Tensor host_data(const Tensor& src) { return src.is_cuda() ? placed(src, Device{}) : src; }

}  // namespace rush
