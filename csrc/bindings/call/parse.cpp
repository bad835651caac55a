#include "bindings/call/parse.h"

#include <cstring>

#include "autograd/meta.h"
#include "bindings/handle.h"

namespace rush::py {
namespace {

bool is_sequence(PyObject* o) { return PyTuple_Check(o) || PyList_Check(o); }

PyObject** items_of(PyObject* o) {
  return PyTuple_Check(o) ? &PyTuple_GET_ITEM(o, 0) : PySequence_Fast_ITEMS(o);
}

bool integer(PyObject* o, int64_t& out) {
  if (PyBool_Check(o)) {
    out = o == Py_True;
    return true;
  }
  return int_from_python(o, out);
}

// Where a factory puts its tensor when the call names no device. Only what Python calls follows the
// setting: an op that makes a tensor inside another op knows where it belongs.
void fill_default_device(const OpEntry& entry, Value& device) {
  if (device.tag() != Value::Tag::None || entry.form == Form::Out) return;
  const ArgKind first = entry.args[0].kind;
  if (first == ArgKind::Tensor || first == ArgKind::Operand || first == ArgKind::Tensors) return;
  if (const Device d = default_device(); !d.is_cpu()) device.set(d);
}

}  // namespace

bool is_synonym(PyObject* keyword, const char* argument) {
  constexpr std::pair<const char*, const char*> pairs[] = {
      {"dim", "axis"}, {"keepdim", "keepdims"}, {"self", "input"}};
  for (const auto& [name, other] : pairs) {
    if (std::strcmp(argument, name) == 0)
      return PyUnicode_CompareWithASCIIString(keyword, other) == 0;
  }
  return false;
}

void Parser::clear() {
  for (int i = 0; i < made_; ++i) values()[i].~Value();
  made_ = 0;
}

bool Parser::place_positional(const OpEntry& entry, const PythonCall& call, std::string* why) {
  const size_t n = entry.args.size();
  size_t k = 0;
  for (Py_ssize_t i = 0; i < call.nargs; ++i, ++k) {
    if (k < n && given_[k]) ++k;  // the method's object stands here
    if (k >= n || entry.args[k].keyword_only) {
      if (why) {
        size_t most = call.self ? size_t(-1) : 0;  // the object is not counted
        for (const ArgSpec& a : entry.args) most += !a.keyword_only;
        *why = concat("takes ", most, " positional argument", most == 1 ? "" : "s", ", not ",
                      call.nargs);
      }
      return false;
    }
    given_[k] = call.args[i];
    if (entry.varargs && vararg_ < 0 && entry.args[k].kind == ArgKind::Ints &&
        !is_sequence(call.args[i]) && call.args[i] != Py_None) {
      vararg_ = int(k);
      vararg_items_ = call.args + i;
      vararg_count_ = call.nargs - i;
      return true;
    }
  }
  return true;
}

bool Parser::place_keywords(const OpEntry& entry, PyObject* const* names, const PythonCall& call,
                            std::string* why) {
  const size_t n = entry.args.size();
  const Py_ssize_t count = PyTuple_GET_SIZE(call.kwnames);
  for (Py_ssize_t j = 0; j < count; ++j) {
    PyObject* keyword = PyTuple_GET_ITEM(call.kwnames, j);
    PyObject* value = call.args[call.nargs + j];
    size_t k = 0;
    while (k < n && names[k] != keyword) ++k;
    if (k == n) [[unlikely]] {
      k = 0;
      while (k < n && PyUnicode_Compare(names[k], keyword) != 0 &&
             !is_synonym(keyword, entry.args[k].name)) {
        ++k;
      }
    }
    if (k == n) {
      // `out=None` means what leaving it out means, for every op.
      if (value == Py_None && PyUnicode_CompareWithASCIIString(keyword, "out") == 0) continue;
      if (why) *why = unexpected_keyword_text(entry, keyword);
      return false;
    }
    if (given_[k]) {
      if (why) *why = concat("got multiple values for argument '", entry.args[k].name, "'");
      return false;
    }
    given_[k] = value;
  }
  return true;
}

bool Parser::parse(const OpEntry& entry, PyObject* const* names, const PythonCall& call,
                   std::string* why) {
  clear();
  const size_t n = entry.args.size();
  std::memset(given_, 0, n * sizeof(PyObject*));
  vararg_ = -1;
  elements_ = 0;
  arena_.clear();
  if (call.self) given_[entry.self_index] = call.self;
  if (!place_positional(entry, call, why)) return false;
  if (call.kwnames && !place_keywords(entry, names, call, why)) return false;

  for (size_t k = 0; k < n; ++k) {
    const ArgSpec& spec = entry.args[k];
    PyObject* o = given_[k];
    if (!o) {
      if (spec.default_kind == DefaultKind::Required) {
        if (why) *why = concat("missing argument '", spec.name, "' (", kind_text(spec), ")");
        return false;
      }
      if (spec.make_default)
        new (values() + k) Value(spec.make_default());
      else
        new (values() + k) Value();
      made_ = int(k) + 1;
      if (spec.kind == ArgKind::Device) [[unlikely]]
        fill_default_device(entry, values()[k]);
      continue;
    }
    Value& v = *new (values() + k) Value();
    made_ = int(k) + 1;
    const bool fits = int(k) == vararg_ ? convert_int_items(vararg_items_, vararg_count_, v)
                                        : convert(spec, o, v);
    if (!fits) {
      if (why) {
        *why =
            concat("argument '", spec.name, "' must be ", kind_text(spec), ", not ", type_text(o));
      }
      return false;
    }
    if (spec.kind == ArgKind::Device) [[unlikely]]
      fill_default_device(entry, v);
  }
  return true;
}

bool Parser::convert_scalar(PyObject* o, Scalar& s) {
  if (scalar_from_python(o, s)) return true;
  if (!is_tensor(o)) return false;
  const Tensor& t = unwrap(o);
  // Its gradient would be lost without a word.
  if (t.dim() != 0 || t.is_meta() || requires_grad(t)) return false;
  s = t.item();
  return true;
}

bool Parser::convert_operand(PyObject* o, Value& v) {
  if (is_tensor(o)) {
    v.borrow(unwrap(o).impl());
    count(unwrap(o));
    return true;
  }
  Scalar s;
  if (!scalar_from_python(o, s)) return false;
  v.own(wrap_number(s));
  return true;
}

bool Parser::convert_int_items(PyObject* const* items, Py_ssize_t n, Value& v, bool bools) {
  auto* out = static_cast<int64_t*>(arena_.cells(size_t(n)));
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (bools && PyBool_Check(items[i]))
      out[i] = items[i] == Py_True;
    else if (!int_from_python(items[i], out[i]))
      return false;
  }
  v.borrow(IntList(out, size_t(n)));
  return true;
}

bool Parser::convert_ints(const ArgSpec& spec, PyObject* o, Value& v) {
  // None is the empty list where that is what leaving it out means, as in amax and roll.
  if (o == Py_None && spec.default_text && std::string_view(spec.default_text) == "[]") {
    v.borrow(IntList());
    return true;
  }
  // Of ints, `holes` says that they are the bool[] of a custom operator.
  if (is_sequence(o))
    return convert_int_items(items_of(o), PySequence_Fast_GET_SIZE(o), v, spec.holes);
  int64_t one;
  if (!spec.broadcast || PyBool_Check(o) || !int_from_python(o, one)) return false;
  auto* out = static_cast<int64_t*>(arena_.cells(spec.broadcast));
  std::fill_n(out, spec.broadcast, one);
  v.borrow(IntList(out, spec.broadcast));
  return true;
}

bool Parser::convert_floats(PyObject* o, Value& v) {
  if (!is_sequence(o)) return false;
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
  auto* out = static_cast<double*>(arena_.cells(size_t(n)));
  for (Py_ssize_t i = 0; i < n; ++i) {
    Scalar s;
    if (!convert_scalar(items_of(o)[i], s) || s.is_complex()) return false;
    out[i] = s.to_double();
  }
  v.borrow(std::span<const double>(out, size_t(n)));
  return true;
}

bool Parser::convert_tensors(const ArgSpec& spec, PyObject* o, Value& v) {
  if (!is_sequence(o)) return false;
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
  PyObject** items = items_of(o);
  // A list of pointers reads as a list of tensors that nobody counts.
  auto* out = static_cast<TensorImpl**>(arena_.cells(size_t(n)));
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (items[i] == Py_None && spec.holes) {
      out[i] = nullptr;
      continue;
    }
    if (!is_tensor(items[i])) return false;
    out[i] = unwrap(items[i]).impl();
    count(unwrap(items[i]));
  }
  v.borrow(TensorList(reinterpret_cast<const Tensor*>(out), size_t(n)));
  return true;
}

bool Parser::convert(const ArgSpec& spec, PyObject* o, Value& v) {
  if (o == Py_None && spec.optional) return true;
  Scalar s;
  switch (spec.kind) {
    case ArgKind::Tensor:
      if (!is_tensor(o)) return false;
      v.borrow(unwrap(o).impl());
      count(unwrap(o));
      return true;
    case ArgKind::Operand:
      return convert_operand(o, v);
    case ArgKind::Tensors:
      return convert_tensors(spec, o, v);
    case ArgKind::Scalar:
      if (!convert_scalar(o, s)) return false;
      v.set(s);
      return true;
    case ArgKind::Int: {
      int64_t i;
      if (PyBool_Check(o) || !integer(o, i)) return false;  // True is no number here
      v.set(i);
      return true;
    }
    case ArgKind::Ints:
      return convert_ints(spec, o, v);
    case ArgKind::Float:
      if (!convert_scalar(o, s) || s.is_complex()) return false;
      v.set(s.to_double());
      return true;
    case ArgKind::Floats:
      return convert_floats(o, v);
    case ArgKind::Bool:
      if (!PyBool_Check(o) && !(scalar_from_python(o, s) && s.is_bool())) return false;
      v.set(PyBool_Check(o) ? o == Py_True : s.to<bool>());
      return true;
    case ArgKind::String: {
      if (!PyUnicode_Check(o)) return false;
      v.borrow(text_of(o));
      return true;
    }
    case ArgKind::DType:
      if (!is_dtype(o)) return false;
      v.set(as_dtype(o));
      return true;
    case ArgKind::Device: {
      Device d;
      if (!device_from_python(o, d)) return false;
      if (d.is_cpu()) d.index = -1;  // one memory, whatever number a rank gives its CPU
      v.set(d);
      return true;
    }
    case ArgKind::Layout:
      if (!is_layout(o)) return false;
      check(o == Handle::steal(wrap(Layout::Strided)).get(), ErrorKind::NotImplemented, "",
            "layout: this function makes strided tensors only; sparse ones come from to_sparse() "
            "and from the functions sparse_*_tensor");
      v.set(Layout::Strided);
      return true;
    case ArgKind::MemoryFormat:
      if (!is_memory_format(o)) return false;
      v.set(as_memory_format(o));
      return true;
    case ArgKind::Generator:
      if (!is_generator(o)) return false;
      v.borrow(as_generator(o));
      return true;
  }
  return false;
}

}  // namespace rush::py
