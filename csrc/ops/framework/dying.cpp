#include "ops/framework/dying.h"

#include "autograd/meta.h"
#include "autograd/running_task.h"
#include "core/layout.h"
#include "core/modes.h"
#include "device/runtime.h"

namespace rush {

bool may_overwrite_saved(const Tensor& x) {
  const RunningTask* pass = RunningTask::current();
  if (!pass || pass->keeps_graph() || grad_enabled()) return false;
  if (t_modes & (kIntercept | kForward) || x.is_batched()) return false;
  // What hooks unpacked has an object in Python. Two references: the node's, and the formula's.
  const TensorImpl* impl = x.impl();
  if (is_arranged(x) || impl->py_object || impl->use_count() != 2) return false;
  const Storage& storage = *x.storage();
  if (storage.use_count() != 1 || storage.read_only() || storage.may_change_unseen()) return false;
  if (!is_dense(x.sizes(), x.strides())) return false;
  const auto is_recorded = device_runtime(x).is_recorded;
  return !is_recorded || !is_recorded(storage);
}

Tensor in_memory_of(const Tensor& x) {
  return make_tensor(x.storage(), x.sizes(), x.strides(), x.offset(), x.dtype());
}

}  // namespace rush
