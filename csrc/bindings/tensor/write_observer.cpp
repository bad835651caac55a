// write_observer.cpp: a Python function that is told of every tensor an operator is about to write
// to (for allow_mutation_on_saved_tensors).
#include <memory>
#include <vector>

#include "bindings/call/carried_error.h"

namespace rush::py {
namespace {

class WriteObserver final : public Interceptor {
 public:
  explicit WriteObserver(PyObject* callable) : callable_(callable) {}
  void call(const OpEntry& entry, Value* args, Value* results) override {
    if (entry.form == Form::InPlace) tell(args[0].tensor());
    if (entry.form == Form::Out) {
      const Value& out = args[entry.args.size() - 1];
      if (out.tag() == Value::Tag::Tensor) tell(out.tensor());
      if (out.tag() == Value::Tag::Tensors) {
        for (const Tensor& t : out.tensors()) tell(t);
      }
    }
    entry.boxed(args, results);
  }

 private:
  void tell(const Tensor& t) {
    if (!t.defined()) return;
    call_python([&] {
      const Handle argument = Handle::steal(wrap(t));
      Handle::steal(PyObject_CallOneArg(callable_.get(), argument.get()));
    });
  }
  PyRef callable_;
};

thread_local std::vector<std::unique_ptr<WriteObserver>> t_observers;

PyObject* push(PyObject*, PyObject* callable) {
  return guarded([&] {
    t_observers.push_back(std::make_unique<WriteObserver>(callable));
    push_interceptor(t_observers.back().get());
    return Py_NewRef(Py_None);
  });
}

PyObject* pop(PyObject*, PyObject*) {
  return guarded([&] {
    check(!t_observers.empty(), ErrorKind::Runtime, "write observer", "none is active");
    pop_interceptor(t_observers.back().get());
    t_observers.pop_back();
    return Py_NewRef(Py_None);
  });
}

PyMethodDef functions[] = {
    {"_push_write_observer", push, METH_O, nullptr},
    {"_pop_write_observer", pop, METH_NOARGS, nullptr},
    {},
};

}  // namespace

bool init_write_observer(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace rush::py
