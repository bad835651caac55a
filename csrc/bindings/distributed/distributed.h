// distributed.h: parts of rushlight._C._distributed, which is made when first asked for.
#pragma once

#include <nanobind/nanobind.h>
#include <unistd.h>

#include <chrono>
#include <optional>

#include "bindings/python.h"
#include "distributed/store.h"

namespace rush::py {

bool init_distributed(PyObject* module);

void add_stores(nanobind::module_& m);
void add_process_groups(nanobind::module_& m);

// Owns an object whose threads belong to this process. A forked child has a copy without them, and
// must not wait for them when it ends: it leaves the copy as it is.
template <class T>
std::shared_ptr<T> owned_here(T* object) {
  return std::shared_ptr<T>(object, [process = getpid()](T* o) {
    if (getpid() == process) delete o;
  });
}

// A number of seconds or a timedelta.
distributed::Milliseconds as_milliseconds(nanobind::handle time);

// Sets the Python error of a fault of distribution: also where an op meets it, such as the read of a
// value that a broken collective should have made. False: it is another error.
bool raise_distributed(const Error& e);

}  // namespace rush::py
