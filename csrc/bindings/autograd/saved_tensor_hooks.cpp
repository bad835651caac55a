// saved_tensor_hooks.cpp: Python's pack and unpack functions for what is saved for backward.
#include "bindings/autograd/saved_values.h"

namespace rush::py {
namespace {

class Packed final : public PackedTensor {
 public:
  Packed(PyObject* unpack, PyObject* packed) : unpack_(unpack), packed_(packed) {}
  Tensor unpack() override {
    return call_python([&] {
      const Handle t = Handle::steal(PyObject_CallOneArg(unpack_.get(), packed_.get()));
      check(is_tensor(t.get()), ErrorKind::Type, "saved_tensors_hooks",
            "unpack_hook must return a Tensor, it returned ", type_name(t.get()));
      return Tensor(unwrap(t.get()));
    });
  }
  PyObject* packed() const { return packed_.get(); }
  PyObject* unpack_hook() const { return unpack_.get(); }

 private:
  PyRef unpack_, packed_;
};

class Hooks final : public SavedTensorHooks {
 public:
  Hooks(PyObject* pack, PyObject* unpack) : pack_(pack), unpack_(unpack) {}
  Ref<PackedTensor> pack(const Tensor& t) override {
    return call_python([&] {
      const uint32_t version = t.version();
      const Handle argument = Handle::steal(wrap(t));
      const Handle packed = Handle::steal(PyObject_CallOneArg(pack_.get(), argument.get()));
      check(t.version() == version, ErrorKind::Runtime, "saved_tensors_hooks",
            "pack_hook modified its argument in place; it must leave the tensor as it is");
      return Ref<PackedTensor>(Ref<PackedTensor>::adopt(new Packed(unpack_.get(), packed.get())));
    });
  }

 private:
  PyRef pack_, unpack_;
};

PyObject* push(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    push_saved_tensor_hooks(hooks_from_python("saved_tensors_hooks", args, n));
    return Py_NewRef(Py_None);
  });
}

PyObject* pop(PyObject*, PyObject*) {
  return guarded([&] {
    pop_saved_tensor_hooks();
    return Py_NewRef(Py_None);
  });
}

PyObject* refusal(PyObject*, PyObject*) {
  const std::string* text = saved_tensor_hooks_refusal();
  return text ? PyUnicode_FromStringAndSize(text->data(), Py_ssize_t(text->size()))
              : Py_NewRef(Py_None);
}

PyObject* set_refusal(PyObject*, PyObject* o) {
  return guarded([&] {
    if (o == Py_None) {
      set_saved_tensor_hooks_refusal(nullptr);
    } else {
      check(PyUnicode_Check(o), ErrorKind::Type, "disable_saved_tensors_hooks",
            "expected a str, not ", type_name(o));
      const std::string text(text_of(o));
      set_saved_tensor_hooks_refusal(&text);
    }
    return Py_NewRef(Py_None);
  });
}

PyMethodDef functions[] = {
    {"_push_saved_tensors_hooks", as_method(push), METH_FASTCALL, nullptr},
    {"_pop_saved_tensors_hooks", pop, METH_NOARGS, nullptr},
    {"_saved_tensors_hooks_refusal", refusal, METH_NOARGS, nullptr},
    {"_set_saved_tensors_hooks_refusal", set_refusal, METH_O, nullptr},
    {},
};

}  // namespace

Ref<SavedTensorHooks> hooks_from_python(const char* function, PyObject* const* args, Py_ssize_t n) {
  check(n == 2 && PyCallable_Check(args[0]) && PyCallable_Check(args[1]), ErrorKind::Type, function,
        "expected two callables: pack_hook and unpack_hook");
  return Ref<SavedTensorHooks>::adopt(new Hooks(args[0], args[1]));
}

// All that is ever packed is packed by Hooks.
PyObject* packed_object(const PackedTensor& packed) {
  return static_cast<const Packed&>(packed).packed();
}
PyObject* unpack_hook_of(const PackedTensor& packed) {
  return static_cast<const Packed&>(packed).unpack_hook();
}

bool init_saved_tensor_hooks(PyObject* module) {
  return PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace rush::py
