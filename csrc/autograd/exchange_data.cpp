#include "autograd/exchange_data.h"

#include "autograd/meta.h"
#include "core/layout.h"

namespace rush {

void exchange_data(const Tensor& to, const Tensor& from) {
  check(!requires_grad(to) || is_differentiable(from.dtype()), ErrorKind::Runtime, "data",
        "this tensor requires grad, so its data must be floating or complex, not ", from.dtype());
  TensorImpl* t = to.impl();
  const TensorImpl* f = from.impl();
  materialize(t);
  flush_pending("a tensor's data was exchanged");
  t->storage = from.storage();
  t->sizes = f->sizes;
  t->strides = f->strides;
  t->offset = f->offset;
  t->numel = f->numel;
  t->dtype = f->dtype;
  t->device = f->device;
  t->set(TensorImpl::kContiguous, f->has(TensorImpl::kContiguous));
}

}  // namespace rush
