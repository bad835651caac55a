// device_object.cpp: rushlight.device, an immutable value that is also a context manager.
#include "bindings/handle.h"
#include "bindings/type_docs.h"

#include <vector>

#include "core/foreign_device.h"

namespace rush::py {
namespace {

struct DeviceObject {
  PyObject_HEAD Device value;
};
PyTypeObject* DeviceType_;

// What `with device:` has to restore; blocks end in the reverse order of their start.
thread_local std::vector<Device> t_previous_defaults;

Device value_of(PyObject* o) { return reinterpret_cast<DeviceObject*>(o)->value; }

// One that tensors can be on.
Device usable(PyObject* o) {
  const Device device = value_of(o);
  check(!is_foreign(device), ErrorKind::Runtime, "device", "there are no tensors on '", device,
        "': its name is known for comparisons; expected 'cpu', 'cuda', 'cuda:N' or 'meta'");
  return device;
}

int8_t device_index(int64_t index) {
  check(index >= 0 && index < 128, ErrorKind::Runtime, "device",
        "the index must be a number from 0 to 127, got ", index);
  return int8_t(index);
}

PyObject* device_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    static constexpr const char* names[] = {"type", "index"};
    PyObject* given_args[2];
    parse_arguments({"device", names, 2, 1}, args, kwargs, given_args);
    auto [type, index] = given_args;
    Device device;
    const auto foreign = PyUnicode_Check(type) ? find_foreign_device(text_of(type)) : std::nullopt;
    if (foreign || is_device(type)) {
      device = foreign ? *foreign : value_of(type);
    } else {
      check(device_from_python(type, device), ErrorKind::Type, "device",
            "expected a string, an int or a device, got ", type_name(type));
    }
    if (given(index)) {
      int64_t number = 0;
      check(PyUnicode_Check(type) && int_from_python(index, number), ErrorKind::Type, "device",
            "expected a type as a string and an index as an int, got ", type_name(type), " and ",
            type_name(index));
      check(device.index < 0, ErrorKind::Runtime, "device", "'", text_of(type),
            "' already has an index; leave the second argument out");
      device.index = device_index(number);
    }
    return wrap(device);
  });
}

PyObject* device_type(PyObject* self, void*) {
  const std::string_view text = name(value_of(self).type);
  return PyUnicode_FromStringAndSize(text.data(), Py_ssize_t(text.size()));
}

PyObject* device_index_(PyObject* self, void*) {
  const int index = value_of(self).index;
  return index < 0 ? Py_NewRef(Py_None) : PyLong_FromLong(index);
}

PyObject* device_repr(PyObject* self) {
  const Device d = value_of(self);
  const char* type = name(d.type).data();
  return d.index < 0 ? PyUnicode_FromFormat("device(type='%s')", type)
                     : PyUnicode_FromFormat("device(type='%s', index=%d)", type, int(d.index));
}

PyObject* device_str(PyObject* self) {
  return guarded([&] {
    const std::string text = concat(value_of(self));
    return PyUnicode_FromStringAndSize(text.data(), Py_ssize_t(text.size()));
  });
}

PyObject* device_compare(PyObject* a, PyObject* b, int op) {
  if ((op != Py_EQ && op != Py_NE) || !is_device(a) || !is_device(b)) Py_RETURN_NOTIMPLEMENTED;
  return PyBool_FromLong((value_of(a) == value_of(b)) == (op == Py_EQ));
}

Py_hash_t device_hash(PyObject* self) {
  const Device d = value_of(self);
  return (Py_hash_t(d.type) + 1) * 1000003 + d.index + 1;
}

PyObject* device_reduce(PyObject* self, PyObject*) {
  const Device d = value_of(self);
  return d.index < 0 ? Py_BuildValue("O(s)", DeviceType_, name(d.type).data())
                     : Py_BuildValue("O(si)", DeviceType_, name(d.type).data(), int(d.index));
}

PyObject* device_enter(PyObject* self, PyObject*) {
  return guarded([&] {
    const Device device = usable(self);
    t_previous_defaults.push_back(default_device());
    set_default_device(device);
    return Py_NewRef(self);
  });
}

PyObject* device_exit(PyObject*, PyObject*) {
  if (!t_previous_defaults.empty()) {
    set_default_device(t_previous_defaults.back());
    t_previous_defaults.pop_back();
  }
  Py_RETURN_NONE;
}

PyGetSetDef attributes[] = {
    {"type", device_type, nullptr,
     "'cpu', 'cuda' or 'meta', or the name of a device that "
     "tensors cannot be on, such as 'mps'.",
     nullptr},
    {"index", device_index_, nullptr, "The number among devices of its type, or None.", nullptr},
    {},
};
PyMethodDef methods[] = {
    {"__reduce__", device_reduce, METH_NOARGS, nullptr},
    {"__enter__", device_enter, METH_NOARGS, nullptr},
    {"__exit__", device_exit, METH_VARARGS, nullptr},
    {},
};
PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>(kDeviceDoc)},
    {Py_tp_new, reinterpret_cast<void*>(device_new)},
    {Py_tp_repr, reinterpret_cast<void*>(device_repr)},
    {Py_tp_str, reinterpret_cast<void*>(device_str)},
    {Py_tp_richcompare, reinterpret_cast<void*>(device_compare)},
    {Py_tp_hash, reinterpret_cast<void*>(device_hash)},
    {Py_tp_getset, attributes},
    {Py_tp_methods, methods},
    {},
};
PyType_Spec spec = {"rushlight.device", sizeof(DeviceObject), 0, Py_TPFLAGS_DEFAULT, slots};

PyObject* get_default_device(PyObject*, PyObject*) {
  return guarded([] { return wrap(default_device()); });
}

PyObject* set_default_device_(PyObject*, PyObject* o) {
  return guarded([&] {
    set_default_device(device_argument("set_default_device", o).value_or(Device{}));
    return Py_NewRef(Py_None);
  });
}

PyMethodDef functions[] = {
    {"get_default_device", get_default_device, METH_NOARGS,
     "get_default_device()\n--\n\n"
     "Where new tensors go on this thread.\n"
     "\n"
     "Example:\n"
     "    >>> rl.get_default_device()\n"
     "    device(type='cpu')"},
    {"set_default_device", set_default_device_, METH_O,
     "set_default_device(device, /)\n--\n\n"
     "Sets where new tensors go on this thread.\n"
     "\n"
     "Arguments:\n"
     "    device: a device or its name; None is the CPU.\n"
     "\n"
     "Example:\n"
     "    >>> rl.set_default_device(\"meta\"); rl.zeros(1).device\n"
     "    device(type='meta')\n"
     "    >>> rl.set_default_device(\"cpu\")"},
    {},
};

// The objects of common devices, made once: x.device is asked for often.
PyObject* g_plain[kDeviceTypeCount];

PyObject* make_device(Device d) {
  auto* o = PyObject_New(DeviceObject, DeviceType_);
  if (o) o->value = d;
  return reinterpret_cast<PyObject*>(o);
}

}  // namespace

PyObject* wrap(Device d) {
  return d.index < 0 && !is_foreign(d) ? Py_NewRef(g_plain[int(d.type)]) : make_device(d);
}
bool is_device(PyObject* o) { return Py_IS_TYPE(o, DeviceType_); }
Device as_device(PyObject* o) { return usable(o); }

bool device_from_python(PyObject* o, Device& out) {
  if (is_device(o)) {
    out = usable(o);
    return true;
  }
  if (PyUnicode_Check(o)) {
    out = parse_device(text_of(o));
    return true;
  }
  if (!PyLong_Check(o) || PyBool_Check(o)) return false;
  int64_t index = 0;
  if (!int_from_python(o, index)) return false;
  out = {DeviceType::CUDA, device_index(index)};
  return true;
}

bool init_device(PyObject* module) {
  DeviceType_ = add_type(module, &spec);
  if (!DeviceType_) return false;
  for (int i = 0; i < kDeviceTypeCount; ++i) {
    g_plain[i] = make_device({DeviceType(i), -1});
    if (!g_plain[i]) return false;
  }
  return PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace rush::py
