// storage_object.cpp: rushlight.UntypedStorage, the bytes under tensors as an object of their own.
#include "bindings/data/processes.h"
#include "bindings/handle.h"
#include "bindings/type_docs.h"
#include "core/device_memory.h"
#include "jit/recorder.h"

#include <cstring>

namespace rush::py {
namespace {

struct StorageObject {
  PyObject_HEAD Ref<Storage> storage;
};
PyTypeObject* StorageType;

const Ref<Storage>& storage_of(PyObject* o) { return reinterpret_cast<StorageObject*>(o)->storage; }

PyObject* wrap_storage(Ref<Storage> storage, PyTypeObject* type = StorageType) {
  PyObject* o = type->tp_alloc(type, 0);
  if (!o) throw PythonError{};
  new (&reinterpret_cast<StorageObject*>(o)->storage) Ref<Storage>(std::move(storage));
  return o;
}

uint8_t* bytes_of(PyObject* o) {
  const Ref<Storage>& s = storage_of(o);
  check(s->device().is_cpu(), ErrorKind::Device, "UntypedStorage", "the bytes are on ", s->device(),
        ": copy the tensor to the CPU first");
  return static_cast<uint8_t*>(s->data());
}

uint8_t* writable_bytes(PyObject* o) {
  check(!storage_of(o)->read_only(), ErrorKind::Runtime, "UntypedStorage",
        "the memory is read-only");
  storage_of(o)->expose();
  return bytes_of(o);
}

// UntypedStorage(nbytes) is uninitialised, UntypedStorage(bytes-like) a copy.
PyObject* storage_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    static constexpr const char* names[] = {"data", "device"};
    PyObject* a[2];
    parse_arguments({"UntypedStorage", names, 1, 0}, args, kwargs, a);
    const Device device = device_argument("UntypedStorage", a[1]).value_or(Device{});
    int64_t size = 0;
    if (!a[0] || int_from_python(a[0], size)) {
      check_argument(size >= 0, "UntypedStorage", "the size must not be negative, got ", size);
      return wrap_storage(Storage::allocate(device, size_t(size)), type);
    }
    check_argument(device.is_cpu(), "UntypedStorage", "bytes are copied to the CPU, not to ",
                   device);
    struct View : Py_buffer {
      ~View() { PyBuffer_Release(this); }
    } view{};
    check_status(PyObject_GetBuffer(a[0], &view, PyBUF_SIMPLE));
    auto storage = Storage::allocate(Device{}, size_t(view.len));
    std::memcpy(storage->data(), view.buf, size_t(view.len));
    return wrap_storage(std::move(storage), type);
  });
}

void storage_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  std::destroy_at(&reinterpret_cast<StorageObject*>(self)->storage);
  type->tp_free(self);
  Py_DECREF(type);
}

Py_ssize_t storage_length(PyObject* self) { return Py_ssize_t(storage_of(self)->nbytes()); }

PyObject* storage_item(PyObject* self, PyObject* key) {
  return guarded([&]() -> PyObject* {
    const Py_ssize_t size = storage_length(self);
    if (PySlice_Check(key)) {
      Py_ssize_t start, stop, step;
      check_status(PySlice_Unpack(key, &start, &stop, &step));
      check(step == 1, ErrorKind::Runtime, "UntypedStorage", "slices must have step 1, got ", step);
      const Py_ssize_t n = PySlice_AdjustIndices(size, &start, &stop, step);
      // A part of the same bytes, which keeps the whole alive.
      storage_of(self)->expose();
      auto* whole = Ref<Storage>(storage_of(self)).detach();
      return wrap_storage(Storage::wrap(
          bytes_of(self) + start, size_t(n), whole->device(),
          [](void* s) noexcept { static_cast<Storage*>(s)->release(); }, whole));
    }
    int64_t index = 0;
    check(int_from_python(key, index), ErrorKind::Type, "UntypedStorage",
          "expected an int or a slice, got ", type_name(key));
    check_index(index >= -size && index < size, "UntypedStorage", "index ", index,
                " is out of range for ", size, " bytes");
    return PyLong_FromLong(bytes_of(self)[index < 0 ? index + size : index]);
  });
}

int storage_set_item(PyObject* self, PyObject* key, PyObject* value) {
  return guarded_int([&] {
    int64_t byte = 0;
    check(value && int_from_python(value, byte) && byte >= 0 && byte < 256, ErrorKind::Type,
          "UntypedStorage", "expected a byte, an int from 0 to 255");
    const Py_ssize_t size = storage_length(self);
    Py_ssize_t start = 0, stop = 0, step = 1;
    if (PySlice_Check(key)) {
      check_status(PySlice_Unpack(key, &start, &stop, &step));
      PySlice_AdjustIndices(size, &start, &stop, step);
      check(step == 1, ErrorKind::Runtime, "UntypedStorage", "slices must have step 1, got ", step);
    } else {
      int64_t index = 0;
      check(int_from_python(key, index), ErrorKind::Type, "UntypedStorage",
            "expected an int or a slice, got ", type_name(key));
      check_index(index >= -size && index < size, "UntypedStorage", "index ", index,
                  " is out of range for ", size, " bytes");
      start = index < 0 ? index + size : index;
      stop = start + 1;
    }
    if (stop > start) std::memset(writable_bytes(self) + start, int(byte), size_t(stop - start));
    return 0;
  });
}

// Set while memory goes to our own readers and writers of files: see own_memory.
thread_local bool t_for_ourselves = false;

int storage_getbuffer(PyObject* self, Py_buffer* view, int flags) {
  const Ref<Storage>& s = storage_of(self);
  if (!s->device().is_cpu()) {
    view->obj = nullptr;
    PyErr_SetString(PyExc_BufferError, "only storages on the CPU have a buffer");
    return -1;
  }
  if (!t_for_ourselves) s->expose();
  return PyBuffer_FillInfo(view, self, s->data(), Py_ssize_t(s->nbytes()), s->read_only(), flags);
}

PyObject* storage_repr(PyObject* self) {
  return guarded([&] {
    const std::string device = concat(storage_of(self)->device());
    return PyUnicode_FromFormat("[rushlight.storage.UntypedStorage(device=%s) of size %zd]",
                                device.c_str(), storage_length(self));
  });
}

PyObject* nbytes(PyObject* self, PyObject*) { return PyLong_FromSsize_t(storage_length(self)); }
PyObject* sizeof_(PyObject* self, PyObject*) {
  return PyLong_FromSsize_t(Py_TYPE(self)->tp_basicsize + storage_length(self));
}
PyObject* element_size_(PyObject*, PyObject*) { return PyLong_FromLong(1); }
PyObject* data_ptr(PyObject* self, PyObject*) {
  storage_of(self)->expose();
  return PyLong_FromVoidPtr(storage_of(self)->data());
}
PyObject* identity(PyObject* self, void*) { return PyLong_FromVoidPtr(storage_of(self).get()); }
PyObject* device(PyObject* self, void*) { return wrap(storage_of(self)->device()); }
PyObject* is_cuda(PyObject* self, void*) {
  return PyBool_FromLong(storage_of(self)->device().is_cuda());
}
PyObject* is_shared(PyObject* self, PyObject*) {
  return PyBool_FromLong(storage_of(self)->is_shared());
}
PyObject* untyped(PyObject* self, PyObject*) { return Py_NewRef(self); }

PyObject* clone_storage(PyObject* self, PyObject*) {
  return guarded([&] {
    const Ref<Storage>& s = storage_of(self);
    auto copy = Storage::allocate(s->device(), s->nbytes());
    if (s->device().is_cuda())
      cuda_memory().copy(copy->data(), s->data(), s->nbytes(), s->device().index);
    else if (!s->device().is_meta())
      std::memcpy(copy->data(), bytes_of(self), s->nbytes());
    return wrap_storage(std::move(copy));
  });
}

PyObject* resize_storage(PyObject* self, PyObject* o) {
  return guarded([&] {
    int64_t size = 0;
    check(int_from_python(o, size) && size >= 0, ErrorKind::Type, "resize_",
          "expected a number of bytes, got ", type_name(o));
    storage_of(self)->resize(size_t(size));
    return Py_NewRef(self);
  });
}

PyObject* fill_storage(PyObject* self, PyObject* o) {
  PyObject* all = PySlice_New(nullptr, nullptr, nullptr);
  if (!all) return nullptr;
  const int status = storage_set_item(self, all, o);
  Py_DECREF(all);
  return status < 0 ? nullptr : Py_NewRef(self);
}

PyObject* copy_storage(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&] {
    static constexpr const char* names[] = {"source", "non_blocking"};
    PyObject* a[2];
    parse_arguments({"copy_", names, 2, 1}, args, n, kwnames, a);
    check(Py_IS_TYPE(a[0], StorageType), ErrorKind::Type, "copy_",
          "expected an UntypedStorage, got ", type_name(a[0]));
    check_shape(storage_length(self) == storage_length(a[0]), "copy_",
                "sizes differ: ", storage_length(self), " and ", storage_length(a[0]), " bytes");
    std::memmove(writable_bytes(self), bytes_of(a[0]), size_t(storage_length(self)));
    return Py_NewRef(self);
  });
}

PyObject* to_list(PyObject* self, PyObject*) {
  Handle bytes = Handle::maybe(PyBytes_FromObject(self));
  return bytes ? PySequence_List(bytes.get()) : nullptr;
}

PyObject* storage_reduce(PyObject* self, PyObject*) {
  PyObject* bytes = PyBytes_FromObject(self);
  return bytes ? Py_BuildValue("O(N)", StorageType, bytes) : nullptr;
}

PyMethodDef methods[] = {
    {"nbytes", nbytes, METH_NOARGS, "nbytes($self, /)\n--\n\nThe number of bytes."},
    {"__sizeof__", sizeof_, METH_NOARGS, "The bytes of the object and of its memory."},
    {"size", nbytes, METH_NOARGS, "size($self, /)\n--\n\nThe number of bytes."},
    {"element_size", element_size_, METH_NOARGS, "element_size($self, /)\n--\n\n1."},
    {"data_ptr", data_ptr, METH_NOARGS, "data_ptr($self, /)\n--\n\nThe address of the first byte."},
    {"clone", clone_storage, METH_NOARGS, "clone($self, /)\n--\n\nA copy with memory of its own."},
    {"resize_", resize_storage, METH_O,
     "resize_($self, size, /)\n--\n\nChanges the number of bytes."},
    {"fill_", fill_storage, METH_O, "fill_($self, value, /)\n--\n\nSets every byte."},
    {"copy_", as_method(copy_storage), kFastcall, "Copies the bytes of another storage."},
    {"tolist", to_list, METH_NOARGS, "tolist($self, /)\n--\n\nThe bytes as a list of ints."},
    {"untyped", untyped, METH_NOARGS, "untyped($self, /)\n--\n\nItself."},
    {"is_shared", is_shared, METH_NOARGS,
     "is_shared($self, /)\n--\n\nIs the memory shared between processes?"},
    {"__reduce__", storage_reduce, METH_NOARGS, nullptr},
    {},
};
PyGetSetDef attributes[] = {
    {"device", device, nullptr, "Where the bytes are.", nullptr},
    {"is_cuda", is_cuda, nullptr, "Are they on a GPU?", nullptr},
    {"_cdata", identity, nullptr, "A number that two objects of one storage share.", nullptr},
    {},
};
PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>(kStorageDoc)},
    {Py_tp_new, reinterpret_cast<void*>(storage_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(storage_dealloc)},
    {Py_tp_repr, reinterpret_cast<void*>(storage_repr)},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {Py_mp_length, reinterpret_cast<void*>(storage_length)},
    {Py_mp_subscript, reinterpret_cast<void*>(storage_item)},
    {Py_mp_ass_subscript, reinterpret_cast<void*>(storage_set_item)},
    {Py_bf_getbuffer, reinterpret_cast<void*>(storage_getbuffer)},
    {},
};
PyType_Spec spec = {"rushlight.UntypedStorage", sizeof(StorageObject), 0, Py_TPFLAGS_DEFAULT,
                    slots};

PyObject* untyped_storage(PyObject* self, PyObject*) {
  return guarded([&] {
    jit::end_recording("a tensor's storage in Python's hands");
    return wrap_storage(unwrap(self).storage());
  });
}

Dims ints_of(const char* what, PyObject* o) {
  Dims out;
  const Handle items = Handle::steal(PySequence_Fast(o, "expected a sequence of ints"));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    int64_t v = 0;
    check(int_from_python(PySequence_Fast_GET_ITEM(items.get(), i), v) && v >= 0, ErrorKind::Value,
          "_tensor_from_storage", what, " must be non-negative ints");
    out.push_back(v);
  }
  return out;
}

// Pickle's and deepcopy's way back: a tensor of given geometry over a storage. The numbers may come
// from a damaged file, so they are checked against the bytes that are there.
PyObject* tensor_from_storage(PyObject*, PyObject* args) {
  return guarded([&] {
    PyObject *storage, *dtype, *sizes, *strides;
    long long offset = 0;
    if (!PyArg_ParseTuple(args, "O!OLOO", StorageType, &storage, &dtype, &offset, &sizes,
                          &strides)) {
      throw PythonError{};
    }
    const char* function = "_tensor_from_storage";
    const DType t = dtype_argument(function, dtype, default_dtype());
    const Dims size = ints_of("sizes", sizes), stride = ints_of("strides", strides);
    check_argument(size.size() == stride.size() && offset >= 0, function,
                   "needs as many strides as sizes and an offset, got ", size, ", ", stride, ", ",
                   offset);
    __int128 last = offset;
    for (size_t i = 0; i < size.size(); ++i) last += __int128(size[i] - 1) * stride[i];
    const bool fits = (last + 1) * element_size(t) <= __int128(storage_length(storage));
    check_argument(checked_numel(function, size) == 0 || fits, function, "sizes ", size,
                   ", strides ", stride, " and offset ", offset, " reach beyond the storage of ",
                   storage_length(storage), " bytes");
    return wrap(make_tensor(storage_of(storage), size, stride, offset, t));
  });
}

// A storage's memory for saving and loading, which is over before anybody else sees the view; so
// the storage is not exposed (Note [Watched storages]), and saving a model does not slow it down.
PyObject* own_memory(PyObject*, PyObject* o) {
  return guarded([&] {
    check(is_storage(o), ErrorKind::Type, "_own_memory", "expected an UntypedStorage, got ",
          type_name(o));
    t_for_ourselves = true;
    PyObject* view = PyMemoryView_FromObject(o);
    t_for_ourselves = false;
    storage_of(o)->note_write();  // of whoever fills it
    return view;
  });
}

PyMethodDef tensor_methods_[] = {
    {"untyped_storage", untyped_storage, METH_NOARGS,
     "untyped_storage($self, /)\n--\n\n"
     "The bytes under the tensor; its views share them.\n"
     "\n"
     "Example:\n"
     "    >>> x = rl.zeros(2, 3)\n"
     "    >>> x[0].untyped_storage().nbytes()\n"
     "    24"},
    {},
};
PyMethodDef functions[] = {
    {"_tensor_from_storage", tensor_from_storage, METH_VARARGS, nullptr},
    {"_own_memory", own_memory, METH_O, nullptr},
    {},
};

}  // namespace

bool is_storage(PyObject* o) { return PyObject_TypeCheck(o, StorageType); }
const Ref<Storage>& storage_from_python(PyObject* o) { return storage_of(o); }
PyObject* wrap(Ref<Storage> storage) { return wrap_storage(std::move(storage)); }

Tensor tensor_over_storage(const char* function, PyObject* storage, std::optional<DType> dtype) {
  const int64_t length = storage_length(storage);
  const DType type = dtype.value_or(length > 0 ? DType::Int64 : default_dtype());
  const int64_t item = element_size(type);
  check_argument(length % item == 0, function, "a storage of ", length,
                 " bytes holds no whole number of elements of ", type);
  return make_tensor(storage_of(storage), Dims{length / item}, Dims{1}, 0, type);
}

bool init_storage(PyObject* module) {
  StorageType = add_type(module, &spec);
  return StorageType && PyModule_AddFunctions(module, functions) == 0 &&
         add_methods(TensorType, tensor_methods_);
}

}  // namespace rush::py
