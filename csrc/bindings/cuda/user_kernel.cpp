// user_kernel.cpp: kernels of programs, for rushlight/cuda/_kernels.py.
#include "cuda/runtime/user_kernel.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/cuda/memory.h"
#include "bindings/handle.h"
#include "bindings/python.h"
#include "jit/recorder.h"

namespace rush::py {
namespace {

namespace nb = nanobind;
using namespace rush::cuda;

// A list of ints, or None.
nb::object parameter_bytes(UserKernel& kernel, int device) {
  const auto found = kernel.parameter_bytes(device);
  if (!found) return nb::none();
  nb::list sizes;
  for (const size_t size : *found) sizes.append(size);
  return sizes;
}

void launch(UserKernel& kernel, std::pair<int, int64_t> stream, const std::vector<unsigned>& grid,
            const std::vector<unsigned>& block, nb::list params, unsigned shared) {
  jit::end_recording("a kernel of the program's own");
  std::vector<std::string> bytes;
  for (const nb::handle param : params) {
    const auto b = nb::cast<nb::bytes>(param);
    bytes.emplace_back(b.c_str(), b.size());
  }
  const ReleaseGil released;
  kernel.launch(stream_by_id(stream.first, stream.second), {grid.at(0), grid.at(1), grid.at(2)},
                {block.at(0), block.at(1), block.at(2)}, bytes, shared);
}

}  // namespace

void add_cuda_kernels(nb::module_& m) {
  nb::class_<UserKernel>(m, "UserKernel")
      .def("__init__",
           [](UserKernel* at, const std::string& source, const std::string& name,
              const std::string& architecture, const std::vector<std::string>& options) {
             const ReleaseGil released;
             new (at) UserKernel(source, name, architecture, options);
           })
      .def("parameter_bytes", parameter_bytes)
      .def("launch", launch);
}

}  // namespace rush::py
