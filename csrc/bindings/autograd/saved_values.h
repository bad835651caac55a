// saved_values.h: what nodes have saved, as Python sees it: grad_fn._saved_self, and the
// SavedTensor objects behind grad_fn._raw_saved_self.
#pragma once

#include "autograd/saved_tensor.h"
#include "bindings/autograd/node_object.h"

namespace rush::py {

// saved_tensor_hooks.cpp. `args` are pack_hook and unpack_hook.
Ref<SavedTensorHooks> hooks_from_python(const char* function, PyObject* const* args, Py_ssize_t n);
PyObject* packed_object(const PackedTensor& packed);   // what pack_hook returned; borrowed
PyObject* unpack_hook_of(const PackedTensor& packed);  // borrowed

// grad_fn._saved_<name> and grad_fn._raw_saved_<name>. Null without an exception: the node has
// nothing of that name.
PyObject* saved_attribute(const Ref<Node>& node, std::string_view attribute);
// A list of all such names.
PyObject* saved_attributes(const Ref<Node>& node);
// A SavedTensor for each tensor that a custom Function saved.
PyObject* raw_saved_tensors(const Ref<Node>& node, size_t count);

}  // namespace rush::py
