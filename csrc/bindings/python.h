// python.h: what the binding files offer each other. The only folder that includes Python.h.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include "ops/framework/registry.h"

namespace rush::py {

// Tensors (tensor_object.cpp). `wrap` gives the one Python object of a tensor; None for an
// undefined one.
extern PyTypeObject* TensorType;
PyObject* wrap(const Tensor& t);
PyObject* wrap(Tensor&& t);
inline bool is_tensor(PyObject* o);        // an instance of Tensor or of a subclass
inline const Tensor& unwrap(PyObject* o);  // borrowed; only after is_tensor (tensor_object.h)
// A new wrapper of a given subclass (Parameter, as_subclass).
PyObject* wrap_as(PyTypeObject* type, const Tensor& t);

// Small objects (objects.cpp): dtype, device, layout, memory_format, Size, Generator.
PyObject* wrap(DType t);
PyObject* wrap(Device d);
PyObject* wrap(Layout l);
PyObject* wrap(MemoryFormat f);
PyObject* wrap_size(IntList sizes);  // rushlight.Size, a tuple subclass
PyObject* wrap(const Scalar& s);
bool is_size(PyObject* o);
bool is_dtype(PyObject* o);   // also Python's float, int, bool, complex
DType as_dtype(PyObject* o);  // after is_dtype
bool is_device(PyObject* o);
Device as_device(PyObject* o);
bool is_layout(PyObject* o);
bool is_memory_format(PyObject* o);
MemoryFormat as_memory_format(PyObject* o);
bool is_generator(PyObject* o);
Generator* as_generator(PyObject* o);
// Reads what users pass for a device: a device, a string, an int (CUDA index). Throws Error.
bool device_from_python(PyObject* o, Device& out);

// Numbers (numbers.cpp): Python and NumPy scalars, without importing NumPy. False: not a number (no
// exception set).
bool scalar_from_python(
    PyObject* o, Scalar& out);  // bool, int, float, complex, anything with __index__/__float__
bool int_from_python(PyObject* o, int64_t& out);  // int, __index__, a 0-d integer tensor

// Thrown by binding code when the Python exception is already set; raise_current leaves it as it
// is.
struct PythonError {};
// Errors (errors.cpp): turns the C++ exception in flight into a Python one; always returns null.
PyObject* raise_current() noexcept;

// Calls f and turns exceptions into Python ones.
template <class F>
PyObject* guarded(F&& f) noexcept {
  try {
    return f();
  } catch (...) {
    return raise_current();
  }
}

// Raises for a tensor that stands for many samples (vmap) where its values are asked for.
void check_not_batched(const char* function, const Tensor& t);

// The call path (dispatch.cpp): parses arguments for the overloads of one op and calls the one that
// fits.
PyObject* call_op(std::span<const OpEntry> overloads, PyObject* self, PyObject* const* args,
                  Py_ssize_t nargs, PyObject* kwnames) noexcept;

// Tensor(python data) (construct.cpp): nested sequences, numbers, arrays.
Tensor tensor_from_python(PyObject* data, std::optional<DType> dtype, Device device);
// The legacy Tensor(...): sizes, data or nothing. For the type's tp_new.
Tensor legacy_from_python(PyObject* args, PyObject* kwargs);
// Indexing (indexing.cpp).
PyObject* tensor_getitem(PyObject* self, PyObject* index) noexcept;
int tensor_setitem(PyObject* self, PyObject* index, PyObject* value) noexcept;

// Each file adds its types and functions to the module.
bool init_errors(PyObject* module);
bool init_objects(PyObject* module);
bool init_tensor(PyObject* module);
bool init_construct(PyObject* module);
bool init_numpy(PyObject* module);
bool init_dlpack(PyObject* module);
bool init_autograd(PyObject* module);
bool init_transforms(PyObject* module);
bool init_hooks(PyObject* module);
bool init_nodes(PyObject* module);
bool init_functions(PyObject* module);
bool init_saved_tensor_hooks(PyObject* module);
bool init_saved_values(PyObject* module);
bool init_anomaly(PyObject* module);
bool init_write_observer(PyObject* module);
bool init_graph(PyObject* module);
bool init_config(PyObject* module);
bool init_interrupt(PyObject* module);
bool init_source(PyObject* module);
bool init_profiler(PyObject* module);
bool init_deferred(PyObject* module);
bool init_jit(PyObject* module);
bool init_frozen(PyObject* module);
bool init_cuda(PyObject* module);
bool init_table(PyObject* module);

}  // namespace rush::py

#include "bindings/tensor/tensor_object.h"
