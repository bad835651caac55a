// printed_package.h: the package that reprs name, as in "rushlight.float32". Programs written for
// PyTorch that run through rushlight.as_torch read "torch" there, since they parse such texts.
#pragma once

#include "bindings/python.h"

namespace rush::py {

const char* printed_package();
// dtypes that have a name (float4_e2m1fn_x2) and no tensors.
bool is_unsupported_dtype(PyObject* o);

}  // namespace rush::py
