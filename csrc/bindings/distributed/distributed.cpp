// distributed.cpp: rushlight._C._distributed: stores and process groups. What users call stands in
// rushlight/distributed.
#include "bindings/distributed/distributed.h"

#include "bindings/handle.h"

namespace rush::py {
namespace {

namespace nb = nanobind;
using namespace rush::distributed;

// DistStoreError, DistNetworkError, DistBackendError of rushlight.distributed.
struct Classes {
  PyObject *store = nullptr, *network = nullptr, *backend = nullptr;
};
Classes g_dist_errors;

PyObject* keep(PyObject* o) { return Py_NewRef(o); }

void translate(const std::exception_ptr& p, void*) {
  try {
    std::rethrow_exception(p);
  } catch (const nb::python_error&) {
    throw;
  } catch (const nb::builtin_exception&) {
    throw;
  } catch (...) {
    raise_current();
  }
}

// _load_distributed(store_error, network_error, backend_error): the module, made at the first call.
PyObject* load(PyObject* module, PyObject* args) {
  return guarded([&] {
    if (PyObject* made = PyObject_GetAttrString(module, "_distributed")) return made;
    PyErr_Clear();
    PyObject *store, *network, *backend;
    if (!PyArg_ParseTuple(args, "OOO", &store, &network, &backend)) throw PythonError{};
    g_dist_errors = {keep(store), keep(network), keep(backend)};
    nb::register_exception_translator(translate);
    nb::module_ m = nb::borrow<nb::module_>(module).def_submodule("_distributed");
    add_stores(m);
    add_process_groups(m);
    return m.release().ptr();
  });
}

PyMethodDef functions[] = {
    {"_load_distributed", load, METH_VARARGS, "The module of stores and process groups."},
    {},
};

}  // namespace

bool raise_distributed(const Error& e) {
  PyObject* found = dynamic_cast<const StoreError*>(&e)     ? g_dist_errors.store
                    : dynamic_cast<const NetworkError*>(&e) ? g_dist_errors.network
                    : dynamic_cast<const BackendError*>(&e) ? g_dist_errors.backend
                                                            : nullptr;
  if (found) PyErr_SetString(found, e.what());
  return found != nullptr;
}

Milliseconds as_milliseconds(nb::handle time) {
  double seconds;
  if (nb::hasattr(time, "total_seconds"))
    seconds = nb::cast<double>(time.attr("total_seconds")());
  else if (PyFloat_Check(time.ptr()) || PyLong_Check(time.ptr()))
    seconds = nb::cast<double>(time);
  else
    fail(ErrorKind::Type, "timeout", "must be a timedelta or a number of seconds, got ",
         Py_TYPE(time.ptr())->tp_name);
  check(seconds >= 0, ErrorKind::Value, "timeout", "must not be negative, got ", seconds, " s");
  return Milliseconds(int64_t(std::min(seconds, 1e9) * 1000));
}

bool init_distributed(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace rush::py
