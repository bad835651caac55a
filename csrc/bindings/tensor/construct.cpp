// construct.cpp: tensor(), as_tensor(), asarray(), the legacy Tensor(...) and tolist().
#include "bindings/cuda/arrays.h"
#include "bindings/tensor/literal.h"

#include <cstring>

#include "autograd/meta.h"
#include "core/interrupt.h"
#include "core/value_read.h"
#include "functors/stored.h"
#include "jit/recorder.h"
#include "ops/framework/fits.h"
#include "ops/gradients_ops.h"
#include "ops/ops.h"

namespace rush::py {
namespace {

// The tensor itself where dtype and device are already as wanted. Another device is the business of
// Python's `to`.
Tensor converted(const Tensor& t, std::optional<DType> dtype, std::optional<Device> device) {
  const Tensor out = dtype && *dtype != t.dtype() ? rush::cast(t, *dtype) : t;
  if (!device || *device == t.device()) return out;
  const Handle o = Handle::steal(wrap(out));
  const Handle place = Handle::steal(wrap(*device));
  return unwrap(Handle::steal(PyObject_CallMethod(o.get(), "to", "O", place.get())).get());
}

// A copy with memory of its own, outside the graph.
Tensor copied(const Tensor& source, DType dtype, Device device) {
  const NoGradGuard no_grad;
  const Tensor out = make_tensor(source.sizes(), dtype, device);
  if (!device.is_meta()) rush::copy_(out, source);
  return out;
}

Tensor from_literal(const char* function, PyObject* data, std::optional<DType> dtype,
                    Device device) {
  const Literal literal = inspect_literal(function, data);
  const DType t = dtype.value_or(literal.dtype);
  if (device.is_meta()) return make_tensor(literal.sizes, t, device);
  Tensor out = make_tensor(literal.sizes, t);
  fill_literal(function, data, out);
  if (!device.is_cpu()) {
    const ModeGuard unseen(kObserve, false);
    out = copied(out, t, device);
  }
  jit::note_made(out);
  return out;
}

// Python's own containers and numbers: nobody need ask them for memory.
bool is_plain(PyObject* o) {
  return PyList_CheckExact(o) || PyTuple_CheckExact(o) || PyFloat_CheckExact(o) ||
         PyLong_CheckExact(o) || PyBool_Check(o);
}

// Fresh memory whatever the data is.
Tensor fresh_tensor(const char* function, PyObject* data, std::optional<DType> dtype,
                    std::optional<Device> device) {
  if (is_tensor(data)) {
    const Tensor& t = unwrap(data);
    return copied(t, dtype.value_or(t.dtype()), device.value_or(t.device()));
  }
  if (is_storage(data)) return converted(tensor_over_storage(function, data, dtype), {}, device);
  const Device place = device.value_or(default_device());
  if (!is_plain(data)) {
    if (has_cuda_array(data)) {
      const Tensor t = tensor_from_cuda_array(data);
      return copied(t, dtype.value_or(t.dtype()), device.value_or(t.device()));
    }
    if (const Handle array = array_of(data)) {
      const Tensor t = tensor_from_array(array.get(), false);
      return copied(t, dtype.value_or(t.dtype()), place);
    }
  }
  check(!PyUnicode_Check(data) && !PyBytes_Check(data), ErrorKind::Type, function,
        "invalid data type '", type_name(data), "': tensors hold numbers");
  return from_literal(function, data, dtype, place);
}

PyObject* finish(const Tensor& t, bool requires_grad) {
  if (requires_grad) jit::recorder_here() ? void(_want_grad(t, true)) : set_requires_grad(t, true);
  return wrap(t);
}

PyObject* tensor(PyObject*, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&] {
    static constexpr const char* names[] = {"data", "dtype", "device", "requires_grad",
                                            "pin_memory"};
    PyObject* a[5];
    parse_arguments({"tensor", names, 1, 1}, args, n, kwnames, a);
    if (is_tensor(a[0])) {
      check_status(PyErr_WarnEx(
          PyExc_UserWarning,
          "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() "
          "or sourceTensor.detach().clone().requires_grad_(True), rather than "
          "rushlight.tensor(sourceTensor).",
          1));
    }
    const Tensor out = fresh_tensor("tensor", a[0], dtype_argument("tensor", a[1]),
                                    device_argument("tensor", a[2]));
    return finish(out, bool_argument("tensor", "requires_grad", a[3], false));
  });
}

// The data's own memory where it has some, else a fresh tensor.
Tensor shared_tensor(const char* function, PyObject* data, std::optional<DType> dtype,
                     std::optional<Device> device) {
  if (is_tensor(data)) return converted(unwrap(data), dtype, device);
  if (!is_numpy_array(data)) {
    if (!is_plain(data) && has_cuda_array(data))
      return converted(tensor_from_cuda_array(data), dtype, device);
    return fresh_tensor(function, data, dtype, device);
  }
  return converted(tensor_from_array(data, true), dtype, device.value_or(default_device()));
}

PyObject* as_tensor(PyObject*, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&] {
    static constexpr const char* names[] = {"data", "dtype", "device"};
    PyObject* a[3];
    parse_arguments({"as_tensor", names, 3, 1}, args, n, kwnames, a);
    return wrap(shared_tensor("as_tensor", a[0], dtype_argument("as_tensor", a[1]),
                              device_argument("as_tensor", a[2])));
  });
}

// A tensor over the memory of `o`, whichever protocol it speaks; undefined where it has none.
Tensor over_memory(PyObject* o, std::optional<DType> dtype) {
  if (is_tensor(o)) return unwrap(o);
  if (is_numpy_array(o)) return tensor_from_array(o, true);
  if (is_storage(o)) return tensor_over_storage("asarray", o, dtype);
  if (optional_attribute(o, "__dlpack__")) {
    return tensor_from_dlpack(o, std::nullopt, std::nullopt);
  }
  if (!is_plain(o) && has_cuda_array(o)) return tensor_from_cuda_array(o);
  if (PyObject_CheckBuffer(o) && !PyUnicode_Check(o) && !is_numpy_scalar(o)) {
    return tensor_over_buffer("asarray", o, dtype.value_or(default_dtype()), -1, 0);
  }
  return {};
}

PyObject* asarray(PyObject*, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&] {
    static constexpr const char* names[] = {"obj", "dtype", "device", "copy", "requires_grad"};
    PyObject* a[5];
    parse_arguments({"asarray", names, 1, 1}, args, n, kwnames, a);
    const auto dtype = dtype_argument("asarray", a[1]);
    const auto device = device_argument("asarray", a[2]);
    const bool must_copy = bool_argument("asarray", "copy", a[3], false);
    const bool may_copy = !given(a[3]) || must_copy;
    Tensor source = over_memory(a[0], dtype);
    if (!source.defined()) {
      check(may_copy, ErrorKind::Value, "asarray", "can't alias a ", type_name(a[0]),
            ": it has no memory to share; leave copy out");
      source = fresh_tensor("asarray", a[0], dtype, device);
      return finish(source, bool_argument("asarray", "requires_grad", a[4], false));
    }
    Tensor out = converted(source, dtype, device);
    const bool aliases = out.storage() == source.storage();
    check(aliases || may_copy, ErrorKind::Value, "asarray",
          "can't alias the data: another dtype or device needs a copy, and copy is False");
    if (must_copy && aliases) out = copied(out, out.dtype(), out.device());
    const bool wants_grad = bool_argument("asarray", "requires_grad", a[4], false);
    if (wants_grad && !is_leaf(out)) out = detach(out);
    return finish(out, wants_grad);
  });
}

bool all_ints(PyObject* args, Dims& sizes) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
    int64_t v = 0;
    if (!int_from_python(PyTuple_GET_ITEM(args, i), v)) return false;
    sizes.push_back(v);
  }
  return true;
}

// Tensor(), Tensor(2, 3), Tensor(size), Tensor(tensor), Tensor(data). A tensor that is given keeps
// its dtype where `any_dtype` says so.
Tensor legacy(const char* function, DType dtype, PyObject* args, Device device,
              bool any_dtype = false) {
  const Py_ssize_t n = PyTuple_GET_SIZE(args);
  if (n == 0) return make_tensor(Dims{0}, dtype, device);
  PyObject* first = PyTuple_GET_ITEM(args, 0);
  Dims sizes;
  if (n == 1 && is_tensor(first)) {
    const Tensor& t = unwrap(first);
    check_dtype(any_dtype || t.dtype() == dtype, function, "expected a tensor of dtype ", dtype,
                ", got ", t.dtype());
    return t.alias();
  }
  if (n == 1 && is_size(first)) {
    all_ints(first, sizes);
  } else if (!all_ints(args, sizes)) {
    check(n == 1 && PySequence_Check(first), ErrorKind::Type, function,
          "takes sizes as ints, or one sequence of data; got ", type_name(first));
    return fresh_tensor(function, first, dtype, device);
  }
  return make_tensor(sizes, dtype, device);
}

PyObject* legacy_tensor(PyObject*, PyObject* args) {
  return guarded([&] {
    PyObject *dtype, *rest, *device, *function;
    if (!PyArg_ParseTuple(args, "UOO!O", &function, &dtype, &PyTuple_Type, &rest, &device)) {
      throw PythonError{};
    }
    const char* name = text_of(function).data();
    return wrap(legacy(name, dtype_argument(name, dtype, default_dtype()), rest,
                       device_argument(name, device).value_or(default_device())));
  });
}

PyObject* scalar_tensor_(PyObject*, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&] {
    static constexpr const char* names[] = {"s",      "dtype",      "layout",
                                            "device", "pin_memory", "requires_grad"};
    PyObject* a[6];
    parse_arguments({"scalar_tensor", names, 1, 1}, args, n, kwnames, a);
    Scalar s;
    check(scalar_from_python(a[0], s), ErrorKind::Type, "scalar_tensor", "expected a number, got ",
          type_name(a[0]));
    const DType natural = s.is_complex() ? to_complex(default_dtype()) : default_dtype();
    const DType t = dtype_argument("scalar_tensor", a[1], natural);
    check_fill("scalar_tensor", t, s);
    const Device device = device_argument("scalar_tensor", a[3]).value_or(default_device());
    const Tensor out = scalar_tensor(s, t, device);
    jit::note_made(out);
    return finish(out, bool_argument("scalar_tensor", "requires_grad", a[5], false));
  });
}

PyObject* tolist(PyObject* self, PyObject*) {
  return guarded([&] {
    note_value_read(unwrap(self), "a list");
    return tensor_to_list(unwrap(self));
  });
}

PyMethodDef functions[] = {
    {"tensor", as_method(tensor), kFastcall,
     "tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False)\n--\n\n"
     "A new tensor with a copy of the data: numbers, nested sequences, arrays.\n"
     "\n"
     "The dtype follows from the data: bool, int64, the default dtype for floats, or that\n"
     "of an array. `as_tensor` and `from_numpy` share memory instead.\n"
     "\n"
     "Arguments:\n"
     "    data: a number, nested lists or tuples, an array, or a tensor (then `clone` says\n"
     "        it better).\n"
     "    dtype: dtype of the result; None takes that of the data.\n"
     "    device: where it lies; None is the default device, or that of a tensor.\n"
     "    requires_grad: record what is done with it for backward.\n"
     "    pin_memory: put it into page-locked memory.\n"
     "\n"
     "Example:\n"
     "    >>> rl.tensor([[1, 2], [3, 4]], dtype=rl.float32)\n"
     "    tensor([[1., 2.],\n"
     "            [3., 4.]])\n"
     "    >>> rl.tensor([1, 2.5]).dtype, rl.tensor(3).shape\n"
     "    (rushlight.float32, rushlight.Size([]))"},
    {"as_tensor", as_method(as_tensor), kFastcall,
     "as_tensor(data, dtype=None, device=None)\n--\n\n"
     "The data as a tensor, over the same memory where possible.\n"
     "\n"
     "Arguments:\n"
     "    data: a number, nested lists, an array or a tensor.\n"
     "    dtype: dtype of the result; another one than the data's makes a copy.\n"
     "    device: where it lies; another device makes a copy.\n"
     "\n"
     "Example:\n"
     "    >>> x = rl.tensor([1, 2])\n"
     "    >>> rl.as_tensor(x) is x, rl.as_tensor([1, 2], dtype=rl.float64)\n"
     "    (True, tensor([1., 2.], dtype=rushlight.float64))"},
    {"asarray", as_method(asarray), kFastcall,
     "asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False)\n--\n\n"
     "A tensor from tensors, arrays, DLPack objects, buffers, numbers and sequences.\n"
     "\n"
     "Arguments:\n"
     "    obj: a tensor, an array, an object with a buffer or with DLPack, or nested\n"
     "        lists.\n"
     "    dtype: dtype of the result; None takes that of the data.\n"
     "    device: where it lies.\n"
     "    copy: True always copies, False never (and raises where it must); None copies\n"
     "        where needed.\n"
     "    requires_grad: record what is done with it for backward.\n"
     "\n"
     "Example:\n"
     "    >>> import numpy as np\n"
     "    >>> array = np.zeros(2)\n"
     "    >>> rl.asarray(array, copy=True)\n"
     "    tensor([0., 0.], dtype=rushlight.float64)"},
    {"scalar_tensor", as_method(scalar_tensor_), kFastcall,
     "scalar_tensor(s, *, dtype=None, layout=None, device=None, pin_memory=None, "
     "requires_grad=False)\n--\n\n"
     "A number as a tensor of no dims.\n"
     "\n"
     "Arguments:\n"
     "    s: the number.\n"
     "    dtype: dtype of the result; None is the default dtype, for integers too.\n"
     "    layout, device, pin_memory, requires_grad: as for empty.\n"
     "\n"
     "Example:\n"
     "    >>> rl.scalar_tensor(2), rl.scalar_tensor(2, dtype=rl.int32)\n"
     "    (tensor(2.), tensor(2, dtype=rushlight.int32))"},
    {"_legacy_tensor", legacy_tensor, METH_VARARGS, nullptr},
    {},
};
PyMethodDef methods[] = {
    {"tolist", tolist, METH_NOARGS,
     "tolist($self, /)\n--\n\n"
     "The values as nested lists.\n"
     "\n"
     "Example:\n"
     "    >>> rl.tensor([[1, 2], [3, 4]]).tolist(), rl.tensor(5).tolist()\n"
     "    ([[1, 2], [3, 4]], 5)"},
    {},
};

template <class T>
PyObject* number_to_python(T v) {
  if constexpr (std::is_same_v<T, bool>)
    return PyBool_FromLong(v);
  else if constexpr (std::is_same_v<T, uint64_t>)
    return PyLong_FromUnsignedLongLong(v);
  else if constexpr (std::is_integral_v<T>)
    return PyLong_FromLongLong(v);
  else if constexpr (is_complex(dtype_of<T>))
    return PyComplex_FromDoubles(double(v.re), double(v.im));
  else
    return PyFloat_FromDouble(double(opmath<T>(v)));
}

template <class T>
Handle list_of(const Tensor& t, const char* at, int64_t dim, InterruptCounter& interrupts) {
  if (dim == t.dim()) {
    stored<T> there;
    std::memcpy(&there, at, sizeof there);  // see Note [Misaligned memory]
    return Handle::steal(number_to_python(T(there)));
  }
  const int64_t n = t.sizes()[dim], step = t.strides()[dim] * int64_t(sizeof(T));
  Handle out = Handle::steal(PyList_New(n));
  for (int64_t i = 0; i < n; ++i) {
    interrupts.add();
    PyList_SET_ITEM(out.get(), i, list_of<T>(t, at + i * step, dim + 1, interrupts).release());
  }
  return out;
}

}  // namespace

Tensor tensor_from_python(PyObject* data, std::optional<DType> dtype, Device device) {
  return fresh_tensor("tensor", data, dtype, device);
}

Tensor legacy_from_python(PyObject* args, PyObject* kwargs) {
  PyObject* device = kwargs ? PyDict_GetItemString(kwargs, "device") : nullptr;
  check(!kwargs || PyDict_GET_SIZE(kwargs) == (device ? 1 : 0), ErrorKind::Type, "Tensor",
        "takes no keyword but device; use rushlight.tensor(data, dtype=..., device=...)");
  return legacy("Tensor", default_dtype(), args,
                device_argument("Tensor", device).value_or(default_device()), true);
}

PyObject* tensor_to_list(const Tensor& t) {
  check_not_batched("tolist", t);
  check(!t.is_meta(), ErrorKind::NotImplemented, "tolist",
        "a tensor on the meta device has no values");
  const Tensor host = converted(t, std::nullopt, Device{});
  return dispatch_storage("tolist", host.dtype(), [&]<typename T>() {
    InterruptCounter interrupts(1 << 16);
    return list_of<T>(host, host.data<const char>(), 0, interrupts).release();
  });
}

bool init_construct(PyObject* module) {
  return PyModule_AddFunctions(module, functions) == 0 && add_methods(TensorType, methods) &&
         init_storage(module);
}

}  // namespace rush::py
