// buffer.cpp: Python's buffer protocol: tensors as memoryviews, and tensors over foreign buffers.
#include "bindings/tensor/literal.h"

#include "autograd/meta.h"
#include "core/memoryless.h"
#include "jit/recorder.h"

namespace rush::py {
namespace {

// The struct-module code of one element; null where the buffer protocol has none.
const char* buffer_format(DType t) {
  switch (t) {
    case DType::Bool:
      return "?";
    case DType::UInt8:
      return "B";
    case DType::Int8:
      return "b";
    case DType::Int16:
      return "h";
    case DType::Int32:
      return "i";
    case DType::Int64:
      return "q";
    case DType::UInt16:
      return "H";
    case DType::UInt32:
      return "I";
    case DType::UInt64:
      return "Q";
    case DType::Float16:
      return "e";
    case DType::Float32:
      return "f";
    case DType::Float64:
      return "d";
    case DType::Complex64:
      return "Zf";
    case DType::Complex128:
      return "Zd";
    default:
      return nullptr;
  }
}

int refuse(Py_buffer* view, const char* why) {
  view->obj = nullptr;
  PyErr_SetString(PyExc_BufferError, why);
  return -1;
}

// Shape and strides as the view needs them, in bytes; freed with the view.
struct Geometry {
  Py_ssize_t shape[kMaxDims], strides[kMaxDims];
};

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  const Tensor& t = unwrap(self);
  const char* format = buffer_format(t.dtype());
  if (!t.is_cpu()) return refuse(view, "only tensors on the CPU have a buffer");
  if (!format) return refuse(view, "the buffer protocol knows no bfloat16; use tensor.float()");
  if (rush::requires_grad(t)) return refuse(view, "the tensor requires grad; use tensor.detach()");
  if (is_memoryless(t))
    return refuse(view, "a sparse tensor has no memory, and a nested one neither; its values have");
  const bool read_only = t.storage()->read_only();
  if ((flags & PyBUF_WRITABLE) && read_only) return refuse(view, "the tensor is read-only");
  const bool wants_strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES;
  const bool wants_fortran = (flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS;
  const bool wants_c = (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS || !wants_strides;
  if (!t.is_contiguous() && (wants_c || wants_fortran)) {
    return refuse(view, "the tensor is not contiguous");
  }
  if (t.is_batched()) return refuse(view, "inside vmap a tensor has no values of its own");
  if (wants_fortran && t.dim() > 1) return refuse(view, "the tensor is not in Fortran order");

  auto* geometry = new (std::nothrow) Geometry;
  if (!geometry) {
    PyErr_NoMemory();
    return -1;
  }
  for (int64_t i = 0; i < t.dim(); ++i) {
    geometry->shape[i] = t.sizes()[i];
    geometry->strides[i] = t.strides()[i] * t.element_size();
  }
  jit::end_recording("a tensor's memory in other hands");
  t.storage()->expose();
  view->buf = t.data();
  view->obj = Py_NewRef(self);
  view->len = t.nbytes();
  view->itemsize = t.element_size();
  view->readonly = read_only;
  view->ndim = int(t.dim());
  view->format = flags & PyBUF_FORMAT ? const_cast<char*>(format) : nullptr;
  view->shape = flags & PyBUF_ND ? geometry->shape : nullptr;
  view->strides = wants_strides ? geometry->strides : nullptr;
  view->suboffsets = nullptr;
  view->internal = geometry;
  return 0;
}

void release_view(PyObject*, Py_buffer* view) { delete static_cast<Geometry*>(view->internal); }

// The foreign buffer under a tensor; released with the GIL held.
void release_foreign(void* context) noexcept {
  auto* view = static_cast<Py_buffer*>(context);
  with_gil([&] { PyBuffer_Release(view); });
  delete view;
}

constexpr const char* kReadOnly =
    "The given buffer is not writable, and the tensor over it does not know that. Writing to the "
    "tensor is undefined behaviour: copy the buffer first to protect its data.";

int64_t int_argument(const char* name, PyObject* o, int64_t otherwise) {
  int64_t v = otherwise;
  check(!given(o) || int_from_python(o, v), ErrorKind::Type, "frombuffer", "argument '", name,
        "' must be an int");
  return v;
}

PyObject* from_buffer(PyObject*, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&] {
    static constexpr const char* names[] = {"buffer", "dtype", "count", "offset", "requires_grad"};
    PyObject* a[5];
    parse_arguments({"frombuffer", names, 1, 2}, args, n, kwnames, a);
    const int64_t count = int_argument("count", a[2], -1);
    const int64_t offset = int_argument("offset", a[3], 0);
    Tensor out =
        tensor_over_buffer("frombuffer", a[0], *dtype_argument("frombuffer", a[1]), count, offset);
    if (bool_argument("frombuffer", "requires_grad", a[4], false)) set_requires_grad(out, true);
    return wrap(out);
  });
}

PyMethodDef functions[] = {
    {"frombuffer", as_method(from_buffer), kFastcall,
     "frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False)\n--\n\n"
     "A 1-d tensor over the memory of an object with a buffer.\n"
     "\n"
     "Arguments:\n"
     "    buffer: bytes, bytearray, memoryview, array.array, ...\n"
     "    dtype: how to read the bytes.\n"
     "    count: how many elements; -1 is all.\n"
     "    offset: bytes to skip.\n"
     "    requires_grad: record what is done with it for backward.\n"
     "\n"
     "Example:\n"
     "    >>> rl.frombuffer(bytearray([1, 2, 3, 4]), dtype=rl.uint8, offset=2)\n"
     "    tensor([3, 4], dtype=rushlight.uint8)"},
    {},
};

}  // namespace

Tensor tensor_over_buffer(const char* function, PyObject* o, DType t, int64_t count,
                          int64_t offset) {
  check(PyObject_CheckBuffer(o), ErrorKind::Value, function,
        "the object does not implement Python's buffer protocol, it is a ", type_name(o));
  auto view = std::make_unique<Py_buffer>();
  bool writable = true;
  if (PyObject_GetBuffer(o, view.get(), PyBUF_WRITABLE) < 0) {
    PyErr_Clear();
    writable = false;
    check_status(PyObject_GetBuffer(o, view.get(), PyBUF_SIMPLE));
  }
  void* data = view->buf;
  const int64_t length = view->len, item = element_size(t);
  auto storage = Storage::wrap(data, size_t(length), Device{}, release_foreign, view.release());
  check(length > 0 && count != 0, ErrorKind::Value, function, "both buffer length (", length,
        ") and count (", count, ") must not be 0");
  check(offset >= 0 && offset < length, ErrorKind::Value, function, "offset (", offset,
        " bytes) must be non-negative and less than the buffer length (", length, " bytes)");
  check(count > 0 || (length - offset) % item == 0, ErrorKind::Value, function, "buffer length (",
        length, " bytes) after offset (", offset, " bytes) must be a multiple of element size (",
        item, ")");
  const int64_t n = count > 0 ? count : (length - offset) / item;
  check(n <= (length - offset) / item, ErrorKind::Value, function, "requested buffer length (", n,
        " * ", item, " bytes) after offset (", offset,
        " bytes) must not be greater than actual buffer length (", length, " bytes)");
  if (!writable) check_status(PyErr_WarnEx(PyExc_UserWarning, kReadOnly, 1));
  if (offset % item == 0)
    return make_tensor(std::move(storage), Dims{n}, Dims{1}, offset / item, t);
  // An offset inside an element: the storage itself has to start there.
  auto* whole = storage.detach();
  auto shifted = Storage::wrap(
      static_cast<char*>(data) + offset, size_t(length - offset), Device{},
      [](void* s) noexcept { static_cast<Storage*>(s)->release(); }, whole);
  return make_tensor(std::move(shifted), Dims{n}, Dims{1}, 0, t);
}

bool init_buffer(PyObject* module) {
  // Slots of a heap type live in the type itself; subclasses made later inherit them.
  TensorType->tp_as_buffer->bf_getbuffer = get_buffer;
  TensorType->tp_as_buffer->bf_releasebuffer = release_view;
  return PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace rush::py
