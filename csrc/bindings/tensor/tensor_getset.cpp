// tensor_getset.cpp: the properties of a tensor. Those about gradients are in autograd.cpp.
#include "bindings/autograd/autograd.h"
#include "bindings/call/dispatch.h"
#include "bindings/handle.h"
#include "jit/recorder.h"

namespace rush::py {
namespace {

PyObject* call_name(const char* op, PyObject* self, std::initializer_list<PyObject*> more) {
  PyObject* args[kMaxDims + 1] = {self};
  std::copy(more.begin(), more.end(), args + 1);
  const auto overloads = find_ops(op);
  check(!overloads.empty(), ErrorKind::NotImplemented, op, "not implemented");
  return call_op(overloads, nullptr, args, Py_ssize_t(more.size()) + 1, nullptr);
}

PyObject* get_shape(PyObject* o, void*) { return wrap_size(unwrap(o).sizes()); }
PyObject* get_dtype(PyObject* o, void*) { return wrap(unwrap(o).dtype()); }
PyObject* get_device(PyObject* o, void*) { return wrap(unwrap(o).device()); }
PyObject* get_layout(PyObject*, void*) { return wrap(Layout::Strided); }
PyObject* get_ndim(PyObject* o, void*) { return PyLong_FromLongLong(unwrap(o).dim()); }
PyObject* get_itemsize(PyObject* o, void*) { return PyLong_FromLongLong(unwrap(o).element_size()); }
PyObject* get_nbytes(PyObject* o, void*) { return PyLong_FromLongLong(unwrap(o).nbytes()); }
PyObject* get_is_cpu(PyObject* o, void*) { return PyBool_FromLong(unwrap(o).is_cpu()); }
PyObject* get_is_cuda(PyObject* o, void*) { return PyBool_FromLong(unwrap(o).is_cuda()); }
PyObject* get_is_meta(PyObject* o, void*) { return PyBool_FromLong(unwrap(o).is_meta()); }
PyObject* get_false(PyObject*, void*) { return Py_NewRef(Py_False); }
PyObject* get_cdata(PyObject* o, void*) { return PyLong_FromVoidPtr(unwrap(o).impl()); }
PyObject* get_version(PyObject* o, void*) {
  return guarded([&] {
    check(!unwrap(o).impl()->has(TensorImpl::kInference), ErrorKind::Runtime, "_version",
          "tensors made under inference_mode() do not count their versions");
    jit::end_recording("a look at _version");
    return PyLong_FromLong(long(unwrap(o).version()));
  });
}

PyObject* get_base(PyObject* o, void*) {
  return guarded([&] { return wrap(Tensor(Ref<TensorImpl>(unwrap(o).impl()->base))); });
}

// All dimensions reversed: .T of PyTorch, for any number of dimensions.
PyObject* get_T(PyObject* o, void*) {
  return guarded([&] {
    const int64_t n = unwrap(o).dim();
    const Handle dims = Handle::steal(PyTuple_New(Py_ssize_t(n)));
    for (int64_t i = 0; i < n; ++i) {
      PyTuple_SET_ITEM(dims.get(), Py_ssize_t(i),
                       Handle::steal(PyLong_FromLongLong(n - 1 - i)).release());
    }
    return call_name("permute", o, {dims.get()});
  });
}

PyObject* swap_last_two(const char* name, PyObject* o) {
  if (unwrap(o).dim() == 0) return get_T(o, nullptr);
  check(unwrap(o).dim() >= 2, ErrorKind::Runtime, name,
        "needs at least two dimensions, this tensor has shape ", unwrap(o).sizes());
  const Handle a = Handle::steal(PyLong_FromLong(-2)), b = Handle::steal(PyLong_FromLong(-1));
  return call_name("transpose", o, {a.get(), b.get()});
}
PyObject* get_mT(PyObject* o, void*) {
  return guarded([&] { return swap_last_two("mT", o); });
}
PyObject* get_mH(PyObject* o, void*) {
  return guarded([&] {
    const Handle swapped = Handle::steal(swap_last_two("mH", o));
    return call_name("conj", swapped.get(), {});
  });
}
PyObject* get_H(PyObject* o, void*) {
  return guarded([&] {
    const int64_t n = unwrap(o).dim();
    check(n == 0 || n == 2, ErrorKind::Runtime, "H", "needs a matrix, this tensor has shape ",
          unwrap(o).sizes());
    const Handle swapped = n == 0 ? Handle::borrow(o) : Handle::steal(swap_last_two("H", o));
    return call_name("conj", swapped.get(), {});
  });
}

PyObject* get_real(PyObject* o, void*) {
  return guarded([&] { return call_name("real", o, {}); });
}
PyObject* get_imag(PyObject* o, void*) {
  return guarded([&] { return call_name("imag", o, {}); });
}

// x.real = v writes through the view.
int set_part(PyObject* part, PyObject* value) {
  return guarded_int([&] {
    const Handle view = Handle::steal(part);
    check(value, ErrorKind::Type, "", "this attribute cannot be deleted");
    Handle::steal(
        PyObject_CallMethod(view.get(), is_tensor(value) ? "copy_" : "fill_", "O", value));
    return 0;
  });
}
int set_real(PyObject* o, PyObject* value, void*) { return set_part(get_real(o, nullptr), value); }
int set_imag(PyObject* o, PyObject* value, void*) { return set_part(get_imag(o, nullptr), value); }

}  // namespace

PyGetSetDef tensor_getset[] = {
    {"shape", get_shape, nullptr, "The sizes of the dimensions.", nullptr},
    {"dtype", get_dtype, nullptr, "The type of the elements.", nullptr},
    {"device", get_device, nullptr, "Where the elements are.", nullptr},
    {"layout", get_layout, nullptr, "Always rushlight.strided.", nullptr},
    {"ndim", get_ndim, nullptr, "The number of dimensions.", nullptr},
    {"itemsize", get_itemsize, nullptr, "Bytes of one element.", nullptr},
    {"nbytes", get_nbytes, nullptr, "Bytes of all elements.", nullptr},
    {"T", get_T, nullptr, "A view with the dimensions reversed.", nullptr},
    {"mT", get_mT, nullptr, "A view with the last two dimensions swapped.", nullptr},
    {"H", get_H, nullptr, "The conjugate transpose of a matrix.", nullptr},
    {"mH", get_mH, nullptr, "The conjugate, with the last two dimensions swapped.", nullptr},
    {"real", get_real, set_real, "A view of the real parts.", nullptr},
    {"imag", get_imag, set_imag, "A view of the imaginary parts.", nullptr},
    {"is_cpu", get_is_cpu, nullptr, "True on the CPU.", nullptr},
    {"is_cuda", get_is_cuda, nullptr, "True on a CUDA device.", nullptr},
    {"is_meta", get_is_meta, nullptr, "True for tensors without values.", nullptr},
    {"is_sparse", get_false, nullptr, "Always False.", nullptr},
    {"is_quantized", get_false, nullptr, "Always False.", nullptr},
    {"is_nested", get_false, nullptr, "Always False.", nullptr},
    {"is_mkldnn", get_false, nullptr, "Always False.", nullptr},
    {"_cdata", get_cdata, nullptr, "A number that tells tensor objects apart.", nullptr},
    {"_version", get_version, nullptr, "How often the memory was written in place.", nullptr},
    {"_base", get_base, nullptr, "The tensor that this one is a view of, or None.", nullptr},
    {"requires_grad", get_requires_grad, set_requires_grad_, "Whether operations are recorded.",
     nullptr},
    {"grad", get_grad, set_grad, "The gradient, or None.", nullptr},
    {"grad_fn", get_grad_fn, nullptr, "The node that made this tensor, or None.", nullptr},
    {"is_leaf", get_is_leaf, nullptr, "True for tensors that no recorded operation made.", nullptr},
    {"data", get_data, set_data, "The values, cut off from the graph.", nullptr},
    {"output_nr", get_output_nr, nullptr, "Which result of grad_fn this tensor is.", nullptr},
    {"retains_grad", get_retains_grad, nullptr, "Whether retain_grad() was called.", nullptr},
    {},
};

}  // namespace rush::py
