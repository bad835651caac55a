#include "ops/data.h"

#include "cpu/copy.h"
#include "ops/spec.h"

namespace rush {

void copy_data(const Tensor& dst, const Tensor& src) {
  if (dst.is_meta() || src.is_meta()) {
    check(dst.is_meta(), ErrorKind::NotImplemented, "copy_",
          "a meta tensor has no values to copy from");
    return;
  }
  copy_cpu(src, dst);
}

void fill_data(const Tensor& dst, const Scalar& value) {
  if (dst.is_meta()) return;
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

}  // namespace rush
