// module_slots.h: attributes and calls of nn.Module, as slots of its types.
#pragma once

#include "bindings/python.h"

namespace rush::py {

bool init_module_slots(PyObject* module);

}  // namespace rush::py
