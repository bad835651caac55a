// module.cpp: the entry point of rushlight._C. One init_<topic>(m) per file of this folder.
#include <nanobind/nanobind.h>

#include "bindings/autograd/training.h"
#include "bindings/call/dispatch.h"
#include "bindings/data/processes.h"
#include "bindings/distributed/distributed.h"
#include "bindings/memoryless.h"
#include "bindings/module_slots.h"
#include "bindings/python.h"
#include "core/version.h"

namespace nb = nanobind;

NB_MODULE(_C, m) {
  using namespace rush::py;
  // A program's globals may hold a group beyond the end of the interpreter, in a cycle through hooks
  // that Python does not collect any more; that ends with the process, and is no news to its user.
  nanobind::set_leak_warnings(false);
  m.doc() = "The C++ core of rushlight; use the package's public names instead.";
  m.attr("__version__") = rush::version();
  // Errors first, as everything else may raise; then what tensors refer to.
  constexpr bool (*inits[])(PyObject*) = {
      init_errors,         init_objects,       init_tensor,
      init_construct,      init_numpy,         init_dlpack,
      init_autograd,       init_transforms,    init_optimizer,
      init_autocast,       init_config,        init_source,
      init_profiler,       init_deferred,      init_sample_seeder,
      init_shared_memory,  init_packed_bytes,  init_borrowed_values,
      init_cuda,           init_interrupt,     init_jit,
      init_frozen,         init_distributed,   init_custom_ops,
      init_dispatch_modes, init_extension_api, init_module_slots,
      init_memoryless,     init_table};  // the table last: it lists the names
  for (const auto init : inits) {
    if (!init(m.ptr())) throw nb::python_error();
  }
}
