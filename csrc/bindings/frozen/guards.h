// guards.h: what Python values a frozen function's ops depend on, and whether they are still the
// same (rushlight/compiler/_frozen.py).
//
// Note [What a frozen function depends on]
// A replay skips Python, so all that Python would have looked at has to be looked at instead:
// - the arguments: containers by their contents, tensors by geometry and type, numbers and strings
//   by value, all else by identity;
// - the function and those that it called (a profile hook saw which Python code ran): the values of
//   the global names in their code, their closures and defaults;
// - whatever can be reached from these through containers, objects with a __dict__ (modules,
//   optimisers) and user's Python modules: numbers by value, tensors by identity where the recording
//   uses them, classes by their version, which counts all changes to them.
// Walking over it takes some nanoseconds per value. Nothing here owns a Python object that could
// own the function: the walk starts anew at the function each time, and what it remembers are
// numbers, strings, code objects and addresses that are only compared.
//
// What is not seen: state inside iterators, generators, objects without a __dict__ and functions
// written in C. That is what the audits are for.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "bindings/frozen/python_code.h"
#include "jit/recorder.h"

namespace rush::py {

struct GuardEntry {
  enum class Kind : uint8_t {
    Same,        // an object, by its address
    Int,         // value
    Float,       // number; with `slot` any number will do
    Text,        // value: a str, bytes or complex number
    Container,   // of a type, with so many items, which follow
    Object,      // an instance of a type; its __dict__ follows, then methods of the type that ran
    SeenObject,  // the same, without the methods
    Function,    // by its code; closure, defaults and globals follow if `number` is not 0
    Type,        // a class, by address and version
    Module,      // a Python module; the names of it that the code has follow if `number` is not 0
    Missing,     // a name that is not there
    Again,       // an object that was walked over before
    Input,       // a tensor of the arguments
    State,       // any other tensor
  };
  Kind kind;
  bool uses = false;  // State: the recording uses it
  // Float: nothing but tensors can depend on it, so it may become an input of the program.
  bool may_vary = false;
  bool attributes = false;  // a tensor that has some: they follow
  int slot = -1;            // Float: which of the numbers that may change
  uint32_t version = 0;     // of a class; of an Input, which of the facts
  const void* address = nullptr;
  union {
    int64_t number = 0;  // how many items; of a State, which of the facts
    double real;
  };
  Handle value;  // a number, a string, a code object, names: nothing that owns others
};

// Where an entry was found: what only messages need.
struct GuardOrigin {
  uint32_t parent;
  std::string step;  // from the parent: ".weight", "[0]"
};

class Guards {
 public:
  // Walks over everything; what is found is expected from now on.
  void record(PyObject* function, PyObject* also, PyObject* args, PyObject* kwargs,
              const ExecutedCode& executed);
  // AnyFloat: numbers with a fraction may differ. AnyGrad: what autograd says of inputs may, too.
  enum class Leniency : uint8_t { None, AnyFloat, AnyGrad };
  // Is all as it was? Fills in the inputs and all floats. If not, difference() says what changed.
  bool check(PyObject* function, PyObject* also, PyObject* args, PyObject* kwargs,
             std::vector<Tensor>& found, std::vector<double>& numbers,
             Leniency leniency = Leniency::None);
  std::string difference() const;

  // By record():
  std::string problem;  // why it cannot be watched
  std::vector<GuardEntry> entries;
  std::vector<GuardOrigin> origins;  // of each entry
  std::vector<Tensor> inputs;
  std::vector<double> floats;
  std::vector<uint32_t> float_entries;  // whose the floats are
  std::unordered_set<const TensorImpl*> reachable;
  std::vector<jit::TensorFacts> facts;
  std::string path(size_t entry) const;
  // An argument, as args ("[0]") or kwargs ("['name']") have it, by which the function decided.
  void keep_fixed(std::string_view argument);

 private:
  friend class Walk;
  size_t failed_at_ = 0;
  std::string failure_;
  std::vector<uint8_t> input_pattern_;  // which inputs share memory
  std::vector<PyObject*> current_;      // while checking: the object of each entry
  // Code that ran and that no function led to: its globals are walked over last.
  std::vector<ExecutedCode::Code> loose_;
};

}  // namespace rush::py
