// autograd.cpp: gradients from Python: a tensor's properties, grad mode, backward, graph nodes.
#include "bindings/autograd/autograd.h"

#include <atomic>
#include <exception>
#include <optional>
#include <thread>

#include "autograd/engine.h"
#include "autograd/exchange_data.h"
#include "bindings/autograd/node_object.h"
#include "bindings/gil.h"
#include "bindings/handle.h"
#include "core/futex.h"
#include "core/interrupt.h"
#include "jit/recorder.h"
#include "jit/tracer.h"
#include "ops/gradients_ops.h"
#include "ops/ops.h"
#include "ops/vmap/vmap.h"

namespace rush::py {
namespace {

bool truth(PyObject* o) {
  const int value = PyObject_IsTrue(o);
  check_status(value);
  return value;
}

// A tensor or a sequence of tensors; gradients may be None (undefined).
std::vector<Tensor> tensors_argument(const char* function, const char* name, PyObject* o,
                                     bool none_is_fine = false) {
  if (!o || o == Py_None) return {};
  if (is_tensor(o)) return {unwrap(o)};
  const Handle items = Handle::maybe(PySequence_Fast(o, ""));
  if (!items) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw PythonError{};
    PyErr_Clear();
    fail(ErrorKind::Type, function, "'", name, "' must be a tensor or a sequence of tensors, not ",
         type_name(o));
  }
  std::vector<Tensor> list;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(items.get(), i);
    const bool none = none_is_fine && item == Py_None;
    check(none || is_tensor(item), ErrorKind::ArgumentType, function, "'", name,
          "' must hold tensors", none_is_fine ? " or None" : "", ", element ", int64_t(i), " is ",
          type_name(item));
    list.push_back(none ? Tensor() : unwrap(item));
  }
  return list;
}
// create_graph and retain_graph: a bool, or an int as old programs have it.
bool flag_argument(const char* function, const char* name, PyObject* o, bool otherwise) {
  return o && PyLong_Check(o) ? truth(o) : bool_argument(function, name, o, otherwise);
}
BackwardOptions options_of(const char* function, PyObject* retain_graph, PyObject* create_graph) {
  BackwardOptions options;
  options.create_graph = flag_argument(function, "create_graph", create_graph, false);
  options.retain_graph =
      flag_argument(function, "retain_graph", retain_graph, options.create_graph);
  return options;
}

// `inputs` of backward: absent, or at least one.
std::vector<Tensor> inputs_argument(PyObject* o) {
  std::vector<Tensor> inputs = tensors_argument("backward", "inputs", o);
  check(!given(o) || !inputs.empty(), ErrorKind::Runtime, "backward",
        "'inputs' is empty: leave it out for all leaves, or name some");
  return inputs;
}
// One gradient a root; none given: None for each.
std::vector<Tensor> gradients_argument(const char* function, const char* name, PyObject* o,
                                       size_t roots) {
  std::vector<Tensor> grads = tensors_argument(function, name, o, true);
  check(!given(o) || grads.size() == roots, ErrorKind::Runtime, function, "got ", int64_t(roots),
        roots == 1 ? " tensor" : " tensors", " and ", int64_t(grads.size()),
        grads.size() == 1 ? " gradient" : " gradients", " for them in '", name, "'");
  grads.resize(roots);
  return grads;
}

// The engine's thread for deeply nested calls. An exception of Python's belongs to a thread state:
// the thread keeps one for as long as it runs, and hands the exception over in the end.
void run_on_python_thread(void (*body)(void*), void* context) {
  std::optional<ReleaseGil> waiting;
  if (PyGILState_Check()) waiting.emplace();
  std::exception_ptr error, interrupt;
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  std::atomic<bool> stop{false};
  std::atomic<int> done{0};
  std::thread thread([&] {
    {
      const TakeGil gil;
      try {
        const ReleaseGil working;
        const StopScope scope(&stop);
        body(context);
      } catch (...) {
        error = std::current_exception();
      }
      PyErr_Fetch(&type, &value, &trace);
    }
    done = 1;
    wake_waiting(done);
  });
  wait_interruptibly(stop, interrupt, [&](auto limit) {
    if (!done) wait_for_change(done, 0, limit);
    return done != 0;
  });
  thread.join();
  if (interrupt) std::rethrow_exception(interrupt);
  if (type) {
    const TakeGil gil;
    PyErr_Restore(type, value, trace);
  }
  if (error) std::rethrow_exception(error);
}

void run_backward(const std::vector<Tensor>& roots, const std::vector<Tensor>& grads,
                  const BackwardOptions& options, const std::vector<Tensor>& inputs) {
  for (const Tensor& t : roots)
    check(!t.defined() || !t.is_batched(), ErrorKind::Runtime, "backward",
          "backward() is not supported inside vmap; use func.grad or func.vjp");
  const bool recorded = jit::recorder_here() != nullptr;
  const ReleaseGilForGraph guard;  // hooks take the GIL for themselves
  if (recorded)
    _run_backward(roots, grads, inputs, options.retain_graph, options.create_graph);
  else
    rush::backward(roots, grads, options, inputs);
}

// _backward(tensors, grad_tensors, retain_graph, create_graph, inputs)
PyObject* backward_(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&] {
    constexpr const char* names[] = {"tensors", "grad_tensors", "retain_graph", "create_graph",
                                     "inputs"};
    PyObject* a[5];
    parse_arguments({"backward", names, 5, 1}, args, nargs, kwnames, a);
    const BackwardOptions options = options_of("backward", a[2], a[3]);
    const auto roots = tensors_argument("backward", "tensors", a[0]);
    const auto grads = gradients_argument("backward", "grad_tensors", a[1], roots.size());
    run_backward(roots, grads, options, inputs_argument(a[4]));
    return Py_NewRef(Py_None);
  });
}

// _grad(outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused, for_each_sample)
PyObject* grad_(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&] {
    constexpr const char* names[] = {"outputs",        "inputs",       "grad_outputs",
                                     "retain_graph",   "create_graph", "allow_unused",
                                     "for_each_sample"};
    PyObject* a[7];
    parse_arguments({"grad", names, 7, 2}, args, nargs, kwnames, a);
    BackwardOptions options = options_of("grad", a[3], a[4]);
    options.allow_unused = flag_argument("grad", "allow_unused", a[5], false);
    const bool for_each_sample = flag_argument("grad", "for_each_sample", a[6], false);
    const auto roots = tensors_argument("grad", "outputs", a[0]);
    const auto inputs = tensors_argument("grad", "inputs", a[1]);
    check(!inputs.empty(), ErrorKind::Runtime, "grad", "'inputs' is empty");
    const auto grads = gradients_argument("grad", "grad_outputs", a[2], roots.size());
    std::vector<Tensor> found;
    const bool recorded = jit::recorder_here() != nullptr && !for_each_sample;
    {
      const ReleaseGilForGraph guard;
      found = recorded ? _run_grad(roots, grads, inputs, options.retain_graph, options.create_graph,
                                   options.allow_unused)
                       : batched_grad(roots, grads, inputs, options, for_each_sample);
    }
    Handle result = Handle::steal(PyTuple_New(Py_ssize_t(found.size())));
    for (size_t i = 0; i < found.size(); ++i) {
      PyTuple_SET_ITEM(result.get(), Py_ssize_t(i), Handle::steal(wrap(found[i])).release());
    }
    return result.release();
  });
}

PyObject* is_grad_enabled(PyObject*, PyObject*) { return PyBool_FromLong(!(t_modes & kNoGrad)); }
PyObject* set_grad_enabled(PyObject*, PyObject* on) {
  return guarded([&] {
    set_mode(kNoGrad, !truth(on));
    return Py_NewRef(Py_None);
  });
}
PyObject* is_inference(PyObject*, PyObject*) { return PyBool_FromLong(t_modes & kInferenceMode); }
PyObject* set_inference(PyObject*, PyObject* on) {
  return guarded([&] {
    set_mode(kInferenceMode, truth(on));
    return Py_NewRef(Py_None);
  });
}

PyMethodDef functions[] = {
    {"_backward", as_method(backward_), kFastcall, nullptr},
    {"_grad", as_method(grad_), kFastcall, nullptr},
    {"is_grad_enabled", is_grad_enabled, METH_NOARGS,
     "is_grad_enabled()\n--\n\n"
     "Whether operations are recorded on this thread.\n"
     "\n"
     "Example:\n"
     "    >>> with rl.no_grad():\n"
     "    ...     rl.is_grad_enabled()\n"
     "    False"},
    {"_set_grad_enabled", set_grad_enabled, METH_O, nullptr},
    {"is_inference_mode_enabled", is_inference, METH_NOARGS,
     "is_inference_mode_enabled()\n--\n\n"
     "Whether inference mode is on for this thread.\n"
     "\n"
     "Example:\n"
     "    >>> with rl.inference_mode():\n"
     "    ...     rl.is_inference_mode_enabled()\n"
     "    True"},
    {"_set_inference_mode", set_inference, METH_O, nullptr},
    {},
};

const GradMeta* meta_of(PyObject* o) { return grad_meta_or_null(unwrap(o)); }

// These are ops only where a frozen function is recorded.
void want_grad(const Tensor& t, bool on) {
  if (jit::recorder_here())
    _want_grad(t, on);
  else
    set_requires_grad(innermost(t), on);
}
void put_grad(const Tensor& t, const Tensor& grad) {
  if (jit::recorder_here())
    _put_grad(t, grad);
  else
    exchange_grad(t, grad);
}

}  // namespace

PyObject* get_requires_grad(PyObject* o, void*) {
  return guarded([&] { return PyBool_FromLong(requires_grad(unwrap(o))); });
}
int set_requires_grad_(PyObject* o, PyObject* value, void*) {
  return guarded_int([&] {
    check(value, ErrorKind::Type, "requires_grad", "cannot be deleted");
    want_grad(unwrap(o), truth(value));
    return 0;
  });
}

namespace {

// Backward leaves nothing there, and who reads it mostly believes that it does.
[[gnu::cold]] void warn_no_leaf() {
  check_status(PyErr_WarnEx(
      PyExc_UserWarning,
      "grad: the .grad of a tensor that is not a leaf was read, and backward() does not fill it. "
      "Call retain_grad() on the tensor before backward() to have its gradient, or read the .grad "
      "of the leaf that was meant.",
      1));
}

}  // namespace

PyObject* get_grad(PyObject* o, void*) {
  return guarded([&] {
    const Tensor& t = unwrap(o);
    Tensor grad = jit::recorder_here() ? _read_grad(t) : grad_of(t);
    if (!grad.defined() && is_tracked(t) && !retains_grad(t) && !is_leaf(t)) warn_no_leaf();
    return wrap(std::move(grad));
  });
}
int set_grad(PyObject* o, PyObject* value, void*) {
  return guarded_int([&] {
    const Tensor& t = unwrap(o);
    if (!value || value == Py_None) {
      if (meta_of(o)) put_grad(t, {});
      return 0;
    }
    check(is_tensor(value), ErrorKind::Type, "grad", "expected a tensor or None, not ",
          type_name(value));
    const Tensor& g = unwrap(value);
    check(!g.is_same(t), ErrorKind::Runtime, "grad", "a tensor cannot be its own gradient");
    check_shape(equal(g.sizes(), t.sizes()), "grad", "the tensor has shape ", t.sizes(),
                ", the gradient ", g.sizes());
    check(g.dtype() == t.dtype(), ErrorKind::DType, "grad", "the tensor is ", t.dtype(),
          ", the gradient ", g.dtype());
    check(g.device() == t.device(), ErrorKind::Device, "grad", "the tensor is on ", t.device(),
          ", the gradient on ", g.device());
    put_grad(t, g);
    return 0;
  });
}

PyObject* get_grad_fn(PyObject* o, void*) {
  return guarded([&] {
    jit::end_recording("a look at grad_fn");
    const Ref<Node> node = grad_fn(innermost(unwrap(o)));
    if (node) track_tensor(o);  // hooks on the node may lead back to the tensor
    return wrap_node(node);
  });
}
PyObject* get_is_leaf(PyObject* o, void*) {
  return guarded([&] { return PyBool_FromLong(is_leaf(innermost(unwrap(o)))); });
}
PyObject* get_output_nr(PyObject* o, void*) {
  return PyLong_FromLong(meta_of(o) ? long(meta_of(o)->slot) : 0);
}
PyObject* get_retains_grad(PyObject* o, void*) { return PyBool_FromLong(retains_grad(unwrap(o))); }

// Unlike detach(), .data counts its writes apart: they are the user's own risk.
PyObject* get_data(PyObject* o, void*) {
  return guarded([&] {
    const Tensor& self = unwrap(o);
    if (self.is_batched()) return wrap(detach(self));
    Tensor t = self.alias();
    t.impl()->version = nullptr;
    if (is_tracked(self)) {
      if (requires_grad(self))
        mark_cut(t, ".data");
      else
        inherit_cut(t, self);
    }
    return wrap(std::move(t));
  });
}

// Puts other memory under the same tensor: graph, Python object and gradient stay.
int set_data(PyObject* o, PyObject* value, void*) {
  return guarded_int([&] {
    check(value && is_tensor(value), ErrorKind::Type, "data", "expected a tensor");
    jit::check_not_tracing("data", "a tensor gets other memory without an operator");
    exchange_data(unwrap(o), unwrap(value));
    return 0;
  });
}

PyObject* tensor_requires_grad_(PyObject* o, PyObject* const* args, Py_ssize_t n,
                                PyObject* kwnames) {
  return guarded([&] {
    constexpr const char* names[] = {"requires_grad"};
    PyObject* on;
    parse_arguments({"requires_grad_", names, 1, 0}, args, n, kwnames, &on);
    want_grad(unwrap(o), bool_argument("requires_grad_", "requires_grad", on, true));
    return Py_NewRef(o);
  });
}

PyObject* tensor_backward(PyObject* o, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&] {
    constexpr const char* names[] = {"gradient", "retain_graph", "create_graph", "inputs"};
    PyObject* a[4];
    parse_arguments({"backward", names, 4, 0}, args, n, kwnames, a);
    const BackwardOptions options = options_of("backward", a[1], a[2]);
    run_backward({unwrap(o)}, gradients_argument("backward", "gradient", a[0], 1), options,
                 inputs_argument(a[3]));
    return Py_NewRef(Py_None);
  });
}

PyObject* tensor_retain_grad(PyObject* o, PyObject*) {
  return guarded([&] {
    const Tensor& t = unwrap(o);
    check(requires_grad(t), ErrorKind::Runtime, "retain_grad",
          "the tensor does not require a gradient");
    jit::end_recording("retain_grad()");
    retain_grad(t);
    return Py_NewRef(Py_None);
  });
}

static PyObject* hook_argument(const char* function, PyObject* const* args, Py_ssize_t n,
                               PyObject* kwnames) {
  constexpr const char* names[] = {"hook"};
  PyObject* hook;
  parse_arguments({function, names, 1, 1}, args, n, kwnames, &hook);
  return hook;
}

PyObject* tensor_register_hook(PyObject* o, PyObject* const* args, Py_ssize_t n,
                               PyObject* kwnames) {
  return guarded([&] {
    PyObject* hook = hook_argument("register_hook", args, n, kwnames);
    jit::end_recording("a hook that is registered inside the function");
    const Tensor& t = unwrap(o);
    check(requires_grad(t), ErrorKind::Runtime, "register_hook",
          "the tensor does not require a gradient, so no hook would ever be called");
    PyObject* handle = add_hook(gradient_hooks(t), hook, "register_hook");
    track_tensor(o);
    return handle;
  });
}

PyObject* tensor_register_accumulation_hook(PyObject* o, PyObject* const* args, Py_ssize_t n,
                                            PyObject* kwnames) {
  constexpr const char* name = "register_post_accumulate_grad_hook";
  return guarded([&] {
    PyObject* hook = hook_argument(name, args, n, kwnames);
    jit::end_recording("a hook that is registered inside the function");
    const Tensor& t = unwrap(o);
    check(requires_grad(t), ErrorKind::Runtime, name,
          "the tensor does not require a gradient, so no hook would ever be called");
    check(is_leaf(t), ErrorKind::Runtime, name,
          "only leaves accumulate gradients; use register_hook() on a computed tensor");
    PyObject* handle = add_hook(accumulation_hooks(t), hook, name);
    track_tensor(o);
    return handle;
  });
}

bool init_autograd(PyObject* module) {
  set_thread_runner(run_on_python_thread);
  return PyModule_AddFunctions(module, functions) == 0 && init_hooks(module) &&
         init_nodes(module) && init_functions(module) && init_saved_tensor_hooks(module) &&
         init_saved_values(module) && init_anomaly(module) && init_write_observer(module) &&
         init_graph(module);
}

}  // namespace rush::py
