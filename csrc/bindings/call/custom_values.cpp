#include "bindings/call/custom_values.h"

namespace rush::py {
namespace {

template <class T, class F>
Handle list_of(std::span<const T> items, F&& make) {
  Handle list = Handle::steal(PyList_New(Py_ssize_t(items.size())));
  for (size_t i = 0; i < items.size(); ++i)
    PyList_SET_ITEM(list.get(), Py_ssize_t(i), Handle::steal(make(items[i])).release());
  return list;
}

[[noreturn]] void wrong_result(const CustomOp& op, size_t i, PyObject* o) {
  const auto& results = op.schema().results;
  fail(ErrorKind::ArgumentType, op.display_name(), "its function must return ",
       type_text(results[i]), results.size() > 1 ? concat(" at position ", i) : "", ", not ",
       type_name(o), "; the schema is ", op.schema().text());
}

void take_result(const CustomOp& op, size_t i, PyObject* o, Value& v) {
  const CustomResult& r = op.schema().results[i];
  Scalar s;
  switch (r.kind) {
    case ArgKind::Tensor:
      if (o == Py_None && r.optional) return;
      if (!is_tensor(o)) wrong_result(op, i, o);
      return v.own(unwrap(o));
    case ArgKind::Tensors: {
      if (!PyList_Check(o) && !PyTuple_Check(o)) wrong_result(op, i, o);
      std::vector<Tensor> list;
      for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(o); ++k) {
        PyObject* item = PySequence_Fast_GET_ITEM(o, k);
        if (!is_tensor(item)) wrong_result(op, i, item);
        list.push_back(unwrap(item));
      }
      return own_list(v, std::move(list));
    }
    default:
      break;
  }
  if (!scalar_from_python(o, s)) wrong_result(op, i, o);
  const bool fits = r.kind == ArgKind::Scalar || (r.kind == ArgKind::Float && !s.is_complex()) ||
                    (r.kind == ArgKind::Int && (s.is_integer() || s.is_bool())) ||
                    (r.kind == ArgKind::Bool && s.is_bool());
  if (!fits) wrong_result(op, i, o);
  if (r.kind == ArgKind::Float)
    v.set(s.to_double());
  else if (r.kind == ArgKind::Int)
    v.set(s.to_int());
  else if (r.kind == ArgKind::Bool)
    v.set(s.to<bool>());
  else
    v.set(s);
}

}  // namespace

Handle python_value(const Value& v, bool bools) {
  switch (v.tag()) {
    case Value::Tag::Tensor:
      return Handle::steal(wrap(v.tensor()));
    case Value::Tag::Tensors:
      return list_of(v.tensors(), [](const Tensor& t) { return wrap(t); });
    case Value::Tag::Scalar:
      return Handle::steal(wrap(v.scalar()));
    case Value::Tag::Int:
      return Handle::steal(PyLong_FromLongLong(v.integer()));
    case Value::Tag::Ints:
      return list_of(v.ints(), [&](int64_t i) {
        return bools ? PyBool_FromLong(i != 0) : PyLong_FromLongLong(i);
      });
    case Value::Tag::Float:
      return Handle::steal(PyFloat_FromDouble(v.real()));
    case Value::Tag::Floats:
      return list_of(v.floats(), [](double d) { return PyFloat_FromDouble(d); });
    case Value::Tag::Bool:
      return Handle::steal(PyBool_FromLong(v.boolean()));
    case Value::Tag::String:
      return Handle::steal(
          PyUnicode_FromStringAndSize(v.string().data(), Py_ssize_t(v.string().size())));
    case Value::Tag::DType:
      return Handle::steal(wrap(v.dtype()));
    case Value::Tag::Device:
      return Handle::steal(wrap(v.device()));
    case Value::Tag::Layout:
      return Handle::steal(wrap(v.layout()));
    case Value::Tag::MemoryFormat:
      return Handle::steal(wrap(v.memory_format()));
    default:
      return Handle::borrow(Py_None);
  }
}

CustomArguments custom_arguments(const CustomOp& op, const Value* args) {
  const auto& parameters = op.schema().parameters;
  size_t positional = 0;
  while (positional < parameters.size() && !parameters[positional].keyword_only) ++positional;
  CustomArguments out;
  out.positional = Handle::steal(PyTuple_New(Py_ssize_t(positional)));
  for (size_t i = 0; i < positional; ++i) {
    PyTuple_SET_ITEM(out.positional.get(), Py_ssize_t(i),
                     python_value(args[i], parameters[i].bools).release());
  }
  if (positional == parameters.size()) return out;
  out.keywords = Handle::steal(PyDict_New());
  for (size_t i = positional; i < parameters.size(); ++i) {
    const Handle value = python_value(args[i], parameters[i].bools);
    check_status(PyDict_SetItemString(out.keywords.get(), parameters[i].name.c_str(), value.get()));
  }
  return out;
}

void take_custom_results(const CustomOp& op, PyObject* returned, Value* results) {
  const size_t n = op.schema().results.size();
  if (n == 0) {
    check(returned == Py_None, ErrorKind::ArgumentType, op.display_name(),
          "its function must return nothing, not ", type_name(returned), "; the schema is ",
          op.schema().text());
    return;
  }
  if (n == 1) return take_result(op, 0, returned, results[0]);
  const bool fits = (PyTuple_Check(returned) || PyList_Check(returned)) &&
                    PySequence_Fast_GET_SIZE(returned) == Py_ssize_t(n);
  check(fits, ErrorKind::ArgumentType, op.display_name(), "its function must return a tuple of ", n,
        ", not ", type_name(returned), "; the schema is ", op.schema().text());
  for (size_t i = 0; i < n; ++i)
    take_result(op, i, PySequence_Fast_GET_ITEM(returned, Py_ssize_t(i)), results[i]);
}

PyObject* give_custom_results(const CustomOp& op, Value* results) {
  const size_t n = op.schema().results.size();
  if (n == 0) return Py_NewRef(Py_None);
  if (n == 1) return python_value(results[0], false).release();
  Handle tuple = Handle::steal(PyTuple_New(Py_ssize_t(n)));
  for (size_t i = 0; i < n; ++i)
    PyTuple_SET_ITEM(tuple.get(), Py_ssize_t(i), python_value(results[i], false).release());
  return tuple.release();
}

}  // namespace rush::py
