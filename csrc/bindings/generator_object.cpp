// generator_object.cpp: rushlight.Generator, the default generator and the functions that seed it.
#include "bindings/handle.h"
#include "bindings/type_docs.h"
#include "jit/recorder.h"

#include <cstring>

namespace rush::py {
namespace {

struct GeneratorObject {
  PyObject_HEAD std::shared_ptr<Generator> generator;
  Device device;
};
PyTypeObject* GeneratorType;
PyObject* g_default;

GeneratorObject* object_of(PyObject* o) { return reinterpret_cast<GeneratorObject*>(o); }
Generator& generator_of(PyObject* o) {
  jit::end_recording("a generator that is asked or seeded");
  return o == g_default ? default_generator() : *object_of(o)->generator;
}

PyObject* make_object(PyTypeObject* type, std::shared_ptr<Generator> generator, Device device) {
  PyObject* o = type->tp_alloc(type, 0);
  if (!o) throw PythonError{};
  new (&object_of(o)->generator) std::shared_ptr<Generator>(std::move(generator));
  object_of(o)->device = device;
  return o;
}

PyObject* generator_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    static constexpr const char* names[] = {"device"};
    PyObject* device;
    parse_arguments({"Generator", names, 1, 0}, args, kwargs, &device);
    return make_object(type, std::make_shared<Generator>(),
                       device_argument("Generator", device).value_or(Device{}));
  });
}

void generator_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  std::destroy_at(&object_of(self)->generator);
  type->tp_free(self);
  Py_DECREF(type);
}

// Any int of 64 bits, signed or unsigned; a negative one stands for its two's complement.
uint64_t seed_from_python(PyObject* o) {
  const Handle index = Handle::steal(PyNumber_Index(o));
  int overflow = 0;
  const long long small = PyLong_AsLongLongAndOverflow(index.get(), &overflow);
  if (overflow == 0) return uint64_t(small);
  const unsigned long long large = overflow > 0 ? PyLong_AsUnsignedLongLong(index.get()) : 0;
  if (overflow < 0 || PyErr_Occurred()) {
    PyErr_Clear();
    const Handle text = Handle::steal(PyObject_Str(index.get()));
    fail(ErrorKind::Argument, "manual_seed", "overflow: the seed ", text_of(text.get()),
         " does not fit into 64 bits");
  }
  return large;
}

PyObject* state_tensor(const Generator& g) {
  const Generator::State state = g.get_state();
  const Tensor out = make_tensor(Dims{int64_t(state.size())}, DType::UInt8);
  std::memcpy(out.data(), state.data(), state.size());
  return wrap(out);
}

void set_state(Generator& g, PyObject* o) {
  check(is_tensor(o) && unwrap(o).dtype() == DType::UInt8, ErrorKind::Type, "set_state",
        "expected a uint8 tensor as get_state() returns it, got ", type_name(o));
  const Tensor& t = unwrap(o);
  check_argument(t.is_cpu() && t.is_contiguous(), "set_state",
                 "the state must be a contiguous CPU tensor");
  g.set_state({static_cast<const std::byte*>(t.data()), size_t(t.numel())});
}

PyObject* manual_seed(PyObject* self, PyObject* o) {
  return guarded([&] {
    generator_of(self).manual_seed(seed_from_python(o));
    return Py_NewRef(self);
  });
}
PyObject* seed(PyObject* self, PyObject*) {
  return guarded([&] { return PyLong_FromUnsignedLongLong(generator_of(self).seed()); });
}
PyObject* initial_seed(PyObject* self, PyObject*) {
  return PyLong_FromUnsignedLongLong(generator_of(self).initial_seed());
}
PyObject* get_offset(PyObject* self, PyObject*) {
  return PyLong_FromUnsignedLongLong(generator_of(self).offset());
}
PyObject* set_offset(PyObject* self, PyObject* o) {
  return guarded([&] {
    generator_of(self).set_offset(seed_from_python(o));
    return Py_NewRef(self);
  });
}
PyObject* get_state(PyObject* self, PyObject*) {
  return guarded([&] { return state_tensor(generator_of(self)); });
}
PyObject* set_state_(PyObject* self, PyObject* o) {
  return guarded([&] {
    set_state(generator_of(self), o);
    return Py_NewRef(self);
  });
}
PyObject* clone_state(PyObject* self, PyObject*) {
  return guarded([&] {
    return make_object(Py_TYPE(self), generator_of(self).clone(), object_of(self)->device);
  });
}
PyObject* get_device(PyObject* self, void*) { return wrap(object_of(self)->device); }

PyObject* generator_reduce(PyObject* self, PyObject*) {
  return guarded([&] {
    const Handle device = Handle::steal(wrap(object_of(self)->device));
    const Generator& g = generator_of(self);
    return Py_BuildValue("O(O)(KK)", Py_TYPE(self), device.get(),
                         static_cast<unsigned long long>(g.initial_seed()),
                         static_cast<unsigned long long>(g.offset()));
  });
}

PyObject* generator_setstate(PyObject* self, PyObject* state) {
  unsigned long long seed = 0, offset = 0;
  if (!PyTuple_Check(state)) {
    PyErr_SetString(PyExc_TypeError, "Generator.__setstate__: expected a tuple of two ints");
    return nullptr;
  }
  if (!PyArg_ParseTuple(state, "KK", &seed, &offset)) return nullptr;
  generator_of(self).manual_seed(seed);
  generator_of(self).set_offset(offset);
  Py_RETURN_NONE;
}

PyObject* generator_repr(PyObject* self) {
  return guarded([&] {
    return PyUnicode_FromFormat("<rushlight.Generator device='%s' seed=%llu>",
                                concat(object_of(self)->device).c_str(),
                                static_cast<unsigned long long>(generator_of(self).initial_seed()));
  });
}

PyMethodDef methods[] = {
    {"manual_seed", manual_seed, METH_O, "manual_seed($self, seed, /)\n--\n\nSets the seed."},
    {"seed", seed, METH_NOARGS, "seed($self, /)\n--\n\nSeeds from the system's entropy."},
    {"initial_seed", initial_seed, METH_NOARGS, "initial_seed($self, /)\n--\n\nThe seed."},
    {"get_state", get_state, METH_NOARGS, "get_state($self, /)\n--\n\nThe state, as bytes."},
    {"set_state", set_state_, METH_O, "set_state($self, state, /)\n--\n\nRestores a state."},
    {"get_offset", get_offset, METH_NOARGS, "get_offset($self, /)\n--\n\nCalls made so far."},
    {"set_offset", set_offset, METH_O, "set_offset($self, offset, /)\n--\n\nSets that number."},
    {"clone_state", clone_state, METH_NOARGS, "clone_state($self, /)\n--\n\nAn equal generator."},
    {"__reduce__", generator_reduce, METH_NOARGS, nullptr},
    {"__setstate__", generator_setstate, METH_O, nullptr},
    {},
};
PyGetSetDef attributes[] = {
    {"device", get_device, nullptr, "The device it was made for.", nullptr},
    {},
};
PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>(kGeneratorDoc)},
    {Py_tp_new, reinterpret_cast<void*>(generator_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(generator_dealloc)},
    {Py_tp_repr, reinterpret_cast<void*>(generator_repr)},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {},
};
PyType_Spec spec = {"rushlight.Generator", sizeof(GeneratorObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

// The same for the default generator, as functions of the module.
PyObject* default_manual_seed(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    const Handle number = Handle::maybe(PyNumber_Long(o));  // as int(seed): programs pass floats
    if (number) return manual_seed(g_default, number.get());
    check(!PyErr_ExceptionMatches(PyExc_ValueError), ErrorKind::Value, "manual_seed",
          "expected an int, not ", type_name(o));
    return nullptr;
  });
}
PyObject* default_seed(PyObject*, PyObject*) { return seed(g_default, nullptr); }
PyObject* default_initial_seed(PyObject*, PyObject*) { return initial_seed(g_default, nullptr); }
PyObject* get_rng_state(PyObject*, PyObject*) { return get_state(g_default, nullptr); }
PyObject* set_rng_state(PyObject*, PyObject* o) {
  return guarded([&] {
    set_state(generator_of(g_default), o);
    return Py_NewRef(Py_None);
  });
}

PyMethodDef functions[] = {
    {"manual_seed", default_manual_seed, METH_O,
     "manual_seed(seed, /)\n--\n\n"
     "Seeds the default generator and returns it.\n"
     "\n"
     "Also seeds the generators of all GPUs.\n"
     "\n"
     "Arguments:\n"
     "    seed: an int; negative ones count from 2^64 down.\n"
     "\n"
     "Example:\n"
     "    >>> a = rl.manual_seed(1) and rl.rand(2)\n"
     "    >>> rl.equal(a, rl.manual_seed(1) and rl.rand(2))\n"
     "    True"},
    {"seed", default_seed, METH_NOARGS,
     "seed()\n--\n\n"
     "Seeds the default generator from the system's entropy.\n"
     "\n"
     "Example:\n"
     "    >>> isinstance(rl.seed(), int)\n"
     "    True"},
    {"initial_seed", default_initial_seed, METH_NOARGS,
     "initial_seed()\n--\n\n"
     "The default generator's seed.\n"
     "\n"
     "Example:\n"
     "    >>> _ = rl.manual_seed(5)\n"
     "    >>> rl.initial_seed()\n"
     "    5"},
    {"get_rng_state", get_rng_state, METH_NOARGS,
     "get_rng_state()\n--\n\n"
     "The default generator's state, as a uint8 tensor.\n"
     "\n"
     "Example:\n"
     "    >>> state = rl.get_rng_state()\n"
     "    >>> a = rl.rand(2); rl.set_rng_state(state); rl.equal(a, rl.rand(2))\n"
     "    True"},
    {"set_rng_state", set_rng_state, METH_O,
     "set_rng_state(new_state, /)\n--\n\n"
     "Restores the default generator's state.\n"
     "\n"
     "Arguments:\n"
     "    new_state: what `get_rng_state` gave.\n"
     "\n"
     "Example:\n"
     "    >>> state = rl.get_rng_state()\n"
     "    >>> rl.set_rng_state(state)\n"
     "    >>> rl.equal(rl.get_rng_state(), state)\n"
     "    True"},
    {},
};

}  // namespace

bool is_generator(PyObject* o) { return PyObject_TypeCheck(o, GeneratorType); }
Generator* as_generator(PyObject* o) {
  return o == g_default ? &default_generator() : object_of(o)->generator.get();
}

bool init_generator(PyObject* module) {
  GeneratorType = add_type(module, &spec);
  if (!GeneratorType) return false;
  g_default = guarded([] { return make_object(GeneratorType, default_generator_pointer(), {}); });
  return g_default && PyModule_AddObjectRef(module, "default_generator", g_default) == 0 &&
         PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace rush::py
