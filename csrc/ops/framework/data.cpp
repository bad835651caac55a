#include "ops/framework/data.h"

#include "core/device_memory.h"
#include "core/layout.h"
#include "core/misaligned.h"
#include "device/copy.h"
#include "ops/framework/spec.h"

namespace rush {
namespace {

// The memory of t as it lies; pending values are computed.
Tensor with_memory(const Tensor& t) {
  Tensor form = arranged_form(t);
  form.storage();
  return form;
}

}  // namespace

void copy_data(const Tensor& dst, const Tensor& src, bool non_blocking) {
  if (dst.is_meta() || src.is_meta()) {
    check(dst.is_meta(), ErrorKind::NotImplemented, "copy_",
          "a meta tensor has no values to copy from");
    return;
  }
  if (is_arranged(dst) || is_arranged(src)) [[unlikely]]
    return copy_elements(with_memory(src), with_memory(dst), non_blocking);
  copy_elements(src, dst, non_blocking);
}

void fill_data(const Tensor& dst, const Scalar& value) {
  if (dst.is_meta()) return;
  if (is_arranged(dst)) [[unlikely]]
    return copy_loops(dst).fill(with_memory(dst), value);
  copy_loops(dst).fill(dst, value);
}

Tensor clone_data(const Tensor& src, MemoryFormat format) {
  if (format == MemoryFormat::Preserve && is_laid_out_otherwise(src))
    return arrange(clone_data(arranged_form(src), format));
  Spec spec = like(src);
  if (format != MemoryFormat::Preserve)
    spec.strides = format == MemoryFormat::Contiguous ? Dims{} : strides_for(src.sizes(), format);
  Tensor out = spec.allocate();
  copy_data(out, src);
  return out;
}

Tensor contiguous_data(const Tensor& src) {
  if (src.is_contiguous() && !is_misaligned(src)) return src;
  return clone_data(src, MemoryFormat::Contiguous);
}

Tensor convert_data(const Tensor& src, DType dtype) {
  Tensor out = like(src, dtype).allocate();
  copy_data(out, src);
  return out;
}

Tensor placed(const Tensor& src, Device device) {
  if (is_at(src.device(), device)) return src;
  Spec spec = like(src);
  spec.device = device;
  Tensor out = spec.allocate();
  copy_data(out, src);
  return out;
}

namespace {

const bool g_can_materialize = [] {
  g_contiguous_storage = [](const Tensor& form) {
    const Tensor out = make_tensor(form.sizes(), form.dtype(), form.device());
    copy_data(out, form);
    // The program still holds the tensor and does not know that this memory goes.
    if (const DeviceRuntime& runtime = device_runtime(form); runtime.record_stream)
      runtime.record_stream(*form.storage(), runtime.current_stream(form.device()));
    return out.storage();
  };
  return true;
}();

}  // namespace

Tensor host_data(const Tensor& src) {
  return device_traits(src).separate_memory ? placed(src, Device{}) : src;
}

}  // namespace rush
