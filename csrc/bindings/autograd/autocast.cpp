// autocast.cpp: the switches of mixed precision, as rushlight.amp turns them.
#include "ops/autocast/autocast.h"

#include "bindings/autograd/training.h"
#include "bindings/handle.h"
#include "bindings/tensor/tensor_object.h"
#include "jit/recorder.h"

namespace rush::py {
namespace {

// Devices that autocast knows; PyTorch's default for calls without one is CUDA.
DeviceType device_type(const char* function, PyObject* o) {
  if (!given(o)) return DeviceType::CUDA;
  check(PyUnicode_Check(o), ErrorKind::ArgumentType, function,
        "device_type must be a str such as 'cpu', not ", type_name(o));
  const std::string_view text = text_of(o);
  const std::string_view kind = text.substr(0, text.find(':'));
  if (kind == "cpu") return DeviceType::CPU;
  if (kind == "cuda") return DeviceType::CUDA;
  if (kind == "meta") return DeviceType::Meta;  // for plans of what a GPU will do
  fail(ErrorKind::Runtime, function, "autocast knows the device types 'cpu' and 'cuda', not '",
       text, "'");
}

// Programs ask about every kind of device that PyTorch has; there autocast is off.
bool is_of_another_kind(PyObject* o) {
  if (!o || !PyUnicode_Check(o)) return false;
  const std::string_view text = text_of(o);
  for (const char* kind : {"mps", "xpu", "hpu", "mtia", "ipu", "xla", "maia", "privateuseone"}) {
    if (text.substr(0, text.find(':')) == kind) return true;
  }
  return false;
}

bool flag(const char* function, PyObject* o) {
  check(PyBool_Check(o), ErrorKind::ArgumentType, function, "expected a bool, not ", type_name(o));
  return o == Py_True;
}

PyObject* none() { return Py_NewRef(Py_None); }

PyObject* is_enabled(PyObject*, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&] {
    constexpr const char* names[] = {"device_type"};
    PyObject* a[1];
    parse_arguments({"is_autocast_enabled", names, 1, 0}, args, n, kwnames, a);
    return PyBool_FromLong(!is_of_another_kind(a[0]) &&
                           autocast_enabled(device_type("is_autocast_enabled", a[0])));
  });
}

// set_autocast_enabled(device_type, enabled), or the old form with the flag alone.
PyObject* set_enabled(PyObject*, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&] {
    constexpr const char* function = "set_autocast_enabled";
    constexpr const char* names[] = {"device_type", "enabled"};
    PyObject* a[2];
    parse_arguments({function, names, 2, 1}, args, n, kwnames, a);
    if (a[1] && is_of_another_kind(a[0]) && !flag(function, a[1])) return none();
    if (a[1])
      set_autocast_enabled(device_type(function, a[0]), flag(function, a[1]));
    else
      set_autocast_enabled(DeviceType::CUDA, flag(function, a[0]));
    return none();
  });
}

PyObject* get_dtype(PyObject*, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&] {
    constexpr const char* names[] = {"device_type"};
    PyObject* a[1];
    parse_arguments({"get_autocast_dtype", names, 1, 1}, args, n, kwnames, a);
    if (is_of_another_kind(a[0])) return wrap(DType::Float16);
    return wrap(autocast_dtype(device_type("get_autocast_dtype", a[0])));
  });
}
PyObject* set_dtype(PyObject*, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&] {
    constexpr const char* function = "set_autocast_dtype";
    constexpr const char* names[] = {"device_type", "dtype"};
    PyObject* a[2];
    parse_arguments({function, names, 2, 2}, args, n, kwnames, a);
    check(is_dtype(a[1]), ErrorKind::ArgumentType, function, "expected a dtype, not ",
          type_name(a[1]));
    set_autocast_dtype(device_type(function, a[0]), as_dtype(a[1]));
    return none();
  });
}

PyObject* is_on(PyObject*, PyObject*) { return PyBool_FromLong(autocast_enabled()); }

// _autocast_policy(name, device_type): the policy of an op of the table as its row spells it, or
// None.
PyObject* policy(PyObject*, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&] {
    constexpr const char* function = "_autocast_policy";
    constexpr const char* names[] = {"name", "device_type"};
    PyObject* a[2];
    parse_arguments({function, names, 2, 2}, args, n, kwnames, a);
    check(PyUnicode_Check(a[0]), ErrorKind::ArgumentType, function, "the name must be a str");
    switch (autocast_policy(text_of(a[0]), device_type(function, a[1]))) {
      case AutocastPolicy::None:
        return none();
      case AutocastPolicy::LowerPrecision:
        return PyUnicode_FromString("lower_precision");
      case AutocastPolicy::Float32:
        return PyUnicode_FromString("float32");
      case AutocastPolicy::Float32ByOption:
        return PyUnicode_FromString("float32_by_option");
      case AutocastPolicy::Widest:
        return PyUnicode_FromString("widest");
    }
    return none();
  });
}

PyObject* is_cache_enabled(PyObject*, PyObject*) {
  return PyBool_FromLong(autocast_cache_enabled());
}
PyObject* set_cache_enabled(PyObject*, PyObject* on) {
  return guarded([&] {
    set_autocast_cache_enabled(flag("set_autocast_cache_enabled", on));
    return none();
  });
}
PyObject* clear_cache(PyObject*, PyObject*) {
  return guarded([&] {
    clear_autocast_cache();
    return none();
  });
}
PyObject* increment(PyObject*, PyObject*) { return PyLong_FromLong(autocast_nesting(1)); }
PyObject* decrement(PyObject*, PyObject*) { return PyLong_FromLong(autocast_nesting(-1)); }

// _begin_casts(weights) -> whether _end_casts(weights) is to be called, which gives those of this
// call: Note [Weights cast ahead] in ops/autocast/autocast.h. Both are lists; equal ones are one.
PyObject* begin_casts(PyObject*, PyObject* weights) {
  return guarded([&] {
    check(PyList_Check(weights), ErrorKind::Type, "_begin_casts", "expected a list of weights");
    // A recorded call casts each weight where it is used, whatever came before.
    if (jit::recorder_here()) return Py_NewRef(Py_False);
    std::vector<Tensor> last;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(weights); ++i)
      last.push_back(unwrap(PyList_GET_ITEM(weights, i)));
    return PyBool_FromLong(begin_cast_weights(std::move(last)));
  });
}
PyObject* end_casts(PyObject*, PyObject* weights) {
  return guarded([&] {
    check(PyList_Check(weights), ErrorKind::Type, "_end_casts", "expected a list of weights");
    const std::vector<Tensor> now = end_cast_weights();
    bool same = PyList_GET_SIZE(weights) == Py_ssize_t(now.size());
    for (size_t i = 0; same && i < now.size(); ++i)
      same = unwrap(PyList_GET_ITEM(weights, Py_ssize_t(i))).is_same(now[i]);
    if (same) return Py_NewRef(weights);
    Handle list = Handle::steal(PyList_New(0));
    for (const Tensor& t : now)
      check_status(PyList_Append(list.get(), Handle::steal(wrap(t)).get()));
    return list.release();
  });
}

PyMethodDef functions[] = {
    {"is_autocast_enabled", as_method(is_enabled), kFastcall,
     "is_autocast_enabled(device_type='cuda')\n--\n\n"
     "Whether autocast is on for a device type, on this thread.\n"
     "\n"
     "Arguments:\n"
     "    device_type: 'cpu' or 'cuda'.\n"
     "\n"
     "Example:\n"
     "    >>> with rl.autocast(\"cpu\"):\n"
     "    ...     rl.is_autocast_enabled(\"cpu\")\n"
     "    True"},
    {"set_autocast_enabled", as_method(set_enabled), kFastcall,
     "set_autocast_enabled(device_type, enabled)\n--\n\n"
     "Switches autocast for a device type.\n"
     "\n"
     "Arguments:\n"
     "    device_type: 'cpu' or 'cuda'.\n"
     "    enabled: whether it is on.\n"
     "\n"
     "Example:\n"
     "    >>> rl.set_autocast_enabled(\"cpu\", True); rl.is_autocast_enabled(\"cpu\")\n"
     "    True\n"
     "    >>> rl.set_autocast_enabled(\"cpu\", False)"},
    {"get_autocast_dtype", as_method(get_dtype), kFastcall,
     "get_autocast_dtype(device_type)\n--\n\n"
     "The dtype that autocast casts to.\n"
     "\n"
     "Arguments:\n"
     "    device_type: 'cpu' or 'cuda'.\n"
     "\n"
     "Example:\n"
     "    >>> rl.get_autocast_dtype(\"cpu\")\n"
     "    rushlight.bfloat16"},
    {"set_autocast_dtype", as_method(set_dtype), kFastcall,
     "set_autocast_dtype(device_type, dtype)\n--\n\n"
     "Sets the dtype that autocast casts to.\n"
     "\n"
     "Arguments:\n"
     "    device_type: 'cpu' or 'cuda'.\n"
     "    dtype: the 16-bit dtype.\n"
     "\n"
     "Example:\n"
     "    >>> rl.set_autocast_dtype(\"cpu\", rl.bfloat16); rl.get_autocast_dtype(\"cpu\")\n"
     "    rushlight.bfloat16"},
    {"_begin_casts", begin_casts, METH_O, nullptr},
    {"_end_casts", end_casts, METH_O, nullptr},
    {"_is_autocast_on", is_on, METH_NOARGS, nullptr},
    {"_autocast_policy", as_method(policy), kFastcall, nullptr},
    {"is_autocast_cache_enabled", is_cache_enabled, METH_NOARGS,
     "is_autocast_cache_enabled()\n--\n\n"
     "Whether cast weights are kept for a region.\n"
     "\n"
     "Example:\n"
     "    >>> rl.is_autocast_cache_enabled()\n"
     "    True"},
    {"set_autocast_cache_enabled", set_cache_enabled, METH_O,
     "set_autocast_cache_enabled(enabled, /)\n--\n\n"
     "Switches the keeping of cast weights.\n"
     "\n"
     "Arguments:\n"
     "    enabled: whether they are kept.\n"
     "\n"
     "Example:\n"
     "    >>> rl.set_autocast_cache_enabled(True); rl.is_autocast_cache_enabled()\n"
     "    True"},
    {"clear_autocast_cache", clear_cache, METH_NOARGS,
     "clear_autocast_cache()\n--\n\n"
     "Forgets the cast weights.\n"
     "\n"
     "Example:\n"
     "    >>> rl.clear_autocast_cache() is None\n"
     "    True"},
    {"autocast_increment_nesting", increment, METH_NOARGS,
     "autocast_increment_nesting()\n--\n\n"
     "One region deeper; returns the depth.\n"
     "\n"
     "Example:\n"
     "    >>> before = rl.autocast_increment_nesting()\n"
     "    >>> rl.autocast_decrement_nesting() == before - 1\n"
     "    True"},
    {"autocast_decrement_nesting", decrement, METH_NOARGS,
     "autocast_decrement_nesting()\n--\n\n"
     "One region less deep; returns the depth.\n"
     "\n"
     "Example:\n"
     "    >>> before = rl.autocast_increment_nesting()\n"
     "    >>> rl.autocast_decrement_nesting() == before - 1\n"
     "    True"},
    {},
};

}  // namespace

bool init_autocast(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace rush::py
