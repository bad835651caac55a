// memoryless.h: tensors without memory, as the classes of rushlight/sparse make them.
#pragma once

#include "bindings/python.h"

namespace rush::py {

bool init_memoryless(PyObject* module);

}  // namespace rush::py
