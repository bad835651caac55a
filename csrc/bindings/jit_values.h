// jit_values.h: between Python objects and the values of programs; what the files of jit bindings share.
#pragma once

#include <memory>

#include "bindings/handle.h"
#include "jit/code.h"

namespace rush::py {

inline constexpr const char *kCode = "rushlight.jit.code", *kVariables = "rushlight.jit.variables";

template <class T>
T& held(PyObject* capsule, const char* name) {
  auto* p = static_cast<T*>(PyCapsule_GetPointer(capsule, name));
  if (!p) throw PythonError{};
  return *p;
}
inline const jit::Code& code_in(PyObject* capsule) {
  return *held<jit::CodePointer>(capsule, kCode);
}
inline jit::Variables& variables_in(PyObject* capsule) {
  return *held<std::shared_ptr<jit::Variables>>(capsule, kVariables);
}

// No program changes lists among the attributes while it lives. A program may wait for the GIL, so
// who waits for a program does not hold it.
inline std::unique_lock<jit::ProgramMutex> at_rest(const jit::Variables& variables) {
  const ReleaseGil waiting;
  return std::unique_lock(*variables.mutex);
}

template <class T>
PyObject* capsule_of(T pointer, const char* name) {
  auto kept = std::make_unique<T>(std::move(pointer));
  PyObject* capsule = PyCapsule_New(kept.get(), name, [](PyObject* c) {
    delete static_cast<T*>(PyCapsule_GetPointer(c, PyCapsule_GetName(c)));
  });
  if (capsule) kept.release();
  return capsule;
}

// What may lie at the bottom of containers: traced programs know tensors only.
enum class Leaves : uint8_t { Tensors, Values };
jit::IValue to_ivalue(const char* function, PyObject* o, Leaves leaves, int depth = 0);
Handle from_ivalue(const jit::IValue& v);
std::vector<Tensor> tensors_in(const char* function, PyObject* o);

inline Handle text(const std::string& s) {
  return Handle::steal(PyUnicode_FromStringAndSize(s.data(), Py_ssize_t(s.size())));
}
Handle list_of(size_t n, auto&& item) {
  Handle list = Handle::steal(PyList_New(Py_ssize_t(n)));
  for (size_t i = 0; i < n; ++i) PyList_SET_ITEM(list.get(), Py_ssize_t(i), item(i).release());
  return list;
}

// jit_script.cpp:
bool init_jit_script(PyObject* module);
PyObject* raise_script_error(const jit::ScriptError& e);  // sets it; null
void add_functions(const jit::Code& code, PyObject* methods);

}  // namespace rush::py
