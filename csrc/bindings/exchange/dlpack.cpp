// dlpack.cpp: tensors to and from any library that speaks DLPack, versions 0.x and 1.x.
//
// A producer hands out a capsule around a managed tensor. The consumer renames the capsule
// ("used_") and calls the deleter when it no longer needs the memory; a capsule nobody consumed
// calls it itself.
#include "bindings/tensor/literal.h"

#include <cstring>

#include "autograd/meta.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/foreign.h"
#include "jit/recorder.h"
#include "ops/ops.h"

namespace rush::py {
namespace {

// The structs of DLPack's C ABI, as its specification lays them out.
namespace dl {
struct Device {
  int32_t type, id;
};
enum : int32_t { kCPU = 1, kCUDA = 2, kCUDAHost = 3, kCUDAManaged = 13 };
struct Type {
  uint8_t code, bits;
  uint16_t lanes;
};
enum : uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6 };
struct Array {
  void* data;
  Device device;
  int32_t ndim;
  Type dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: row-major without gaps
  uint64_t byte_offset;
};
struct Managed {
  static constexpr const char* name = "dltensor";
  static constexpr const char* used = "used_dltensor";
  Array array;
  void* context;
  void (*deleter)(Managed*);
};
struct Versioned {
  static constexpr const char* name = "dltensor_versioned";
  static constexpr const char* used = "used_dltensor_versioned";
  uint32_t major, minor;
  void* context;
  void (*deleter)(Versioned*);
  uint64_t flags;
  Array array;
};
constexpr uint64_t kReadOnly = 1, kCopied = 2;
}  // namespace dl

dl::Type dl_type(DType t) {
  const auto bits = uint8_t(8 * element_size(t));
  switch (category(t)) {
    case Category::Bool:
      return {dl::kBool, bits, 1};
    case Category::Integer:
      return {info(t).is_signed ? dl::kInt : dl::kUInt, bits, 1};
    case Category::Floating:
      return {t == DType::BFloat16 ? dl::kBfloat : dl::kFloat, bits, 1};
    default:
      return {dl::kComplex, bits, 1};
  }
}

DType dtype_from(dl::Type type) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const dl::Type own = dl_type(DType(i));
    if (own.code == type.code && own.bits == type.bits && type.lanes == 1) return DType(i);
  }
  fail(ErrorKind::DType, "from_dlpack", "no dtype fits DLPack's code ", type.code, " with ",
       type.bits, " bits and ", type.lanes, " lanes");
}

dl::Device dl_device(Device d) {
  if (d.is_cpu()) return {dl::kCPU, 0};
  check(d.is_cuda(), ErrorKind::Device, "__dlpack_device__", "DLPack knows no device ", d);
  return {dl::kCUDA, std::max<int>(d.index, 0)};
}

Device device_from(dl::Device d) {
  if (d.type == dl::kCPU || d.type == dl::kCUDAHost) return {};
  check(d.type == dl::kCUDA || d.type == dl::kCUDAManaged, ErrorKind::Device, "from_dlpack",
        "unsupported device type ", d.type, " of DLPack");
  return {DeviceType::CUDA, int8_t(d.id)};
}

// What an exported tensor keeps alive, in one block with its managed struct.
template <class M>
struct Export {
  M managed{};
  Tensor tensor;
  Dims sizes, strides;
};

template <class M>
void delete_export(M* managed) {
  delete static_cast<Export<M>*>(managed->context);
}

template <class M>
void capsule_destructor(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, M::name)) return;  // consumed
  auto* managed = static_cast<M*>(PyCapsule_GetPointer(capsule, M::name));
  if (managed && managed->deleter) managed->deleter(managed);
}

template <class M>
M* fill_export(Export<M>* e, const Tensor& t) {
  e->tensor = t;
  e->sizes = t.sizes();
  e->strides = t.strides();
  // The stride of a dimension with one element means nothing; some consumers want it to be 1.
  for (uint32_t i = 0; i < e->sizes.size(); ++i) {
    if (e->sizes[i] < 2) e->strides[i] = 1;
  }
  jit::end_recording("a tensor's memory in other hands");
  t.storage()->expose();
  e->managed.context = e;
  e->managed.deleter = delete_export<M>;
  e->managed.array = {t.data(),
                      dl_device(t.device()),
                      int32_t(t.dim()),
                      dl_type(t.dtype()),
                      e->sizes.data(),
                      e->strides.data(),
                      0};
  return &e->managed;
}

template <class M>
PyObject* capsule_of(std::unique_ptr<Export<M>> e, const Tensor& t) {
  M* managed = fill_export(e.get(), t);
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
    return capsule_of(std::make_unique<Export<dl::Managed>>(), t);
  }
  auto e = std::make_unique<Export<dl::Versioned>>();
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

// The requested place must be where the tensor is: moving it is the caller's business.
void check_dl_device(const Tensor& t, PyObject* wanted) {
  if (!given(wanted)) return;
  int type = 0, id = 0;
  if (!PyArg_ParseTuple(wanted, "ii", &type, &id)) throw PythonError{};
  const dl::Device own = dl_device(t.device());
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
    const dl::Device d = dl_device(unwrap(self).device());
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

Tensor tensor_over(const dl::Array& array, Storage::Deleter deleter, void* context,
                   bool read_only) {
  const DType t = dtype_from(array.dtype);
  const Device device = device_from(array.device);
  check_shape(array.ndim >= 0 && array.ndim <= kMaxDims, "from_dlpack", "the array has ",
              array.ndim, " dimensions, tensors have at most ", kMaxDims);
  const IntList sizes(array.shape, size_t(array.ndim));
  const int64_t n = checked_numel("from_dlpack", sizes);
  const Dims strides =
      array.strides ? Dims(IntList(array.strides, sizes.size())) : contiguous_strides(sizes);
  int64_t last = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    check(strides[i] >= 0 || sizes[i] < 2, ErrorKind::Value, "from_dlpack",
          "negative strides are not supported: copy the array first");
    last += (sizes[i] - 1) * strides[i];
  }
  const size_t bytes = n == 0 ? 0 : size_t((last + 1) * element_size(t));
  auto storage = Storage::wrap(static_cast<char*>(array.data) + array.byte_offset, bytes, device,
                               deleter, context);
  storage->set_read_only(read_only);
  return make_tensor(std::move(storage), sizes, strides, 0, t);
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
  Tensor out = tensor_over(managed->array, release_managed<M>, managed, read_only);
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
    const dl::Device d = dl_device(*device);
    const Handle pair = Handle::steal(Py_BuildValue("(ii)", d.type, d.id));
    check_status(PyDict_SetItemString(keywords.get(), "dl_device", pair.get()));
  }
  // A producer on a GPU makes our stream wait for its own.
  Handle stream;
  if (const Handle place = optional_attribute(o, "__dlpack_device__")) {
    const Handle pair = Handle::steal(PyObject_CallNoArgs(place.get()));
    int type = 0, id = 0;
    if (!PyArg_ParseTuple(pair.get(), "ii", &type, &id)) throw PythonError{};
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
     "A tensor over the memory of an object with __dlpack__."},
    {"to_dlpack", to_dlpack, METH_O,
     "to_dlpack(tensor, /)\n--\n\nA legacy DLPack capsule over the tensor's memory."},
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
