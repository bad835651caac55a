// graph.cpp: the graph and a running backward, as rushlight.autograd.graph asks about them.
#include "autograd/engine.h"
#include "autograd/running_task.h"
#include "bindings/autograd/node_object.h"
#include "bindings/call/carried_error.h"

namespace rush::py {
namespace {

// _gradient_edge(tensor) -> (node, slot)
PyObject* gradient_edge_(PyObject*, PyObject* o) {
  return guarded([&] {
    check(is_tensor(o), ErrorKind::Type, "get_gradient_edge", "expected a Tensor, not ",
          type_name(o));
    const Edge edge = gradient_edge(unwrap(o));
    const Handle node = Handle::steal(wrap_node(edge.node));
    return Py_BuildValue("OI", node.get(), edge.slot);
  });
}

PyObject* bump_version(PyObject*, PyObject* o) {
  return guarded([&] {
    check(is_tensor(o), ErrorKind::Type, "increment_version", "expected a Tensor, not ",
          type_name(o));
    check(!unwrap(o).impl()->has(TensorImpl::kInference), ErrorKind::Runtime, "increment_version",
          "tensors made under inference_mode() do not count their versions");
    unwrap(o).bump_version("increment_version");
    return Py_NewRef(Py_None);
  });
}

// A list of (node, slot).
std::vector<Edge> edges_argument(PyObject* list) {
  std::vector<Edge> edges;
  check(PyList_Check(list), ErrorKind::Type, "grad", "expected a list of edges");
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    PyObject* node = nullptr;
    unsigned slot = 0;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "OI", &node, &slot)) throw PythonError{};
    check(is_node(node), ErrorKind::Type, "grad", "expected a node, not ", type_name(node));
    check(slot < node_of(node)->results().size(), ErrorKind::Index, "grad", "edge ", i,
          " names result ", slot, " of a node with ", node_of(node)->results().size());
    edges.push_back({node_of(node), slot});
  }
  return edges;
}

// _grad_of_edges(outputs, grads, inputs, retain_graph, create_graph, allow_unused) -> tuple
PyObject* grad_of_edges(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    check(n == 6, ErrorKind::Type, "grad", "expected 6 arguments, not ", n);
    const std::vector<Edge> roots = edges_argument(args[0]), inputs = edges_argument(args[2]);
    std::vector<Tensor> seeds;
    check(PyList_Check(args[1]) && size_t(PyList_GET_SIZE(args[1])) == roots.size(),
          ErrorKind::Type, "grad", "expected a list with a gradient for each output");
    for (size_t i = 0; i < roots.size(); ++i) {
      PyObject* g = PyList_GET_ITEM(args[1], Py_ssize_t(i));
      check(is_tensor(g), ErrorKind::Type, "grad", "expected a Tensor, not ", type_name(g));
      const Dims& sizes = roots[i].node->results()[roots[i].slot].sizes;
      check_shape(unwrap(g).sizes() == sizes, "grad", "gradient ", i, " has shape ",
                  unwrap(g).sizes(), ", its output has shape ", sizes);
      seeds.push_back(unwrap(g));
    }
    BackwardOptions options;
    options.retain_graph = args[3] == Py_True;
    options.create_graph = args[4] == Py_True;
    std::vector<Tensor> found;
    {
      const ReleaseGilForGraph guard;
      found = run_graph(roots, std::move(seeds), inputs, false, options);
    }
    Handle result = Handle::steal(PyTuple_New(Py_ssize_t(found.size())));
    for (size_t i = 0; i < found.size(); ++i) {
      check(found[i].defined() || args[5] == Py_True, ErrorKind::Runtime, "grad", "input ", i,
            " was not used in the graph of the outputs. Pass allow_unused=True if that is meant");
      PyTuple_SET_ITEM(result.get(), Py_ssize_t(i), Handle::steal(wrap(found[i])).release());
    }
    return result.release();
  });
}

// A number for the backward that runs on this thread, -1 outside.
PyObject* current_graph_task(PyObject*, PyObject*) {
  const RunningTask* task = RunningTask::current();
  return PyLong_FromLongLong(task ? task->id() : -1);
}

// The node that runs now on this thread, or None.
PyObject* current_node(PyObject*, PyObject*) {
  return guarded([&] {
    const RunningTask* task = RunningTask::current();
    Node* node = task ? task->running_node() : nullptr;
    return node ? wrap_node(Ref<Node>::share(node)) : Py_NewRef(Py_None);
  });
}

// _queue_callback(f): f() when the backward that runs on this thread is done.
PyObject* queue_callback(PyObject*, PyObject* f) {
  return guarded([&] {
    const RunningTask* task = RunningTask::current();
    check(task, ErrorKind::Runtime, "queue_callback",
          "final callbacks can only be installed while backward runs");
    check(PyCallable_Check(f), ErrorKind::Type, "queue_callback", "expected a function, not ",
          type_name(f));
    const auto held = std::make_shared<PyRef>(f);
    task->at_end([held] { call_python([&] { Handle::steal(PyObject_CallNoArgs(held->get())); }); });
    return Py_NewRef(Py_None);
  });
}

PyObject* will_run(PyObject*, PyObject* o) {
  return guarded([&] {
    check(is_node(o), ErrorKind::Type, "_will_run", "expected a node, not ", type_name(o));
    const RunningTask* task = RunningTask::current();
    check(task, ErrorKind::Runtime, "_will_run", "no backward runs on this thread");
    return PyBool_FromLong(task->will_run(node_of(o).get()));
  });
}

PyObject* is_checkpoint_valid(PyObject*, PyObject*) {
  const RunningTask* task = RunningTask::current();
  return PyBool_FromLong(!task || task->fills_all_leaves());
}

PyMethodDef functions[] = {
    {"_gradient_edge", gradient_edge_, METH_O, nullptr},
    {"_bump_version", bump_version, METH_O, nullptr},
    {"_grad_of_edges", as_method(grad_of_edges), METH_FASTCALL, nullptr},
    {"_current_graph_task", current_graph_task, METH_NOARGS, nullptr},
    {"_current_autograd_node", current_node, METH_NOARGS, nullptr},
    {"_queue_callback", queue_callback, METH_O, nullptr},
    {"_will_run", will_run, METH_O, nullptr},
    {"_is_checkpoint_valid", is_checkpoint_valid, METH_NOARGS, nullptr},
    {},
};

}  // namespace

bool init_graph(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace rush::py
