// return_types.cpp: named results: rushlight.return_types.max(values=..., indices=...).
#include "bindings/python.h"

#include <structmember.h>

#include <map>

#include "bindings/call/dispatch.h"
#include "bindings/handle.h"

namespace rush::py {
namespace {

// By op name: overloads with the same result names share a type.
std::map<std::string, PyTypeObject*, std::less<>>& types() {
  static auto* all = new std::map<std::string, PyTypeObject*, std::less<>>;
  return *all;
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    words.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

// One field a line, as PyTorch prints them.
PyObject* repr(PyObject* self) {
  return guarded([&] {
    PyTypeObject* type = Py_TYPE(self);
    std::string text = concat(type->tp_name, "(\n");
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self); ++i) {
      const Handle item = Handle::steal(PyObject_Repr(PyTuple_GET_ITEM(self, i)));
      text += concat(i ? ",\n" : "", type->tp_members[i].name, "=", text_of(item.get()));
    }
    text += ")";
    return PyUnicode_FromStringAndSize(text.data(), Py_ssize_t(text.size()));
  });
}

// The type keeps pointers to these texts: they stay for ever.
const char* keep(std::string text) { return (new std::string(std::move(text)))->c_str(); }

PyTypeObject* make_type(const OpEntry& entry) {
  auto* fields = new std::vector<PyStructSequence_Field>;
  for (std::string& name : split(entry.result_names)) fields->push_back({keep(name), nullptr});
  const int n = int(fields->size());
  fields->push_back({nullptr, nullptr});
  PyStructSequence_Desc desc = {keep(concat("rushlight.return_types.", entry.name)), entry.doc,
                                fields->data(), n};
  PyTypeObject* type = PyStructSequence_NewType(&desc);
  if (!type) throw PythonError{};
  type->tp_repr = repr;
  PyType_Modified(type);
  return type;
}

PyTypeObject* type_of(const OpEntry& entry) {
  const auto it = types().find(std::string_view(entry.name));
  internal_assert(it != types().end(), "an op without a return type");
  return it->second;
}

}  // namespace

PyObject* make_named_tuple(const OpEntry& entry, PyObject* const* items) {
  PyObject* result =
      *entry.result_names ? PyStructSequence_New(type_of(entry)) : PyTuple_New(entry.num_results);
  for (int i = 0; i < entry.num_results; ++i) {
    if (!result)
      Py_DECREF(items[i]);
    else if (*entry.result_names)
      PyStructSequence_SetItem(result, i, items[i]);
    else
      PyTuple_SET_ITEM(result, i, items[i]);
  }
  return result;
}

// _return_types: name -> class, for rushlight.return_types, where unpickling finds them.
bool init_return_types(PyObject* module) {
  return guarded_int([&] {
           const Handle all = Handle::steal(PyDict_New());
           for (const OpEntry& entry : all_ops()) {
             if (!*entry.result_names || types().count(entry.name)) continue;
             PyTypeObject* type = types()[entry.name] = make_type(entry);
             check_status(
                 PyDict_SetItemString(all.get(), entry.name, reinterpret_cast<PyObject*>(type)));
           }
           return PyModule_AddObjectRef(module, "_return_types", all.get());
         }) == 0;
}

}  // namespace rush::py
