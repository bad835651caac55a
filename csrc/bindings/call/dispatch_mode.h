// dispatch_mode.h: __torch_dispatch__: Python code that takes over ops, of a class (the objects of
// which wrap other tensors) or of a mode.
//
// - A class is asked where Python calls an op with one of its objects, after __torch_function__; no
//   op of the library ever runs on such an object.
// - A mode is an interceptor (ops/framework/registry.h), so it is told of the ops that ops call and
//   of those of backward, too. They are told as `ops.aten.<name>`, which runs the op when called.
#pragma once

#include "bindings/call/parse.h"

namespace rush::py {

// Does this object's class take over the ops that get it?
bool dispatches(PyObject* o);
// `ops.aten.<name>`; a new reference.
PyObject* function_for(const char* op);

bool init_dispatch_modes(PyObject* module);

}  // namespace rush::py
