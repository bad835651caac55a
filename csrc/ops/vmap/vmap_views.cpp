// The batching rules of views in place: the wrapper gets another geometry.
#include "ops/vmap/vmap_rules.h"

namespace rush::batch {

static void adopt(BatchedCall& c, const Tensor& physical) {
  TensorImpl* self = c.logical(0).impl();
  const Tensor fresh = add_batch(physical, c.level);
  self->physical = physical.ref();
  self->sizes = fresh.impl()->sizes;
  self->strides = fresh.impl()->strides;
  self->offset = fresh.impl()->offset;
  self->set(TensorImpl::kContiguous, fresh.impl()->has(TensorImpl::kContiguous));
}
void transpose_in_place(BatchedCall& c) {
  const int64_t rank = c.logical(0).dim();
  if (rank == 0) return;
  adopt(c, transpose(c.physical(0), wrap_dim("transpose_", c.given(1).integer(), rank) + 1,
                     wrap_dim("transpose_", c.given(2).integer(), rank) + 1));
}
void t_in_place(BatchedCall& c) {
  const int64_t rank = c.logical(0).dim();
  check(rank <= 2, ErrorKind::Runtime, "t_", "expects a tensor of at most 2 dimensions");
  if (rank == 2) adopt(c, transpose(c.physical(0), 1, 2));
}
void squeeze_in_place(BatchedCall& c) {
  Dims ones;
  const int64_t rank = c.logical(0).dim();
  auto add = [&](int64_t d) {
    if (rank > 0 && c.logical(0).sizes()[size_t(d)] == 1) ones.push_back(d + 1);
  };
  if (c.count() > 1) {
    for (const int64_t d : c.given(1).ints()) add(wrap_dim("squeeze_", d, rank));
  } else {
    for (int64_t d = 0; d < rank; ++d) add(d);
  }
  if (!ones.empty()) adopt(c, squeeze(c.physical(0), ones));
}
void unsqueeze_in_place(BatchedCall& c) {
  const int64_t rank = c.logical(0).dim();
  adopt(c, unsqueeze(c.physical(0), wrap_dim("unsqueeze_", c.given(1).integer(), rank + 1) + 1));
}

}  // namespace rush::batch
