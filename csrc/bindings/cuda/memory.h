// memory.h: parts of rushlight._C._cuda.
#pragma once

#include <nanobind/nanobind.h>

namespace rush::py {

void add_cuda_memory(nanobind::module_& m);
void add_cuda_ipc(nanobind::module_& m);
void add_cuda_kernels(nanobind::module_& m);

}  // namespace rush::py
