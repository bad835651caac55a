// tensors.h: how oneDNN's primitives get at memory: descriptions of it, reorders between them, and
// scratch memory that is ours.
#pragma once

#include <algorithm>

#include "core/storage.h"
#include "core/tensor.h"
#include "cpu/nn/weight_layouts.h"
#include "cpu/vendor/onednn/library.h"

namespace rush::onednn {

Handle<dnnl_memory_desc_t> with_strides(IntList sizes, IntList strides, dnnl_data_type_t type);
Handle<dnnl_memory_desc_t> any_layout(IntList sizes, dnnl_data_type_t type);

// Attributes of a primitive that is given its scratchpad.
Handle<dnnl_primitive_attr_t> user_scratchpad();

Handle<dnnl_memory_t> memory(const_dnnl_memory_desc_t desc, const void* data);
inline size_t bytes_of(const_dnnl_memory_desc_t desc) {
  return library()->memory_desc_get_size(desc);
}
inline Ref<Storage> scratch(const_dnnl_memory_desc_t desc) {
  return Storage::allocate({}, std::max<size_t>(bytes_of(desc), 1));
}

// All that tells a layout in blocks from others of its kind; none for layouts of other kinds.
WeightLayout described(const_dnnl_memory_desc_t desc);

// One tensor of a primitive: as the user has it, as the primitive wants it, and the reorder
// between the two, none where they agree.
struct Port {
  Handle<dnnl_memory_desc_t> given;
  const_dnnl_memory_desc_t wanted = nullptr;  // owned by the primitive's descriptor
  Handle<dnnl_primitive_desc_t> reorder_desc;
  Handle<dnnl_primitive_t> reorder;
  const_dnnl_memory_desc_t reorder_scratchpad = nullptr;

  void decide(const_dnnl_memory_desc_t as_wanted, bool written);
  void run_reorder(const void* from, const void* to, bool written) const;
};

// A weight that is only read, in the layout that its port's reorder leads to; null where there is no
// reorder. `at_once`: see weight_in_layout.
Ref<Storage> laid_out(const Port& port, const Tensor& weight, const WeightLayout& layout,
                      bool at_once);

}  // namespace rush::onednn
