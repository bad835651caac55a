// table.cpp: what the rows of the op table say of their ops, for the package's own use: which
// names are public, and what calls cost.
#include <set>
#include <string_view>

#include "bindings/call/dispatch.h"
#include "bindings/handle.h"
#include "ops/framework/cost.h"

namespace rush::py {
namespace {

// _op_costs(function): calls it; [(op, overload, flops, bytes), ...] of the ops that ran on this
// thread, composites by their parts.
PyObject* op_costs(PyObject*, PyObject* function) {
  return guarded([&] {
    CostRecorder recorder;
    Handle::steal(PyObject_CallNoArgs(function));
    Handle list = Handle::steal(PyList_New(0));
    for (const RecordedCost& r : recorder.recorded()) {
      const Handle item = Handle::steal(Py_BuildValue("(ssLL)", r.entry->name, r.entry->overload,
                                                      static_cast<long long>(r.cost.flops),
                                                      static_cast<long long>(r.cost.bytes)));
      check_status(PyList_Append(list.get(), item.get()));
    }
    return list.release();
  });
}

PyMethodDef functions[] = {
    {"_op_costs", op_costs, METH_O, nullptr},
    {},
};

// What `from rushlight._C import *` takes: all public names but those of ops that stand elsewhere.
bool add_all(PyObject* module) {
  const auto ops = ops_elsewhere();
  const std::set<std::string_view> elsewhere(ops.begin(), ops.end());
  PyObject* names = PyList_New(0);
  if (!names) return false;
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(PyModule_GetDict(module), &at, &key, &value);) {
    const std::string_view name = text_of(key);
    if (name.starts_with('_') || elsewhere.contains(name)) continue;
    if (PyList_Append(names, key) < 0) return false;
  }
  return PyModule_AddObject(module, "__all__", names) == 0;
}

}  // namespace

bool init_table(PyObject* module) {
  return PyModule_AddFunctions(module, functions) == 0 && add_all(module);
}

}  // namespace rush::py
