// training.h: the parts of the module that serve rushlight.optim and rushlight.amp.
#pragma once

#include "bindings/python.h"

namespace rush::py {

bool init_optimizer(PyObject* module);
bool init_autocast(PyObject* module);

}  // namespace rush::py
