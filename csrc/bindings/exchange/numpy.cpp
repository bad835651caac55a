// numpy.cpp: tensors and NumPy arrays over the same memory.
//
// - Nothing here is compiled against NumPy: one binary serves 1.26 and 2.x. Arrays are read through
//   the buffer protocol and made by calling numpy.ndarray. NumPy is imported when first needed.
// - Either side may die first. A tensor over an array holds the array's buffer; an array over a
//   tensor has a Memory object as its base, which holds the tensor.
#include "bindings/tensor/literal.h"
#include "core/value_read.h"
#include "ops/ops.h"

#include "autograd/meta.h"
#include "jit/recorder.h"

namespace rush::py {
namespace {

struct NumPy {
  Handle module;
  Handle ndarray, generic;
  Handle dtypes[kDTypeCount];
};
NumPy* g_numpy;  // lives as long as the process

void read_module(PyObject* module) {
  const Handle ndarray = optional_attribute(module, "ndarray");
  const Handle generic = optional_attribute(module, "generic");
  if (!ndarray || !generic) return;  // its import is still under way
  g_numpy = new NumPy{Handle::borrow(module), ndarray, generic, {}};
}

// NumPy if somebody has imported it, else null.
NumPy* loaded_numpy() {
  if (g_numpy) return g_numpy;
  static PyObject* name = PyUnicode_InternFromString("numpy");
  const Handle module = Handle::maybe(PyImport_GetModule(name));
  if (module) read_module(module.get());
  if (PyErr_Occurred()) throw PythonError{};
  return g_numpy;
}

// The import has failed: a sentence of ours where there is no NumPy, else Python's own error.
[[noreturn]] void explain_missing_numpy() {
  if (PyErr_ExceptionMatches(PyExc_ModuleNotFoundError))
    PyErr_SetString(PyExc_ModuleNotFoundError,
                    "numpy: NumPy is not installed, and Rushlight works without it: pip install "
                    "numpy, or take the numbers by tolist()");
  throw PythonError{};
}

NumPy& required_numpy() {
  if (!loaded_numpy()) {
    const Handle module = Handle::maybe(PyImport_ImportModule("numpy"));
    if (!module) explain_missing_numpy();
    read_module(module.get());
    check(g_numpy, ErrorKind::Runtime, "numpy", "NumPy is not fully imported yet");
  }
  return *g_numpy;
}

bool is_instance(PyObject* o, const Handle& type) {
  return PyObject_TypeCheck(o, reinterpret_cast<PyTypeObject*>(type.get()));
}

// Types that NumPy has from the package ml_dtypes, under the same names.
bool is_of_ml_dtypes(DType t) { return t == DType::BFloat16 || is_float8(t); }

PyObject* numpy_dtype(DType t) {
  NumPy& np = required_numpy();
  Handle& slot = np.dtypes[int(t)];
  if (slot) return slot.get();
  check(t != DType::Complex32, ErrorKind::Type, "numpy",
        "NumPy has no complex32: convert with .cfloat() first");
  Handle source;
  if (is_of_ml_dtypes(t)) {
    const Handle extra = Handle::maybe(PyImport_ImportModule("ml_dtypes"));
    if (!extra) {
      PyErr_Clear();
      fail(ErrorKind::Type, "numpy", "NumPy has no ", t,
           " of its own: install ml_dtypes, or convert with .float() first");
    }
    source = Handle::steal(PyObject_GetAttrString(extra.get(), name(t).data()));
  } else {
    source = Handle::steal(PyUnicode_FromString(name(t).data()));
  }
  slot = Handle::steal(PyObject_CallMethod(np.module.get(), "dtype", "O", source.get()));
  return slot.get();
}

bool is_native(PyObject* dtype) {
  const Handle native = optional_attribute(dtype, "isnative");
  return !native || native.get() == Py_True;
}

// The buffer of an array, released when the last tensor over it goes, on whatever thread.
void release_buffer(void* context) noexcept {
  auto* view = static_cast<Py_buffer*>(context);
  with_gil([&] { PyBuffer_Release(view); });
  delete view;
}

constexpr const char* kNegativeStride =
    "at least one stride in the given numpy array is negative, and tensors with negative strides "
    "are not supported. (You can probably work around this by making a copy of your array with "
    "array.copy().)";
constexpr const char* kReadOnly =
    "The given NumPy array is not writable, and the tensor over its memory does not know that. "
    "Writing to the tensor is undefined behaviour: copy the array first to protect its data, or "
    "make it writable.";

Tensor tensor_from_buffer(PyObject* array, DType t, bool warn) {
  auto held = std::make_unique<Py_buffer>();
  check_status(PyObject_GetBuffer(array, held.get(), PyBUF_STRIDES));
  struct Guard {
    Py_buffer* view;
    ~Guard() {
      if (view) PyBuffer_Release(view);
    }
  } guard{held.get()};
  const Py_buffer& view = *held;
  const int64_t item = element_size(t);
  check_shape(view.ndim <= kMaxDims, "from_numpy", "the array has ", view.ndim,
              " dimensions, tensors have at most ", kMaxDims);

  Dims sizes, strides;
  int64_t last = 0;
  bool empty = false;
  for (int i = 0; i < view.ndim; ++i) {
    check(view.strides[i] >= 0, ErrorKind::Value, "from_numpy", kNegativeStride);
    check(view.strides[i] % item == 0, ErrorKind::Value, "from_numpy", "stride ", view.strides[i],
          " is not a multiple of the element size ", item, ": copy the array first");
    sizes.push_back(view.shape[i]);
    strides.push_back(view.strides[i] / item);
    last += (view.shape[i] - 1) * view.strides[i];
    empty = empty || view.shape[i] == 0;
  }
  if (view.readonly && warn) check_status(PyErr_WarnEx(PyExc_UserWarning, kReadOnly, 1));
  const size_t bytes = empty ? 0 : size_t(last + item);
  auto storage = Storage::wrap(view.buf, bytes, Device{}, release_buffer, held.release());
  guard.view = nullptr;  // the storage's business from here on
  return make_tensor(std::move(storage), sizes, strides, 0, t);
}

// The base of arrays over a tensor: exports the bytes that the tensor reaches.
struct Memory {
  PyObject_HEAD Tensor tensor;
};
PyTypeObject* MemoryType;

int memory_getbuffer(PyObject* self, Py_buffer* view, int flags) {
  const Tensor& t = reinterpret_cast<Memory*>(self)->tensor;
  int64_t last = 0;
  for (int64_t i = 0; i < t.dim(); ++i) last += (t.sizes()[i] - 1) * t.strides()[i];
  const int64_t bytes = t.numel() == 0 ? 0 : (last + 1) * t.element_size();
  jit::end_recording("a tensor's memory in other hands");
  t.storage()->expose();
  return PyBuffer_FillInfo(view, self, t.data(), bytes, t.storage()->read_only(), flags);
}

void memory_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  std::destroy_at(&reinterpret_cast<Memory*>(self)->tensor);
  type->tp_free(self);
  Py_DECREF(type);
}

PyType_Slot memory_slots[] = {
    {Py_tp_doc, const_cast<char*>("A tensor's memory, as the base of a NumPy array.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(memory_dealloc)},
    {Py_bf_getbuffer, reinterpret_cast<void*>(memory_getbuffer)},
    {},
};
PyType_Spec memory_spec = {"rushlight._C._Memory", sizeof(Memory), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, memory_slots};

Handle tuple_of(IntList values, int64_t scale) {
  Handle out = Handle::steal(PyTuple_New(Py_ssize_t(values.size())));
  for (size_t i = 0; i < values.size(); ++i) {
    const Handle item = Handle::steal(PyLong_FromLongLong(values[i] * scale));
    PyTuple_SET_ITEM(out.get(), Py_ssize_t(i), Py_NewRef(item.get()));
  }
  return out;
}

// The tensor that an array may share memory with, or an error that says why there is none.
Tensor exportable(const Tensor& t, bool force) {
  check_not_batched("numpy", t);
  note_value_read(t, "a NumPy array");
  if (force) {
    if (t.is_cpu()) return rush::detached(t);
    const Handle plain = Handle::steal(wrap(rush::detached(t)));
    return unwrap(Handle::steal(PyObject_CallMethod(plain.get(), "cpu", nullptr)).get());
  }
  check(!grad_enabled() || !rush::requires_grad(t), ErrorKind::Runtime, "numpy",
        "can't call numpy() on a tensor that requires grad: use tensor.detach().numpy()");
  check(t.is_cpu(), ErrorKind::Type, "numpy", "can't convert a tensor on ", t.device(),
        " to numpy: use tensor.cpu() to copy it to host memory first");
  return t;
}

PyObject* numpy_method(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&] {
    static constexpr const char* names[] = {"force"};
    PyObject* force;
    parse_arguments({"numpy", names, 0, 0}, args, n, kwnames, &force);
    return array_from_tensor(
        exportable(unwrap(self), bool_argument("numpy", "force", force, false)));
  });
}

PyObject* array_method(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    static constexpr const char* names[] = {"dtype", "copy"};
    PyObject* given_args[2];
    parse_arguments({"__array__", names, 2, 0}, args, n, kwnames, given_args);
    auto [dtype, copy] = given_args;
    Handle array = Handle::steal(array_from_tensor(exportable(unwrap(self), false)));
    if (given(dtype)) {
      const Handle wanted =
          Handle::steal(PyObject_CallMethod(required_numpy().module.get(), "dtype", "O", dtype));
      const Handle own = Handle::steal(PyObject_GetAttrString(array.get(), "dtype"));
      const int same = PyObject_RichCompareBool(wanted.get(), own.get(), Py_EQ);
      check_status(same);
      if (!same) {
        check(copy != Py_False, ErrorKind::Value, "__array__",
              "copy=False, but another dtype needs a copy");
        return PyObject_CallMethod(array.get(), "astype", "O", wanted.get());
      }
    }
    return copy == Py_True ? PyObject_CallMethod(array.get(), "copy", nullptr) : array.release();
  });
}

PyObject* from_numpy(PyObject*, PyObject* o) {
  return guarded([&] {
    check(is_numpy_array(o), ErrorKind::Type, "from_numpy", "expected a numpy.ndarray, got ",
          type_name(o));
    return wrap(tensor_from_array(o, true));
  });
}

PyMethodDef methods[] = {
    {"numpy", as_method(numpy_method), kFastcall,
     "numpy($self, /, *, force=False)\n--\n\n"
     "A NumPy array over the same memory.\n"
     "\n"
     "Writing to one writes to the other.\n"
     "\n"
     "Arguments:\n"
     "    force: copy what cannot be shared: tensors on GPUs, or that need a gradient.\n"
     "\n"
     "Raises: TypeError: for a tensor on a GPU, and RuntimeError for one that needs a\n"
     "    gradient, without force.\n"
     "\n"
     "Example:\n"
     "    >>> rl.ones(2, requires_grad=True).numpy(force=True)\n"
     "    array([1., 1.], dtype=float32)"},
    {"__array__", as_method(array_method), kFastcall,
     "__array__($self, /, dtype=None, copy=None)\n--\n\nWhat numpy.asarray calls."},
    {},
};
PyMethodDef functions[] = {
    {"from_numpy", from_numpy, METH_O,
     "from_numpy(ndarray, /)\n--\n\n"
     "A tensor over the memory of a NumPy array.\n"
     "\n"
     "Writing to one writes to the other.\n"
     "\n"
     "Arguments:\n"
     "    ndarray: an array of a dtype that exists here, with strides that are not\n"
     "        negative.\n"
     "\n"
     "Example:\n"
     "    >>> import numpy as np\n"
     "    >>> array = np.array([1, 2])\n"
     "    >>> x = rl.from_numpy(array); x[0] = 9; array\n"
     "    array([9, 2])"},
    {},
};

}  // namespace

bool is_numpy_array(PyObject* o) {
  const NumPy* np = loaded_numpy();
  return np && is_instance(o, np->ndarray);
}

bool is_numpy_scalar(PyObject* o) {
  const NumPy* np = loaded_numpy();
  return np && is_instance(o, np->generic);
}

std::optional<DType> dtype_from_numpy(PyObject* dtype) {
  for (int i = 0; i < kDTypeCount; ++i) {  // NumPy's own dtypes are singletons
    if (g_numpy && g_numpy->dtypes[i].get() == dtype) return DType(i);
  }
  if (!is_native(dtype)) return std::nullopt;
  const Handle name_object = optional_attribute(dtype, "name");
  if (!name_object || !PyUnicode_Check(name_object.get())) return std::nullopt;
  const std::string_view text = text_of(name_object.get());
  for (int i = 0; i < kDTypeCount; ++i) {
    if (text != name(DType(i)) || DType(i) == DType::Complex32) continue;
    if (!is_of_ml_dtypes(DType(i))) numpy_dtype(DType(i));  // so that the next look is a quick one
    return DType(i);
  }
  return std::nullopt;
}

Handle array_of(PyObject* o) {
  if (is_numpy_array(o)) return Handle::borrow(o);
  if (PyList_Check(o) || PyTuple_Check(o) || PyFloat_Check(o) || PyLong_Check(o) ||
      PyUnicode_Check(o) || PyBytes_Check(o) || is_tensor(o) || is_numpy_scalar(o))
    return {};
  // NumPy's protocols belong to classes, as all special methods do.
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(o));
  if (!optional_attribute(type, "__array__") && !optional_attribute(type, "__array_interface__"))
    return {};
  Handle array =
      Handle::steal(PyObject_CallMethod(required_numpy().module.get(), "asarray", "O", o));
  const Handle dtype = Handle::steal(PyObject_GetAttrString(array.get(), "dtype"));
  return dtype_from_numpy(dtype.get()) ? array : Handle();
}

Tensor tensor_from_array(PyObject* array, bool warn) {
  const Handle dtype = Handle::steal(PyObject_GetAttrString(array, "dtype"));
  check(is_native(dtype.get()), ErrorKind::Value, "from_numpy",
        "the array's byte order is not this machine's; convert it with "
        "array.astype(array.dtype.newbyteorder('='))");
  const auto t = dtype_from_numpy(dtype.get());
  if (!t) {
    const Handle text = Handle::steal(PyObject_Str(dtype.get()));
    fail(ErrorKind::Type, "from_numpy", "can't convert an array of type ", text_of(text.get()),
         "; supported are float64, float32, float16, complex64, complex128, int64, int32, int16, "
         "int8, uint64, uint32, uint16, uint8, bool, and bfloat16 and float8 of ml_dtypes");
  }
  if (!is_of_ml_dtypes(*t)) return tensor_from_buffer(array, *t, warn);
  // The buffer protocol knows no such types; their bits as integers are the same memory.
  const Handle bits =
      Handle::steal(PyObject_CallMethod(array, "view", "s", is_float8(*t) ? "uint8" : "uint16"));
  return tensor_from_buffer(bits.get(), *t, warn);
}

PyObject* array_from_tensor(const Tensor& t) {
  const NumPy& np = required_numpy();
  PyObject* dtype = numpy_dtype(t.dtype());
  const Handle memory = Handle::steal(MemoryType->tp_alloc(MemoryType, 0));
  new (&reinterpret_cast<Memory*>(memory.get())->tensor) Tensor(t);
  const Handle shape = tuple_of(t.sizes(), 1);
  const Handle strides = tuple_of(t.strides(), t.element_size());
  const Handle offset = Handle::steal(PyLong_FromLong(0));
  PyObject* args[] = {shape.get(), dtype, memory.get(), offset.get(), strides.get()};
  return PyObject_Vectorcall(np.ndarray.get(), args, t.numel() ? 5 : 3, nullptr);
}

bool init_numpy(PyObject* module) {
  MemoryType = add_type(module, &memory_spec);
  if (!MemoryType || PyModule_AddFunctions(module, functions) < 0) return false;
  return add_methods(TensorType, methods) && init_buffer(module);
}

}  // namespace rush::py
