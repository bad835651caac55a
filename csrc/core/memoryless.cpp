#include "core/memoryless.h"

#include "core/modes.h"

namespace rush {

Tensor (*g_add_memoryless)(const Tensor& a, const Tensor& b, bool in_place) = nullptr;
bool (*g_any_nan_memoryless)(const Tensor& t) = nullptr;

Tensor make_memoryless(IntList sizes, DType dtype, Device device) {
  TensorImpl* t = TensorImpl::create();
  Tensor out(Ref<TensorImpl>::adopt(t));
  t->numel = checked_numel("sparse tensor", sizes);
  t->sizes = Dims(sizes);
  t->strides = contiguous_strides(t->sizes);
  t->dtype = dtype;
  t->device = device;
  t->set(kMemoryless, true);
  return out;
}

}  // namespace rush
