// parse_errors.cpp: what a TypeError says about a call that fits no overload. Off the good path.
#include <algorithm>

#include "bindings/call/parse.h"
#include "bindings/handle.h"

namespace rush::py {
namespace {

const char* kind_name(ArgKind kind) {
  switch (kind) {
    case ArgKind::Tensor:
      return "Tensor";
    case ArgKind::Operand:
      return "Tensor|Number";
    case ArgKind::Tensors:
      return "list of Tensors";
    case ArgKind::Scalar:
      return "Number";
    case ArgKind::Int:
      return "int";
    case ArgKind::Ints:
      return "list of ints";
    case ArgKind::Float:
      return "float";
    case ArgKind::Floats:
      return "list of floats";
    case ArgKind::Bool:
      return "bool";
    case ArgKind::String:
      return "str";
    case ArgKind::DType:
      return "dtype";
    case ArgKind::Device:
      return "device";
    case ArgKind::Layout:
      return "layout";
    case ArgKind::MemoryFormat:
      return "memory_format";
    case ArgKind::Generator:
      return "Generator";
  }
  return "?";
}

// Levenshtein's distance, for "did you mean".
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t corner = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t here = std::min({row[j] + 1, row[j - 1] + 1, corner + (a[i - 1] != b[j - 1])});
      corner = row[j];
      row[j] = here;
    }
  }
  return row[b.size()];
}

std::string short_name(PyObject* o) {
  const std::string name = type_name(o);
  constexpr std::string_view ours = "rushlight.";
  return name.starts_with(ours) ? name.substr(ours.size()) : name;
}

}  // namespace

std::string type_text(PyObject* o) {
  if (!PyTuple_Check(o) && !PyList_Check(o)) return short_name(o);
  // A sequence tells what is in it: the element is mostly what is wrong.
  std::string text = PyTuple_Check(o) ? "tuple of (" : "list of (";
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
  for (Py_ssize_t i = 0; i < std::min<Py_ssize_t>(n, 4); ++i) {
    PyObject* item = PyTuple_Check(o) ? PyTuple_GET_ITEM(o, i) : PyList_GET_ITEM(o, i);
    text += (i ? ", " : "") + short_name(item);
  }
  return text + (n > 4 ? ", ...)" : ")");
}

std::string kind_text(const ArgSpec& spec) {
  std::string text = kind_name(spec.kind);
  if (spec.kind == ArgKind::Ints && spec.broadcast) text = "int or " + text;
  if (spec.optional) text += " or None";
  return text;
}

std::string signature_text(const OpEntry& entry, bool method) {
  std::string text = concat(entry.name, "(");
  bool star = false, first = true;
  for (size_t k = 0; k < entry.args.size(); ++k) {
    if (method && k == entry.self_index) continue;
    const ArgSpec& a = entry.args[k];
    if (!first) text += ", ";
    first = false;
    if (a.keyword_only && !star) {
      star = true;
      text += "*, ";
    }
    if (entry.varargs && a.kind == ArgKind::Ints) text += "int... or ";
    text += concat(kind_name(a.kind), " ", a.name);
    if (a.default_kind != DefaultKind::Required) text += concat("=", a.default_text);
  }
  return text + ")";
}

std::string given_text(const PythonCall& call) {
  std::string text = "(";
  for (Py_ssize_t i = 0; i < call.nargs; ++i) text += (i ? ", " : "") + type_text(call.args[i]);
  for (Py_ssize_t j = 0; j < call.num_keywords(); ++j) {
    if (call.nargs + j > 0) text += ", ";
    text += concat(text_of(PyTuple_GET_ITEM(call.kwnames, j)), "=",
                   type_text(call.args[call.nargs + j]));
  }
  return text + ")";
}

std::string unexpected_keyword_text(const OpEntry& entry, PyObject* keyword) {
  const std::string_view given = text_of(keyword);
  std::string text = concat("unexpected keyword '", given, "'");
  const ArgSpec* best = nullptr;
  size_t closest = 3;  // further apart is no typing error
  for (const ArgSpec& a : entry.args) {
    const size_t d = distance(given, a.name);
    if (d < closest && d < given.size()) {
      closest = d;
      best = &a;
    }
  }
  if (best) text += concat(" (did you mean '", best->name, "'?)");
  return text;
}

}  // namespace rush::py
