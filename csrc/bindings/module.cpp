// module.cpp: the entry point of rushlight._C. One init_<topic>(m) per file of this folder.
#include <nanobind/nanobind.h>

#include "core/version.h"

namespace nb = nanobind;

NB_MODULE(_C, m) {
  m.doc() = "The C++ core of rushlight; use the package's public names instead.";
  m.attr("__version__") = rush::version();
}
