#include "core/memoryless.h"

#include <algorithm>

#include "core/modes.h"

namespace rush {

Tensor (*g_add_memoryless)(const Tensor& a, const Tensor& b, bool in_place) = nullptr;
bool (*g_any_nan_memoryless)(const Tensor& t) = nullptr;

int64_t memoryless_numel(IntList sizes) {
  int64_t n = 1;
  bool overflow = false;
  for (int64_t size : sizes) overflow |= __builtin_mul_overflow(n, size, &n);
  const bool empty = std::find(sizes.begin(), sizes.end(), 0) != sizes.end();
  check(empty || !overflow, ErrorKind::Runtime, "sparse tensor", "sizes ", sizes,
        " have more places than can be numbered in 64 bits");
  return empty ? 0 : n;
}

Tensor make_memoryless(IntList sizes, DType dtype, Device device) {
  TensorImpl* t = TensorImpl::create();
  Tensor out(Ref<TensorImpl>::adopt(t));
  t->numel = memoryless_numel(sizes);
  t->sizes = Dims(sizes);
  t->strides = contiguous_strides(t->sizes);
  t->dtype = dtype;
  t->device = device;
  t->set(kMemoryless, true);
  return out;
}

}  // namespace rush
