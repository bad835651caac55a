#include "bindings/call/carried_error.h"

#include <vector>

namespace rush::py {
namespace {

struct Queue {
  Mutex mutex{LockRank::DroppedReferences};
  std::vector<PyObject*> waiting;
  std::atomic<bool> any{false};
};

Queue& queue() {
  static auto* q = new Queue;  // outlives every thread
  return *q;
}

int drop_waiting_call(void*) {
  drop_waiting_references();
  return 0;
}

}  // namespace

void drop_waiting_references() noexcept {
  Queue& q = queue();
  if (!q.any.load(std::memory_order_acquire)) return;
  std::vector<PyObject*> dropped;
  {
    std::lock_guard lock(q.mutex);
    dropped.swap(q.waiting);
    q.any = false;
  }
  PyObject *type, *value, *traceback;  // destructors must not see somebody else's exception
  PyErr_Fetch(&type, &value, &traceback);
  for (PyObject* o : dropped) Py_DECREF(o);
  PyErr_Restore(type, value, traceback);
}

void drop_reference(PyObject* o) noexcept {
  if (holds_gil()) {
    Py_DECREF(o);
    return;
  }
  if (python_is_gone()) return;  // the process ends; nobody will miss it
  Queue& q = queue();
  bool first;
  {
    std::lock_guard lock(q.mutex);
    first = q.waiting.empty();
    q.waiting.push_back(o);
    q.any = true;
  }
  if (first) Py_AddPendingCall(drop_waiting_call, nullptr);
}

CarriedError CarriedError::take() {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  auto parts = std::make_shared<Parts>();
  parts->type = PyRef(type);
  parts->value = PyRef(value);
  parts->traceback = PyRef(traceback);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  CarriedError e;
  e.parts_ = std::move(parts);
  return e;
}

void CarriedError::restore() const {
  PyErr_Restore(Py_XNewRef(parts_->type.get()), Py_XNewRef(parts_->value.get()),
                Py_XNewRef(parts_->traceback.get()));
}

}  // namespace rush::py
