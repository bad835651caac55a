// distributed.h: parts of rushlight._C._distributed, which is made when first asked for.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <optional>

#include "bindings/python.h"
#include "distributed/store.h"

namespace rush::py {

bool init_distributed(PyObject* module);

void add_stores(nanobind::module_& m);
void add_process_groups(nanobind::module_& m);

// A number of seconds or a timedelta.
distributed::Milliseconds as_milliseconds(nanobind::handle time);

}  // namespace rush::py
