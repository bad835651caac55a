// nvtx.h: the functions that cuda.nvtx and emit_nvtx call.
#pragma once

#include "bindings/python.h"

namespace rush::py {

bool init_nvtx(PyObject* module);

}  // namespace rush::py
