// dlpack.cpp: tensors to and from any library that speaks DLPack, versions 0.x and 1.x.
//
// A producer hands out a capsule around a managed tensor. The consumer renames the capsule
// ("used_") and calls the deleter when it no longer needs the memory; a capsule nobody consumed
// calls it itself.
#include "bindings/tensor/literal.h"

#include <cstring>

#include "autograd/meta.h"
#include "core/dlpack.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/foreign.h"
#include "jit/recorder.h"
#include "ops/ops.h"

namespace rush::py {
namespace {

template <class M>
void capsule_destructor(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, M::name)) return;  // consumed
  auto* managed = static_cast<M*>(PyCapsule_GetPointer(capsule, M::name));
  if (managed && managed->deleter) managed->deleter(managed);
}

template <class M>
PyObject* capsule_of(std::unique_ptr<dl::Export<M>> e, const Tensor& t) {
  jit::end_recording("a tensor's memory in other hands");
  M* managed = dl::fill_export(e.get(), t);
  PyObject* capsule = PyCapsule_New(managed, M::name, capsule_destructor<M>);
  if (capsule) e.release();
  return capsule;
}

[[noreturn]] void buffer_error(const char* text) {
  PyErr_SetString(PyExc_BufferError, text);
  throw PythonError{};
}

PyObject* export_tensor(const Tensor& source, bool versioned, bool must_copy) {
  if (rush::requires_grad(source)) {
    buffer_error("__dlpack__: the tensor requires grad: use tensor.detach()");
  }
  Tensor t = source;
  if (must_copy) {
    t = make_tensor(source.sizes(), source.dtype(), source.device());
    rush::copy_(t, source);
  }
  const bool read_only = t.storage()->read_only();
  if (!versioned) {
    if (read_only) buffer_error("__dlpack__: a read-only tensor needs max_version=(1, 0) or later");
    return capsule_of(std::make_unique<dl::Export<dl::Managed>>(), t);
  }
  auto e = std::make_unique<dl::Export<dl::Versioned>>();
  e->managed.major = 1;
  e->managed.minor = 0;
  e->managed.flags = (read_only ? dl::kReadOnly : 0) | (must_copy ? dl::kCopied : 0);
  return capsule_of(std::move(e), t);
}

bool wants_versioned(PyObject* max_version) {
  if (!given(max_version)) return false;
  const Handle major = Handle::steal(PySequence_GetItem(max_version, 0));
  const long v = PyLong_AsLong(major.get());
  if (v == -1 && PyErr_Occurred()) throw PythonError{};
  return v >= 1;
}

// (type, id), from whoever made it.
dl::Device device_pair(const char* function, PyObject* pair) {
  check(PyTuple_Check(pair), ErrorKind::Type, function, "a device is a tuple of two ints, not ",
        type_name(pair));
  dl::Device found{};
  if (!PyArg_ParseTuple(pair, "ii", &found.type, &found.id)) throw PythonError{};
  return found;
}

// The requested place must be where the tensor is: moving it is the caller's business.
void check_dl_device(const Tensor& t, PyObject* wanted) {
  if (!given(wanted)) return;
  const auto [type, id] = device_pair("__dlpack__", wanted);
  const dl::Device own = dl::dl_device(t.device());
  if (type != own.type || id != own.id) {
    buffer_error("__dlpack__: the tensor is not on the requested device; use tensor.to() first");
  }
}

// The consumer's stream waits for ours. As the array API has it: None means the default stream, -1
// that the consumer needs no order, and 0 could mean two things.
void order_consumer(const Tensor& t, PyObject* stream) {
  int64_t token = 1;
  if (given(stream)) {
    check(int_from_python(stream, token), ErrorKind::Type, "__dlpack__",
          "stream must be None or an int, not ", type_name(stream));
    check(token != 0, ErrorKind::Argument, "__dlpack__",
          "stream 0 is ambiguous: 1 is the default stream, 2 the thread's own");
  }
  if (token != -1) cuda::make_foreign_wait(t.device().index, token);
}

PyObject* dlpack(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&] {
    static constexpr const char* names[] = {"stream", "max_version", "dl_device", "copy"};
    PyObject* a[4];
    parse_arguments({"__dlpack__", names, 0, 0}, args, n, kwnames, a);
    const Tensor& t = unwrap(self);
    check_not_batched("__dlpack__", t);
    if (t.is_meta()) buffer_error("__dlpack__: a tensor on the meta device has no memory");
    check(!t.is_cpu() || !given(a[0]), ErrorKind::Argument, "__dlpack__",
          "stream must be None for a tensor on the CPU");
    check_dl_device(t, a[2]);
    if (t.is_cuda()) order_consumer(t, a[0]);
    return export_tensor(t, wants_versioned(a[1]), a[3] == Py_True);
  });
}

PyObject* dlpack_device(PyObject* self, PyObject*) {
  return guarded([&] {
    const dl::Device d = dl::dl_device(unwrap(self).device());
    return Py_BuildValue("(ii)", d.type, d.id);
  });
}

PyObject* to_dlpack(PyObject*, PyObject* o) {
  return guarded([&] {
    check(is_tensor(o), ErrorKind::Type, "to_dlpack", "expected a tensor, got ", type_name(o));
    return export_tensor(unwrap(o), false, false);
  });
}

template <class M>
void delete_managed(void* context) {
  auto* managed = static_cast<M*>(context);
  // The producer may be Python code.
  with_gil([&] {
    if (managed->deleter) managed->deleter(managed);
  });
}

template <class M>
void release_managed(void* context) noexcept {
  const dl::Device device = static_cast<M*>(context)->array.device;
  if (device.type == dl::kCUDA)
    cuda::release_when_passed(device.id, delete_managed<M>, context);
  else
    delete_managed<M>(context);
}

template <class M>
Tensor consume(PyObject* capsule) {
  auto* managed = static_cast<M*>(PyCapsule_GetPointer(capsule, M::name));
  if (!managed) throw PythonError{};
  bool read_only = false;
  if constexpr (std::is_same_v<M, dl::Versioned>) {
    check(managed->major == 1, ErrorKind::Runtime, "from_dlpack", "unsupported DLPack version ",
          managed->major, ".", managed->minor, ", expected 1.x");
    read_only = managed->flags & dl::kReadOnly;
  }
  Tensor out = dl::tensor_over(managed->array, release_managed<M>, managed, read_only);
  check_status(PyCapsule_SetName(capsule, M::used));  // ours from here on
  return out;
}

Tensor consume_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, dl::Versioned::name)) return consume<dl::Versioned>(capsule);
  check(PyCapsule_IsValid(capsule, dl::Managed::name), ErrorKind::Runtime, "from_dlpack",
        "the capsule holds no DLPack tensor, or one that was consumed before");
  return consume<dl::Managed>(capsule);
}

// Asks the producer; older ones know none of the keywords.
Handle ask_producer(PyObject* o, std::optional<Device> device, std::optional<bool> copy) {
  const Handle method = Handle::steal(PyObject_GetAttrString(o, "__dlpack__"));
  const Handle keywords = Handle::steal(Py_BuildValue("{s(ii)}", "max_version", 1, 0));
  if (copy) {
    const Handle flag = Handle::steal(PyBool_FromLong(*copy));
    check_status(PyDict_SetItemString(keywords.get(), "copy", flag.get()));
  }
  if (device) {
    const dl::Device d = dl::dl_device(*device);
    const Handle pair = Handle::steal(Py_BuildValue("(ii)", d.type, d.id));
    check_status(PyDict_SetItemString(keywords.get(), "dl_device", pair.get()));
  }
  // A producer on a GPU makes our stream wait for its own.
  Handle stream;
  if (const Handle place = optional_attribute(o, "__dlpack_device__")) {
    const Handle pair = Handle::steal(PyObject_CallNoArgs(place.get()));
    const auto [type, id] = device_pair("from_dlpack", pair.get());
    if (type == dl::kCUDA || type == dl::kCUDAManaged) {
      cuda::release_passed();
      const int index = cuda::check_device("from_dlpack", id);
      stream = Handle::steal(PyLong_FromLongLong(cuda::stream_token(index)));
      check_status(PyDict_SetItemString(keywords.get(), "stream", stream.get()));
    }
  }
  const Handle empty = Handle::steal(PyTuple_New(0));
  PyObject* capsule = PyObject_Call(method.get(), empty.get(), keywords.get());
  if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError) && !copy && !device) {
    PyErr_Clear();
    check_status(PyDict_DelItemString(keywords.get(), "max_version"));
    capsule = PyObject_Call(method.get(), empty.get(), keywords.get());
  }
  return Handle::steal(capsule);
}

PyObject* from_dlpack(PyObject*, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&] {
    static constexpr const char* names[] = {"ext_tensor", "device", "copy"};
    PyObject* a[3];
    parse_arguments({"from_dlpack", names, 1, 1}, args, n, kwnames, a);
    std::optional<bool> copy;
    if (given(a[2])) copy = bool_argument("from_dlpack", "copy", a[2], false);
    return wrap(tensor_from_dlpack(a[0], device_argument("from_dlpack", a[1]), copy));
  });
}

PyMethodDef methods[] = {
    {"__dlpack__", as_method(dlpack), kFastcall,
     "__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
     "A DLPack capsule over the tensor's memory."},
    {"__dlpack_device__", dlpack_device, METH_NOARGS,
     "__dlpack_device__($self, /)\n--\n\nDLPack's (device type, device id)."},
    {},
};
PyMethodDef functions[] = {
    {"from_dlpack", as_method(from_dlpack), kFastcall,
     "from_dlpack(ext_tensor, *, device=None, copy=None)\n--\n\n"
     "A tensor over the memory of an object with __dlpack__.\n"
     "\n"
     "Arguments:\n"
     "    ext_tensor: an object with `__dlpack__`, such as an array of NumPy, CuPy or JAX.\n"
     "    device: where it is to lie.\n"
     "    copy: True always copies, False never; None copies where needed.\n"
     "\n"
     "Example:\n"
     "    >>> import numpy as np\n"
     "    >>> rl.from_dlpack(np.arange(3), copy=True)\n"
     "    tensor([0, 1, 2])"},
    {"to_dlpack", to_dlpack, METH_O,
     "to_dlpack(tensor, /)\n--\n\n"
     "A legacy DLPack capsule over the tensor's memory.\n"
     "\n"
     "Arguments:\n"
     "    tensor: the tensor.\n"
     "\n"
     "Example:\n"
     "    >>> rl.from_dlpack(rl.to_dlpack(rl.tensor([1, 2])))\n"
     "    tensor([1, 2])"},
    {},
};

}  // namespace

Tensor tensor_from_dlpack(PyObject* o, std::optional<Device> device, std::optional<bool> copy) {
  if (PyCapsule_CheckExact(o)) return consume_capsule(o);
  check(bool(optional_attribute(o, "__dlpack__")), ErrorKind::Type, "from_dlpack",
        "expected an object with __dlpack__ or a capsule, got ", type_name(o));
  return consume_capsule(ask_producer(o, device, copy).get());
}

bool init_dlpack(PyObject* module) {
  return PyModule_AddFunctions(module, functions) == 0 && add_methods(TensorType, methods);
}

}  // namespace rush::py
