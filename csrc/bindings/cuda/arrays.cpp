// arrays.cpp: __cuda_array_interface__, with which CuPy, Numba and others pass GPU memory.
#include "bindings/cuda/arrays.h"

#include "autograd/meta.h"
#include "bindings/call/carried_error.h"
#include "bindings/tensor/literal.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/foreign.h"

namespace rush::py {
namespace {

constexpr const char* kName = "__cuda_array_interface__";

// As NumPy spells types; bfloat16 and float8 have no letter there.
std::string type_string(DType t) {
  if (t == DType::BFloat16) return "<V2";
  if (is_float8(t)) return "|V1";
  const int64_t size = element_size(t);
  const char* order = size == 1 ? "|" : "<";
  const char* letter = t == DType::Bool    ? "b"
                       : is_floating(t)    ? "f"
                       : is_complex(t)     ? "c"
                       : info(t).is_signed ? "i"
                                           : "u";
  return order + (letter + std::to_string(size));
}

DType type_from(std::string_view text) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const std::string own = type_string(DType(i));
    // A single byte has no order, whatever is said about it.
    if (own == text ||
        (own[0] == '|' && text.size() == own.size() && text.substr(1) == own.substr(1)))
      return DType(i);
  }
  fail(ErrorKind::DType, kName, "no dtype fits the type '", text, "'");
}

Handle tuple_of(IntList numbers, int64_t factor) {
  Handle t = Handle::steal(PyTuple_New(Py_ssize_t(numbers.size())));
  for (size_t i = 0; i < numbers.size(); ++i)
    PyTuple_SET_ITEM(t.get(), Py_ssize_t(i), PyLong_FromLongLong(numbers[i] * factor));
  return t;
}

PyObject* get_interface(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    const Tensor& t = unwrap(self);
    if (!t.is_cuda()) {
      PyErr_Format(PyExc_AttributeError,
                   "Can't get __cuda_array_interface__ on a tensor that is not on a GPU; use "
                   "tensor.cuda() first");
      throw PythonError{};
    }
    check(!rush::requires_grad(t), ErrorKind::Runtime, kName,
          "the tensor requires grad: use tensor.detach()");
    const Handle shape = tuple_of(t.sizes(), 1);
    const Handle strides =
        t.is_contiguous() ? Handle::borrow(Py_None) : tuple_of(t.strides(), t.element_size());
    t.storage()->expose();
    const auto address = t.numel() ? reinterpret_cast<uintptr_t>(t.data()) : 0;
    return Py_BuildValue(
        "{sOsssOs(KO)sLsi}", "shape", shape.get(), "typestr", type_string(t.dtype()).c_str(),
        "strides", strides.get(), "data", static_cast<unsigned long long>(address),
        t.storage()->read_only() ? Py_True : Py_False, "stream",
        static_cast<long long>(cuda::stream_token(t.device().index)), "version", 3);
  });
}

struct Owner {
  PyObject* object;
  int device;
};

void drop_owner(void* context) {
  auto* owner = static_cast<Owner*>(context);
  with_gil([&] { Py_DECREF(owner->object); });
  delete owner;
}

void release_owner(void* context) noexcept {
  cuda::release_when_passed(static_cast<Owner*>(context)->device, drop_owner, context);
}

Handle item_of(PyObject* dict, const char* key) {
  PyObject* item = PyDict_GetItemString(dict, key);
  return item ? Handle::borrow(item) : Handle();
}

Dims dims_from(PyObject* tuple) {
  check(PyTuple_Check(tuple), ErrorKind::Type, kName, "shape and strides must be tuples");
  Dims dims;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    int64_t n = 0;
    check(int_from_python(PyTuple_GET_ITEM(tuple, i), n), ErrorKind::Type, kName,
          "shape and strides must hold ints");
    dims.push_back(n);
  }
  return dims;
}

PyGetSetDef properties[] = {
    {kName, get_interface, nullptr, "The GPU memory, as CuPy and Numba exchange it.", nullptr},
    {},
};

}  // namespace

bool has_cuda_array(PyObject* o) { return bool(optional_attribute(o, kName)); }

Tensor tensor_from_cuda_array(PyObject* o) {
  const Handle found = Handle::steal(PyObject_GetAttrString(o, kName));
  check(PyDict_Check(found.get()), ErrorKind::Type, kName, "expected a dict, got ",
        type_name(found.get()));
  const Handle shape = item_of(found.get(), "shape"), type = item_of(found.get(), "typestr"),
               data = item_of(found.get(), "data"), steps = item_of(found.get(), "strides"),
               stream = item_of(found.get(), "stream");
  check(shape && type && data, ErrorKind::Value, kName, "it lacks shape, typestr or data");
  const DType dtype = type_from(text_of(type.get()));
  const Dims sizes = dims_from(shape.get());
  const int64_t n = checked_numel(kName, sizes), item = element_size(dtype);
  Dims strides = contiguous_strides(sizes);
  if (steps && steps.get() != Py_None) {
    strides = dims_from(steps.get());
    check(strides.size() == sizes.size(), ErrorKind::Value, kName, "there are ", sizes.size(),
          " sizes and ", strides.size(), " strides");
    for (int64_t& s : strides) {
      check(s % item == 0 && s >= 0, ErrorKind::Value, kName, "a stride of ", s,
            " bytes is not supported for elements of ", item);
      s /= item;
    }
  }
  unsigned long long address = 0;
  int read_only = 0;
  check(PyTuple_Check(data.get()), ErrorKind::Type, kName, "'data' must be a tuple of two, not ",
        type_name(data.get()));
  if (!PyArg_ParseTuple(data.get(), "Kp", &address, &read_only)) throw PythonError{};
  int64_t last = 0, token = 0;
  for (size_t i = 0; i < sizes.size(); ++i) last += (sizes[i] - 1) * strides[i];
  void* p = reinterpret_cast<void*>(address);
  const int device = n ? cuda::device_of_pointer(p) : cuda::check_device(kName, -1);
  if (stream && stream.get() != Py_None && int_from_python(stream.get(), token))
    cuda::wait_for_foreign(device, token);
  auto owner = std::make_unique<Owner>(Owner{o, device});
  auto storage =
      Storage::wrap(p, n ? size_t((last + 1) * item) : 0, Device{DeviceType::CUDA, int8_t(device)},
                    release_owner, owner.get());
  Py_INCREF(o);
  owner.release();
  storage->set_read_only(read_only != 0);
  return make_tensor(std::move(storage), sizes, strides, 0, dtype);
}

bool init_cuda_arrays() { return add_properties(TensorType, properties); }

}  // namespace rush::py
