// interrupt.cpp: signals that come while the core computes (Note [Interrupts] in core/interrupt.h).
#include "core/interrupt.h"

#include "bindings/call/carried_error.h"
#include "bindings/python.h"

namespace rush::py {
namespace {

// With or without the GIL, on the thread that runs handlers.
void run_signal_handlers() {
  if (python_is_gone()) return;
  call_python([] { check_status(PyErr_CheckSignals()); });
}

// After a fork by Python: the thread that is left is the main one now.
PyObject* name_this_thread(PyObject*, PyObject*) {
  set_interrupt_thread(PyThread_get_thread_ident());
  Py_RETURN_NONE;
}
PyMethodDef g_after_fork{"_after_fork_in_child", name_this_thread, METH_NOARGS, nullptr};

}  // namespace

bool init_interrupt(PyObject*) {
  return guarded_int([] {
           const Handle threading = Handle::steal(PyImport_ImportModule("threading"));
           const Handle main =
               Handle::steal(PyObject_CallMethod(threading.get(), "main_thread", nullptr));
           const Handle ident = Handle::steal(PyObject_GetAttrString(main.get(), "ident"));
           const unsigned long thread = PyLong_AsUnsignedLong(ident.get());
           if (PyErr_Occurred()) throw PythonError{};
           const Handle os = Handle::steal(PyImport_ImportModule("os"));
           const Handle hook = Handle::steal(PyObject_GetAttrString(os.get(), "register_at_fork"));
           const Handle named = Handle::steal(PyCFunction_New(&g_after_fork, nullptr));
           const Handle none = Handle::steal(PyTuple_New(0));
           const Handle when = Handle::steal(Py_BuildValue("{s:O}", "after_in_child", named.get()));
           Handle::steal(PyObject_Call(hook.get(), none.get(), when.get()));
           set_interrupt_thread(thread);
           set_interrupt_poll(run_signal_handlers);
           return 0;
         }) == 0;
}

}  // namespace rush::py
