// python_code.h: which Python code ran in a call, and whose it is.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "bindings/handle.h"

namespace rush::py {

// The Python code that ran in a call, besides that of this package and of Python's own library.
struct ExecutedCode {
  struct Code {
    Handle code, globals;
  };
  std::vector<Code> all;
  std::unordered_set<PyObject*> set;
  std::string impure;  // the first call of something that talks to the world: "print() at ..."
  void add(PyObject* code, PyObject* globals);
};

// Watches what this thread runs until its end.
class CodeWatch {
 public:
  explicit CodeWatch(ExecutedCode& to);
  ~CodeWatch();
  CodeWatch(const CodeWatch&) = delete;
  CodeWatch& operator=(const CodeWatch&) = delete;
  static bool possible();  // no other profile function is installed

 private:
  Handle capsule_;
};

// Is it neither this package's nor of Python's own library (nor NumPy's)?
bool is_users_code(PyObject* code);
bool is_library_module(PyObject* module);
// Classes whose objects belong to Python's machinery (loggers, locks, files): not looked into.
bool is_of_the_library(PyTypeObject* type);
// The function that a class's entry stands for: itself, or behind staticmethod, classmethod,
// property; or null.
PyObject* function_behind(PyObject* o);
bool is_partial(PyObject* o);         // functools.partial
Handle global_names(PyObject* code);  // the names that the code reads as globals: a set
bool holds_constant(PyObject* code, PyObject* constant);  // among co_consts
std::string shown_code(PyObject* code);                   // "f (train.py:12)"
std::string shown_value(PyObject* o);                     // repr, shortened

}  // namespace rush::py
