// arrays.h: GPU memory of libraries that speak the CUDA array interface.
#pragma once

#include "bindings/python.h"
#include "core/tensor.h"

namespace rush::py {

bool has_cuda_array(PyObject* o);
// A tensor over the object's memory, which it keeps alive.
Tensor tensor_from_cuda_array(PyObject* o);
bool init_cuda_arrays();

}  // namespace rush::py
