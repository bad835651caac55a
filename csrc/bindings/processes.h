// processes.h: the parts of the module that serve rushlight.utils.data and
// rushlight.multiprocessing.
#pragma once

#include "bindings/python.h"

namespace rush::py {

bool init_sample_seeder(PyObject* module);

}  // namespace rush::py
