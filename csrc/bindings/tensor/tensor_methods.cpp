// tensor_methods.cpp: methods of a tensor that read its description, or leave the world of tensors.
#include <cstring>

#include "autograd/meta.h"
#include "bindings/autograd/autograd.h"
#include "bindings/handle.h"
#include "core/device_memory.h"
#include "core/value_read.h"
#include "jit/recorder.h"
#include "ops/ops.h"

namespace rush::py {
namespace {

// size() and stride(): all of them, or the one of `dim`.
PyObject* one_or_all(const char* name, PyObject* o, PyObject* const* args, Py_ssize_t nargs,
                     PyObject* kwnames, IntList numbers, PyObject* (*all)(IntList)) {
  return guarded([&] {
    constexpr const char* names[] = {"dim"};
    PyObject* dim;
    parse_arguments({name, names, 1, 0}, args, nargs, kwnames, &dim);
    if (!given(dim)) return all(numbers);
    int64_t d;
    check(int_from_python(dim, d), ErrorKind::Type, name, "'dim' must be int, not ",
          type_name(dim));
    return PyLong_FromLongLong(numbers[size_t(wrap_dim(name, d, unwrap(o).dim()))]);
  });
}

PyObject* tuple_of(IntList numbers) {
  Handle tuple = Handle::steal(PyTuple_New(Py_ssize_t(numbers.size())));
  for (size_t i = 0; i < numbers.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), Py_ssize_t(i),
                     Handle::steal(PyLong_FromLongLong(numbers[i])).release());
  }
  return tuple.release();
}

PyObject* size(PyObject* o, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return one_or_all("size", o, args, n, kwnames, unwrap(o).sizes(), wrap_size);
}
PyObject* stride(PyObject* o, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return one_or_all("stride", o, args, n, kwnames, unwrap(o).strides(), tuple_of);
}

PyObject* dim(PyObject* o, PyObject*) { return PyLong_FromLongLong(unwrap(o).dim()); }
PyObject* numel(PyObject* o, PyObject*) { return PyLong_FromLongLong(unwrap(o).numel()); }
PyObject* element_size(PyObject* o, PyObject*) {
  return PyLong_FromLongLong(unwrap(o).element_size());
}
PyObject* storage_offset(PyObject* o, PyObject*) { return PyLong_FromLongLong(unwrap(o).offset()); }
PyObject* data_ptr(PyObject* o, PyObject*) {
  const Tensor& t = unwrap(o);
  if (t.is_meta() || t.is_batched() || t.numel() == 0) return PyLong_FromVoidPtr(nullptr);
  return guarded([&] {
    jit::end_recording("a tensor's address in Python's hands");
    t.storage()->expose();
    return PyLong_FromVoidPtr(t.data());
  });
}

PyObject* is_contiguous(PyObject* o, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&] {
    constexpr const char* names[] = {"memory_format"};
    PyObject* format;
    parse_arguments({"is_contiguous", names, 1, 0}, args, n, kwnames, &format);
    if (!given(format)) return PyBool_FromLong(unwrap(o).is_contiguous());
    check(is_memory_format(format), ErrorKind::Type, "is_contiguous",
          "'memory_format' must be a memory_format, not ", type_name(format));
    return PyBool_FromLong(unwrap(o).is_contiguous(as_memory_format(format)));
  });
}

PyObject* is_floating_point(PyObject* o, PyObject*) {
  return PyBool_FromLong(unwrap(o).is_floating());
}
PyObject* is_complex(PyObject* o, PyObject*) { return PyBool_FromLong(unwrap(o).is_complex()); }
PyObject* is_signed(PyObject* o, PyObject*) {
  return PyBool_FromLong(info(unwrap(o).dtype()).is_signed);
}
PyObject* is_view(PyObject* o, PyObject*) { return PyBool_FromLong(bool(unwrap(o).impl()->base)); }
PyObject* is_inference(PyObject* o, PyObject*) {
  return PyBool_FromLong(unwrap(o).impl()->has(TensorImpl::kInference));
}
PyObject* get_device(PyObject* o, PyObject*) {
  const Device d = unwrap(o).device();
  return PyLong_FromLong(d.is_cuda() ? std::max<long>(d.index, 0) : -1);
}

// An element as a Python number; uint64 needs its own way, as it may not fit into an int64.
PyObject* element(const void* p, DType dtype) {
  if (dtype == DType::UInt64) {
    uint64_t v;
    std::memcpy(&v, p, sizeof v);
    return PyLong_FromUnsignedLongLong(v);
  }
  return wrap(load_scalar(p, dtype));
}

void check_readable(const char* name, const Tensor& t) {
  check(!t.is_meta(), ErrorKind::Runtime, name, "a tensor on the meta device has no values");
  check_not_batched(name, t);
}

// The one element of a tensor; a GPU is waited for without the GIL.
PyObject* element(const Tensor& t) {
  if (!t.is_cuda()) return element(t.data(), t.dtype());
  alignas(16) char bytes[16];
  {
    const ReleaseGil released;
    cuda_memory().read(bytes, t.data(), size_t(t.element_size()), t.device().index);
  }
  return element(bytes, t.dtype());
}

PyObject* item(PyObject* o, PyObject*) {
  return guarded([&] {
    const Tensor& t = unwrap(o);
    check(t.numel() == 1, ErrorKind::Runtime, "item",
          "only a tensor with one element converts to a number, this one has shape ", t.sizes());
    check_readable("item", t);
    note_value_read(t, "a Python number");
    return element(t);
  });
}

PyObject* to_complex(PyObject* o, PyObject*) {
  return guarded([&] {
    const Tensor& t = unwrap(o);
    check(t.numel() == 1, ErrorKind::Argument, "complex",
          "only a tensor with one element converts to a Python number, this one has shape ",
          t.sizes());
    const auto z = t.item().to<complex<double>>();
    return PyComplex_FromDoubles(z.re, z.im);
  });
}

// A 0-d tensor is formatted as its number, everything else as its text.
PyObject* format(PyObject* o, PyObject* spec) {
  return guarded([&]() -> PyObject* {
    const Tensor& t = unwrap(o);
    check(PyUnicode_Check(spec), ErrorKind::Type, "__format__", "the format must be a str, got ",
          type_name(spec));
    if (t.dim() == 0 && !t.is_meta() && !t.is_batched() && Py_TYPE(o) == TensorType) {
      const Handle number = Handle::steal(element(t));
      return PyObject_Format(number.get(), spec);
    }
    // object's own: the text for an empty spec, a TypeError for any other.
    return PyObject_CallMethod(reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__format__", "OO",
                               o, spec);
  });
}

PyTypeObject* subclass_argument(const char* function, PyObject* cls) {
  check(PyType_Check(cls) && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(cls), TensorType),
        ErrorKind::Type, function, "'cls' must be a subclass of Tensor, not ", type_name(cls));
  return reinterpret_cast<PyTypeObject*>(cls);
}

// Tensor._make_subclass(cls, data, require_grad=False): a leaf over data's memory.
PyObject* make_subclass(PyObject*, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&] {
    constexpr const char* names[] = {"cls", "data", "require_grad"};
    PyObject* a[3];
    parse_arguments({"_make_subclass", names, 3, 2}, args, n, kwnames, a);
    PyTypeObject* cls = subclass_argument("_make_subclass", a[0]);
    check(is_tensor(a[1]), ErrorKind::Type, "_make_subclass", "'data' must be a Tensor, not ",
          type_name(a[1]));
    const Tensor t = detached(unwrap(a[1]));
    if (bool_argument("_make_subclass", "require_grad", a[2], false)) set_requires_grad(t, true);
    return wrap_as(cls, t);
  });
}

// x.as_subclass(cls): the same tensor seen as cls; the graph is kept.
PyObject* as_subclass(PyObject* o, PyObject* type) {
  return guarded([&] {
    PyTypeObject* cls = subclass_argument("as_subclass", type);
    return wrap_as(cls, alias(unwrap(o)));
  });
}

}  // namespace

PyMethodDef tensor_methods[] = {
    {"size", as_method(size), kFastcall,
     "size($self, dim=None)\n--\n\n"
     "The sizes, or one of them.\n"
     "\n"
     "Arguments:\n"
     "    dim: which size; None is all.\n"
     "\n"
     "Example:\n"
     "    >>> x = rl.zeros(2, 3)\n"
     "    >>> x.size(), x.size(-1)\n"
     "    (rushlight.Size([2, 3]), 3)"},
    {"stride", as_method(stride), kFastcall,
     "stride($self, dim=None)\n--\n\n"
     "Steps between elements, in elements.\n"
     "\n"
     "Arguments:\n"
     "    dim: of which dim; None is all.\n"
     "\n"
     "Example:\n"
     "    >>> x = rl.zeros(2, 3)\n"
     "    >>> x.stride(), x.t().stride(0)\n"
     "    ((3, 1), 1)"},
    {"dim", dim, METH_NOARGS,
     "dim($self)\n--\n\n"
     "The number of dimensions.\n"
     "\n"
     "Example:\n"
     "    >>> rl.zeros(2, 3).dim()\n"
     "    2"},
    {"ndimension", dim, METH_NOARGS,
     "ndimension($self)\n--\n\n"
     "The number of dimensions.\n"
     "\n"
     "Example:\n"
     "    >>> rl.zeros(2, 3).ndimension()\n"
     "    2"},
    {"numel", numel, METH_NOARGS,
     "numel($self)\n--\n\n"
     "The number of elements.\n"
     "\n"
     "Example:\n"
     "    >>> rl.zeros(2, 3).numel()\n"
     "    6"},
    {"nelement", numel, METH_NOARGS,
     "nelement($self)\n--\n\n"
     "The number of elements.\n"
     "\n"
     "Example:\n"
     "    >>> rl.zeros(2, 3).nelement()\n"
     "    6"},
    {"element_size", element_size, METH_NOARGS,
     "element_size($self)\n--\n\n"
     "Bytes of one element.\n"
     "\n"
     "Example:\n"
     "    >>> rl.zeros(1, dtype=rl.float64).element_size()\n"
     "    8"},
    {"storage_offset", storage_offset, METH_NOARGS,
     "storage_offset($self)\n--\n\n"
     "Where in its memory the tensor starts, in elements.\n"
     "\n"
     "Example:\n"
     "    >>> rl.arange(5)[2:].storage_offset()\n"
     "    2"},
    {"data_ptr", data_ptr, METH_NOARGS,
     "data_ptr($self)\n--\n\n"
     "The address of the first element.\n"
     "\n"
     "Example:\n"
     "    >>> x = rl.zeros(2)\n"
     "    >>> x[1:].data_ptr() - x.data_ptr()\n"
     "    4"},
    {"is_contiguous", as_method(is_contiguous), kFastcall,
     "is_contiguous($self, memory_format=None)\n--\n\n"
     "Whether elements lie in order, without gaps.\n"
     "\n"
     "Arguments:\n"
     "    memory_format: the order that is asked for; None is the usual one.\n"
     "\n"
     "Example:\n"
     "    >>> x = rl.zeros(1, 2, 3, 3)\n"
     "    >>> x.is_contiguous(), x.is_contiguous(memory_format=rl.channels_last)\n"
     "    (True, False)"},
    {"is_floating_point", is_floating_point, METH_NOARGS,
     "is_floating_point($self)\n--\n\n"
     "True for real floating dtypes.\n"
     "\n"
     "Example:\n"
     "    >>> rl.zeros(1).is_floating_point()\n"
     "    True"},
    {"is_complex", is_complex, METH_NOARGS,
     "is_complex($self)\n--\n\n"
     "True for complex dtypes.\n"
     "\n"
     "Example:\n"
     "    >>> rl.tensor([1j]).is_complex()\n"
     "    True"},
    {"is_signed", is_signed, METH_NOARGS,
     "is_signed($self)\n--\n\n"
     "True for signed dtypes.\n"
     "\n"
     "Example:\n"
     "    >>> rl.zeros(1, dtype=rl.uint8).is_signed()\n"
     "    False"},
    {"is_inference", is_inference, METH_NOARGS,
     "is_inference($self)\n--\n\n"
     "True when made in inference mode.\n"
     "\n"
     "Example:\n"
     "    >>> rl.zeros(1).is_inference()\n"
     "    False"},
    {"_is_view", is_view, METH_NOARGS,
     "_is_view($self)\n--\n\nTrue when the tensor looks at the memory of another one."},
    {"get_device", get_device, METH_NOARGS,
     "get_device($self)\n--\n\n"
     "The CUDA device's number, -1 on the CPU.\n"
     "\n"
     "Example:\n"
     "    >>> rl.zeros(1).get_device()\n"
     "    -1"},
    {"item", item, METH_NOARGS,
     "item($self)\n--\n\n"
     "The one element as a Python number.\n"
     "\n"
     "Waits for the GPU if the tensor lies there.\n"
     "\n"
     "Raises: RuntimeError: if there is not exactly one element.\n"
     "\n"
     "Example:\n"
     "    >>> rl.tensor([2.5]).item(), rl.tensor(3).item()\n"
     "    (2.5, 3)"},
    {"requires_grad_", as_method(tensor_requires_grad_), kFastcall,
     "requires_grad_($self, requires_grad=True)\n--\n\n"
     "Sets requires_grad; returns the tensor.\n"
     "\n"
     "Arguments:\n"
     "    requires_grad: whether to record what is done with it.\n"
     "\n"
     "Raises: RuntimeError: to switch it off for a result of recorded operations; use\n"
     "    `detach`.\n"
     "\n"
     "Example:\n"
     "    >>> x = rl.zeros(2).requires_grad_()\n"
     "    >>> x.requires_grad, x.requires_grad_(False).requires_grad\n"
     "    (True, False)"},
    {"backward", as_method(tensor_backward), kFastcall,
     "backward($self, gradient=None, retain_graph=None, create_graph=False, inputs=None)\n--\n\n"
     "Adds to the gradients of the leaves that this tensor was computed from.\n"
     "\n"
     "Gradients add up in `.grad` of the leaves: call the optimiser's zero_grad() between\n"
     "two steps. The graph is freed afterwards.\n"
     "\n"
     "Arguments:\n"
     "    gradient: the gradient of this tensor; not needed if it is a single number.\n"
     "    retain_graph: keep the graph for another call; None keeps it if create_graph is\n"
     "        set.\n"
     "    create_graph: record backward itself, for higher derivatives.\n"
     "    inputs: add to the gradients of these only.\n"
     "\n"
     "Raises: RuntimeError: if the tensor is not a single number and no gradient is given,\n"
     "    or if its graph is gone.\n"
     "\n"
     "Example:\n"
     "    >>> x = rl.tensor([1.0, 2.0], requires_grad=True)\n"
     "    >>> (x**2).backward(gradient=rl.tensor([1.0, 10.0]))\n"
     "    >>> x.grad\n"
     "    tensor([ 2., 40.])"},
    {"retain_grad", tensor_retain_grad, METH_NOARGS,
     "retain_grad($self)\n--\n\n"
     "Keeps the gradient of a tensor that is no leaf.\n"
     "\n"
     "Example:\n"
     "    >>> x = rl.ones(1, requires_grad=True)\n"
     "    >>> y = x * 2; y.retain_grad(); (y * 3).backward()\n"
     "    >>> y.grad\n"
     "    tensor([3.])"},
    {"register_hook", as_method(tensor_register_hook), kFastcall,
     "register_hook($self, hook)\n--\n\n"
     "Calls hook(grad) when the gradient of this tensor is there; what it returns, unless\n"
     "None, takes the gradient's place. Returns a handle.\n"
     "\n"
     "Arguments:\n"
     "    hook: a function of the gradient.\n"
     "\n"
     "Example:\n"
     "    >>> x = rl.ones(1, requires_grad=True)\n"
     "    >>> handle = x.register_hook(lambda grad: grad * 10)\n"
     "    >>> (x * 2).backward(); x.grad\n"
     "    tensor([20.])"},
    {"register_post_accumulate_grad_hook", as_method(tensor_register_accumulation_hook), kFastcall,
     "register_post_accumulate_grad_hook($self, hook)\n--\n\n"
     "Calls hook(tensor) after a gradient was added to this leaf's .grad. Returns a\n"
     "handle.\n"
     "\n"
     "Arguments:\n"
     "    hook: a function of the tensor.\n"
     "\n"
     "Example:\n"
     "    >>> x = rl.ones(1, requires_grad=True)\n"
     "    >>> handle = x.register_post_accumulate_grad_hook(lambda t: print(\"grad is\", t.grad))\n"
     "    >>> (x * 2).backward()\n"
     "    grad is tensor([2.])"},
    {"as_subclass", as_subclass, METH_O,
     "as_subclass($self, cls, /)\n--\n\n"
     "The same values as an object of a subclass.\n"
     "\n"
     "Arguments:\n"
     "    cls: a subclass of Tensor.\n"
     "\n"
     "Example:\n"
     "    >>> type(rl.ones(2).as_subclass(nn.Buffer)).__name__\n"
     "    'Buffer'"},
    {"_make_subclass", as_method(make_subclass), kFastcall | METH_STATIC,
     "A leaf of a subclass over the memory of a tensor."},
    {"__complex__", to_complex, METH_NOARGS, nullptr},
    {"__format__", format, METH_O, nullptr},
    {},
};

}  // namespace rush::py
