#include "bindings/jit_values.h"

#include "bindings/handle.h"

namespace rush::py {

using jit::IValue;

namespace {

// A number, a string, a dtype and the like; false: it is none of these.
bool leaf_value(const char* function, PyObject* o, IValue& out) {
  if (PyBool_Check(o)) {
    out = o == Py_True;
  } else if (PyUnicode_Check(o)) {
    out = std::string(text_of(o));
  } else if (PyFloat_Check(o)) {
    out = PyFloat_AS_DOUBLE(o);
  } else if (is_dtype(o) && !PyType_Check(o)) {
    out = as_dtype(o);
  } else if (is_device(o)) {
    out = as_device(o);
  } else if (o == Handle::steal(wrap(Layout::Strided)).get()) {
    out = Layout::Strided;
  } else if (is_memory_format(o)) {
    out = as_memory_format(o);
  } else {
    Scalar number;
    if (PyTuple_Check(o) || PyList_Check(o) || PyDict_Check(o) || !scalar_from_python(o, number))
      return false;
    check(!number.is_complex(), ErrorKind::Type, function, "programs take no complex numbers");
    out = IValue::number(number);
  }
  return true;
}

Handle values_module() { return Handle::steal(PyImport_ImportModule("rushlight.jit._values")); }

// An object of a class that a program knows, or an item of an Enum; false: it is none of these.
bool object_value(const char* function, PyObject* o, int depth, IValue& out) {
  const Handle home = values_module();
  const Handle parts = Handle::steal(PyObject_CallMethod(home.get(), "parts_of", "O", o));
  if (!parts) throw PythonError{};
  if (parts.get() == Py_None) return false;
  PyObject *name, *fields, *items;
  int is_object = 0;
  if (!PyArg_ParseTuple(parts.get(), "UO!O!p", &name, &PyTuple_Type, &fields, &PyTuple_Type, &items,
                        &is_object))
    throw PythonError{};
  auto names = std::make_shared<jit::TupleNames>();
  names->name = text_of(name);
  IValue::Items found;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(fields); ++i) {
    names->fields.emplace_back(text_of(PyTuple_GET_ITEM(fields, i)));
    found.push_back(to_ivalue(function, PyTuple_GET_ITEM(items, i), Leaves::Values, depth + 1));
  }
  out = is_object ? IValue::object(std::move(found), std::move(names))
                  : IValue::tuple(std::move(found), std::move(names));
  return true;
}

}  // namespace

IValue to_ivalue(const char* function, PyObject* o, Leaves leaves, int depth) {
  check(depth < jit::kMostNesting, ErrorKind::Runtime, function, "containers are nested more than ",
        jit::kMostNesting, " deep");
  if (o == Py_None) return {};
  if (is_tensor(o)) return unwrap(o);
  IValue leaf;
  if (leaves == Leaves::Values && leaf_value(function, o, leaf)) return leaf;
  IValue::Items items;
  if (PyTuple_Check(o) || PyList_Check(o)) {
    const Handle fast = Handle::steal(PySequence_Fast(o, "a sequence"));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.get()); ++i)
      items.push_back(
          to_ivalue(function, PySequence_Fast_GET_ITEM(fast.get(), i), leaves, depth + 1));
    return PyTuple_Check(o) ? IValue::tuple(std::move(items)) : IValue::list(std::move(items));
  }
  if (leaves == Leaves::Values && !PyDict_Check(o)) {
    IValue object;
    if (object_value(function, o, depth, object)) return object;
  }
  check(PyDict_Check(o), ErrorKind::Runtime, function,
        leaves == Leaves::Values
            ? "programs take tensors, numbers, strings, and tuples, lists and dicts of these, not "
            : "programs take and give tensors, and tuples, lists and dicts of tensors, not ",
        type_name(o));
  IValue::Items keys;
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(o, &at, &key, &value);) {
    check(leaves == Leaves::Values || PyUnicode_Check(key), ErrorKind::Runtime, function,
          "keys of a dict must be strings, not ", type_name(key));
    keys.push_back(to_ivalue(function, key, Leaves::Values, depth + 1));
    items.push_back(to_ivalue(function, value, leaves, depth + 1));
  }
  return IValue::dict(std::move(keys), std::move(items));
}

Handle from_ivalue(const IValue& v) {
  switch (v.kind()) {
    case IValue::Kind::None:
      return Handle::borrow(Py_None);
    case IValue::Kind::Tensor:
      return Handle::steal(wrap(v.toTensor()));
    case IValue::Kind::Bool:
      return Handle::borrow(v.boolean() ? Py_True : Py_False);
    case IValue::Kind::Int:
      return Handle::steal(PyLong_FromLongLong(v.integer()));
    case IValue::Kind::Double:
      return Handle::steal(PyFloat_FromDouble(v.real()));
    case IValue::Kind::String:
      return text(v.string());
    case IValue::Kind::DType:
      return Handle::steal(wrap(v.toDType()));
    case IValue::Kind::Device:
      return Handle::steal(wrap(v.device()));
    case IValue::Kind::Layout:
      return Handle::steal(wrap(Layout(v.integer())));
    case IValue::Kind::MemoryFormat:
      return Handle::steal(wrap(MemoryFormat(v.integer())));
    case IValue::Kind::Dict: {
      Handle dict = Handle::steal(PyDict_New());
      for (size_t i = 0; i < v.dict().keys.size(); ++i)
        check_status(PyDict_SetItem(dict.get(), from_ivalue(v.dict().keys[i]).get(),
                                    from_ivalue(v.dict().items[i]).get()));
      return dict;
    }
    case IValue::Kind::Tuple:
    case IValue::Kind::List:
    case IValue::Kind::Object:
      break;
  }
  const auto n = Py_ssize_t(v.items().size());
  const bool tuple = v.kind() != IValue::Kind::List;
  Handle out = Handle::steal(tuple ? PyTuple_New(n) : PyList_New(n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = from_ivalue(v.items()[size_t(i)]).release();
    if (tuple)
      PyTuple_SET_ITEM(out.get(), i, item);
    else
      PyList_SET_ITEM(out.get(), i, item);
  }
  const jit::TupleNames* names = tuple ? v.names() : nullptr;
  if (!names) return out;
  const Handle home = values_module();
  const Handle fields =
      list_of(names->fields.size(), [&](size_t i) { return text(names->fields[i]); });
  return Handle::steal(PyObject_CallMethod(home.get(), v.isObject() ? "made_object" : "named_tuple",
                                           "NOO", text(names->name).release(), fields.get(),
                                           out.get()));
}

std::vector<Tensor> tensors_in(const char* function, PyObject* o) {
  const Handle fast = Handle::steal(PySequence_Fast(o, "tensors must come as a sequence"));
  std::vector<Tensor> tensors;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.get()); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(fast.get(), i);
    check(is_tensor(item), ErrorKind::Type, function, "expected a tensor, got ", type_name(item));
    tensors.push_back(unwrap(item));
  }
  return tensors;
}

}  // namespace rush::py
