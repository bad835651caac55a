// sample_seeder.cpp: gives Python's, NumPy's and Rushlight's generators the state that belongs to
// one sample of a dataset, and gives the program its own state back afterwards.
//
// It runs before every sample, most of which draw nothing, so it has to be cheap: random.seed takes
// 4 microseconds and restoring NumPy's state 40. The state of both Mersenne twisters is written in
// place instead, which takes a few hundred nanoseconds. NumPy publishes the address of its state;
// the layout of Python's object is checked at run time (python_twister_is_known), and where it is
// another one, or NumPy runs another generator, Python code takes the public, slow way.
#include "bindings/data/processes.h"
#include "bindings/handle.h"

#include <cstring>

namespace rush::py {
namespace {

constexpr int kWords = 624;

// As CPython and NumPy hold a Mersenne twister: the same parts in another order.
struct PythonTwister {
  PyObject_HEAD int position;
  uint32_t words[kWords];
};
struct NumpyTwister {
  uint32_t words[kWords];
  int position;
};

// A twister at rest stands at the end of its words: the first draw turns them over.
template <class Twister>
bool was_drawn_from(const Twister& t, uint32_t first_word) {
  return t.position != kWords || t.words[0] != first_word;
}

uint64_t mix(uint64_t x) {  // the finaliser of SplitMix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}
constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;

template <class Twister>
uint32_t fill(Twister& t, uint64_t seed) {
  for (int i = 0; i < kWords / 2; ++i) {
    const uint64_t v = mix(seed + uint64_t(i + 1) * kGolden);
    std::memcpy(&t.words[2 * i], &v, sizeof(v));
  }
  t.words[0] |= 0x80000000;  // never all zero
  t.position = kWords;
  return t.words[0];
}

template <class Twister>
struct Saved {
  uint32_t words[kWords];
  int position;
  void take(const Twister& t) {
    std::memcpy(words, t.words, sizeof(words));
    position = t.position;
  }
  void give(Twister& t) const {
    std::memcpy(t.words, words, sizeof(words));
    t.position = position;
  }
};

struct Seeder {
  PyObject_HEAD PyObject* python_random;  // random._inst
  NumpyTwister* numpy;                    // null: not loaded
  PyObject* numpy_owner;                  // keeps it alive
  PyObject* reset_numpy;                  // called after a draw, to forget half a pair of normals
  uint32_t python_first, numpy_first;
  bool numpy_drawn;      // since save()
  bool numpy_half_pair;  // it may keep the second of a pair of normals
  Saved<PythonTwister> saved_python;
  Saved<NumpyTwister> saved_numpy;
  PyObject* saved_gauss;  // random.gauss keeps half a pair too
  uint64_t saved_seed, saved_call;
};
PyTypeObject* SeederType;

Seeder* seeder_of(PyObject* o) { return reinterpret_cast<Seeder*>(o); }
PythonTwister& twister_of(PyObject* o) { return *reinterpret_cast<PythonTwister*>(o); }

// Reads a generator's state once by address and once by the public method.
bool python_twister_is_known(PyObject* generator) {
  const Handle base = Handle::steal(PyImport_ImportModule("_random"));
  const Handle type = Handle::steal(PyObject_GetAttrString(base.get(), "Random"));
  if (!PyObject_IsInstance(generator, type.get())) return false;
  if (reinterpret_cast<PyTypeObject*>(type.get())->tp_basicsize < Py_ssize_t(sizeof(PythonTwister)))
    return false;
  const Handle state = Handle::steal(PyObject_CallMethod(type.get(), "getstate", "O", generator));
  if (!PyTuple_Check(state.get()) || PyTuple_GET_SIZE(state.get()) != kWords + 1) return false;
  for (int i = 0; i <= kWords; ++i) {
    const unsigned long v = PyLong_AsUnsignedLong(PyTuple_GET_ITEM(state.get(), i));
    const PythonTwister& t = twister_of(generator);
    if (v != (i < kWords ? t.words[i] : static_cast<unsigned long>(t.position))) return false;
  }
  return true;
}

PyObject* seeder_new(PyTypeObject* type, PyObject* args, PyObject*) {
  return guarded([&]() -> PyObject* {
    PyObject *random, *owner, *reset;
    unsigned long long address;
    if (!PyArg_ParseTuple(args, "OKOO", &random, &address, &owner, &reset)) throw PythonError{};
    check(python_twister_is_known(random), ErrorKind::NotImplemented, "SampleSeeder",
          "the layout of Python's generator is not known");
    PyObject* o = type->tp_alloc(type, 0);
    if (!o) throw PythonError{};
    Seeder& s = *seeder_of(o);
    s.python_random = Py_NewRef(random);
    s.numpy = reinterpret_cast<NumpyTwister*>(address);
    s.numpy_owner = Py_NewRef(owner);
    s.reset_numpy = Py_NewRef(reset);
    s.saved_gauss = Py_NewRef(Py_None);
    return o;
  });
}

void seeder_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  Seeder& s = *seeder_of(self);
  for (PyObject* o : {s.python_random, s.numpy_owner, s.reset_numpy, s.saved_gauss}) Py_XDECREF(o);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* save(PyObject* self, PyObject* half_pair) {
  return guarded([&] {
    Seeder& s = *seeder_of(self);
    s.numpy_half_pair = half_pair == Py_True;
    s.saved_python.take(twister_of(s.python_random));
    Py_XSETREF(s.saved_gauss,
               Handle::steal(PyObject_GetAttrString(s.python_random, "gauss_next")).release());
    if (s.numpy) s.saved_numpy.take(*s.numpy);
    s.saved_seed = default_generator().initial_seed();
    s.saved_call = default_generator().offset();
    s.python_first = s.numpy_first = 0;  // a fill never leaves a zero there
    return Py_NewRef(Py_None);
  });
}

// True when NumPy was drawn from since save(): then its public functions have to restore it.
PyObject* restore(PyObject* self, PyObject*) {
  return guarded([&] {
    Seeder& s = *seeder_of(self);
    s.saved_python.give(twister_of(s.python_random));
    check_status(PyObject_SetAttrString(s.python_random, "gauss_next", s.saved_gauss));
    bool drawn = s.numpy_drawn;
    if (s.numpy) {
      drawn = drawn || (s.numpy_first != 0 && was_drawn_from(*s.numpy, s.numpy_first));
      s.saved_numpy.give(*s.numpy);
    }
    s.numpy_drawn = false;
    default_generator().manual_seed(s.saved_seed);
    default_generator().set_offset(s.saved_call);
    return PyBool_FromLong(drawn);
  });
}

PyObject* seed(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    check(n == 2, ErrorKind::Type, "seed", "expected an epoch's seed and an index");
    const uint64_t epoch = PyLong_AsUnsignedLongLongMask(args[0]);
    const uint64_t index = PyLong_AsUnsignedLongLongMask(args[1]);
    if (PyErr_Occurred()) throw PythonError{};
    const uint64_t sample = mix(mix(epoch + kGolden) ^ (index * kGolden + 1));

    Seeder& s = *seeder_of(self);
    PythonTwister& python = twister_of(s.python_random);
    if (was_drawn_from(python, s.python_first))
      check_status(PyObject_SetAttrString(s.python_random, "gauss_next", Py_None));
    s.python_first = fill(python, sample ^ 0x707974686f6e);
    if (s.numpy) {
      if (s.numpy_first != 0 && was_drawn_from(*s.numpy, s.numpy_first))
        s.numpy_drawn = s.numpy_half_pair = true;
      if (s.numpy_half_pair) Handle::steal(PyObject_CallNoArgs(s.reset_numpy));
      s.numpy_half_pair = false;
      s.numpy_first = fill(*s.numpy, sample ^ 0x6e756d7079);
    }
    default_generator().manual_seed(sample);
    return Py_NewRef(Py_None);
  });
}

PyMethodDef methods[] = {
    {"save", save, METH_O,
     "Remembers the state of all generators. True: NumPy keeps the second of a pair of normals."},
    {"restore", restore, METH_NOARGS,
     "Brings them back. True: NumPy was used, so restore it by its own functions too."},
    {"seed", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(seed)), METH_FASTCALL,
     "seed(epoch_seed, index): gives all generators the state of one sample."},
    {},
};
PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("Seeds all generators for one sample of a dataset.")},
    {Py_tp_new, reinterpret_cast<void*>(seeder_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(seeder_dealloc)},
    {Py_tp_methods, methods},
    {},
};
PyType_Spec spec = {"rushlight._SampleSeeder", sizeof(Seeder), 0, Py_TPFLAGS_DEFAULT, slots};

}  // namespace

bool init_sample_seeder(PyObject* module) {
  SeederType = add_type(module, &spec);
  return SeederType != nullptr;
}

}  // namespace rush::py
