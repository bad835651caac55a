// processes.h: the parts of the module that serve rushlight.utils.data and
// rushlight.multiprocessing.
#pragma once

#include "bindings/python.h"

namespace rush::py {

bool init_sample_seeder(PyObject* module);
bool init_shared_memory(PyObject* module);
bool init_packed_bytes(PyObject* module);
bool init_borrowed_values(PyObject* module);

// UntypedStorage objects, for files other than their own.
bool is_storage(PyObject* o);
const Ref<Storage>& storage_from_python(PyObject* o);
PyObject* wrap(Ref<Storage> storage);

}  // namespace rush::py
