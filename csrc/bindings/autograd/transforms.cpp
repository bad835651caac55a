// transforms.cpp: what rushlight.func and autograd.forward_ad need of C++: levels of forward mode
// and of vmap, and inputs to differentiate by.
#include <unordered_set>

#include "autograd/accumulate_grad.h"
#include "bindings/handle.h"
#include "ops/ops.h"
#include "ops/vmap/vmap.h"

namespace rush::py {
namespace {

const Tensor& tensor_argument(const char* function, const char* name, PyObject* o) {
  check(is_tensor(o), ErrorKind::Type, function, "'", name, "' must be a Tensor, not ",
        type_name(o));
  return unwrap(o);
}

int64_t int_argument(const char* function, const char* name, PyObject* o) {
  int64_t value = 0;
  check(int_from_python(o, value), ErrorKind::Type, function, "'", name, "' must be an int, not ",
        type_name(o));
  return value;
}

template <size_t N>
struct Arguments {
  PyObject* at[N];
  Arguments(const char* function, const char* const (&names)[N], PyObject* const* args,
            Py_ssize_t nargs, PyObject* kwnames) {
    parse_arguments({function, names, N, N}, args, nargs, kwnames, at);
  }
};

// --- forward mode --------------------------------------------------------------------------------

// A tensor over the same memory that is nobody's view, with the graph but without tangents.
Tensor plain_alias(const Tensor& t) {
  const LevelsBelow none(1);
  Tensor out = alias(t);
  out.impl()->base = nullptr;
  return out;
}

Tensor make_dual(const Tensor& t, const Tensor& tangent, int level) {
  if (t.is_batched()) {
    const int batch = t.impl()->vmap_level;
    return add_batch(make_dual(without_batch(t, batch), with_all_samples(tangent, batch), level),
                     batch);
  }
  check(!tangent_at(t, level).defined(), ErrorKind::Runtime, "make_dual",
        "this tensor already has a tangent at this level; unpack_dual() it first");
  check(!tangent_at(innermost(tangent), level).defined(), ErrorKind::Runtime, "make_dual",
        "the tangent itself has a tangent at this level; unpack_dual() it first");
  Tensor out = plain_alias(t);
  {
    const LevelsBelow below(level);
    carry_tangents(t, out);
  }
  set_own_tangent(out, level, tangent);
  return out;
}

struct Unpacked {
  Tensor primal, tangent;
};
Unpacked unpack_dual(const Tensor& t, int level) {
  if (t.is_batched()) {
    const int batch = t.impl()->vmap_level;
    const Unpacked u = unpack_dual(without_batch(t, batch), level);
    return {add_batch(u.primal, batch),
            u.tangent.defined() ? add_batch_below(u.tangent, batch) : Tensor()};
  }
  Tensor primal = plain_alias(t);
  const LevelsBelow below(level);
  carry_tangents(t, primal);
  return {primal, tangent_at(t, level)};
}

PyObject* enter_level(PyObject*, PyObject*) { return PyLong_FromLong(enter_forward_level()); }
PyObject* exit_level(PyObject*, PyObject*) {
  return guarded([&] {
    exit_forward_level();
    return Py_NewRef(Py_None);
  });
}
PyObject* current_level(PyObject*, PyObject*) { return PyLong_FromLong(forward_level()); }

void check_level(const char* function, int64_t level) {
  check(level >= 1 && level <= forward_level(), ErrorKind::Runtime, function,
        "there is no such level: ", level, " of ", forward_level());
}

// _make_dual(tensor, tangent, level)
PyObject* make_dual_(PyObject*, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&] {
    const Arguments<3> a("make_dual", {"tensor", "tangent", "level"}, args, n, kwnames);
    const Tensor& t = tensor_argument("make_dual", "tensor", a.at[0]);
    const Tensor& tangent = tensor_argument("make_dual", "tangent", a.at[1]);
    const int64_t level = int_argument("make_dual", "level", a.at[2]);
    check_level("make_dual", level);
    check(is_differentiable(t.dtype()), ErrorKind::Value, "make_dual",
          "the tensor must be floating point or complex, but got ", t.dtype());
    check(is_differentiable(tangent.dtype()), ErrorKind::Value, "make_dual",
          "the tangent must be floating point or complex, but got ", tangent.dtype());
    check(t.sizes() == tangent.sizes(), ErrorKind::Runtime, "make_dual", "the tensor has shape ",
          t.sizes(), ", its tangent has shape ", tangent.sizes(), "; they must be the same");
    return wrap(make_dual(t, tangent, int(level)));
  });
}

// _unpack_dual(tensor, level) -> (primal, tangent or None)
PyObject* unpack_dual_(PyObject*, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&] {
    const Arguments<2> a("unpack_dual", {"tensor", "level"}, args, n, kwnames);
    const int64_t level = int_argument("unpack_dual", "level", a.at[1]);
    check_level("unpack_dual", level);
    const Unpacked u = unpack_dual(tensor_argument("unpack_dual", "tensor", a.at[0]), int(level));
    const Handle primal = Handle::steal(wrap(u.primal)), tangent = Handle::steal(wrap(u.tangent));
    return PyTuple_Pack(2, primal.get(), tangent.get());
  });
}

PyObject* is_forward_enabled(PyObject*, PyObject*) { return PyBool_FromLong(forward_enabled()); }
PyObject* set_forward_enabled_(PyObject*, PyObject* on) {
  return guarded([&] {
    set_forward_enabled(PyObject_IsTrue(on) == 1);
    return Py_NewRef(Py_None);
  });
}

// --- vmap ----------------------------------------------------------------------------------------

// _vmap_enter(size, randomness, linear) -> level
PyObject* vmap_enter(PyObject*, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&] {
    const Arguments<3> a("vmap", {"size", "randomness", "linear"}, args, n, kwnames);
    return PyLong_FromLong(enter_vmap(int_argument("vmap", "size", a.at[0]),
                                      Randomness(int_argument("vmap", "randomness", a.at[1])),
                                      bool_argument("vmap", "linear", a.at[2], false)));
  });
}
PyObject* vmap_exit(PyObject*, PyObject*) {
  return guarded([&] {
    exit_vmap();
    return Py_NewRef(Py_None);
  });
}
PyObject* vmap_level_(PyObject*, PyObject*) { return PyLong_FromLong(vmap_level()); }

// _vmap_add(tensor, dim, level)
PyObject* vmap_add(PyObject*, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&] {
    const Arguments<3> a("vmap", {"tensor", "dim", "level"}, args, n, kwnames);
    Tensor t = tensor_argument("vmap", "tensor", a.at[0]);
    const int64_t dim = int_argument("vmap", "dim", a.at[1]);
    const auto level = int(int_argument("vmap", "level", a.at[2]));
    if (wrap_dim("vmap", dim, t.dim()) != 0) t = movedim(t, Dims{dim}, Dims{0});
    return wrap(add_batch(t, level));
  });
}

// _vmap_remove(tensor, dim, level): the physical tensor, with the samples in dimension dim.
PyObject* vmap_remove(PyObject*, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&] {
    const Arguments<3> a("vmap", {"tensor", "dim", "level"}, args, n, kwnames);
    const Tensor t = with_all_samples(tensor_argument("vmap", "tensor", a.at[0]),
                                      int(int_argument("vmap", "level", a.at[2])));
    const int64_t dim = wrap_dim("vmap", int_argument("vmap", "dim", a.at[1]), t.dim());
    return wrap(dim == 0 ? t : movedim(t, Dims{0}, Dims{dim}));
  });
}

// The level of a batched tensor, 0 for any other.
PyObject* batch_level(PyObject*, PyObject* o) {
  return PyLong_FromLong(is_tensor(o) ? unwrap(o).impl()->vmap_level : 0);
}
PyObject* batch_value(PyObject*, PyObject* o) {
  return guarded([&] {
    const Tensor& t = tensor_argument("vmap", "tensor", o);
    return wrap(t.is_batched() ? Tensor(t.impl()->physical) : t);
  });
}

// _vmap_sample_loops() -> {op: how often it ran sample by sample since the last call}
PyObject* vmap_sample_loops(PyObject*, PyObject*) {
  return guarded([&] {
    Handle out = Handle::steal(PyDict_New());
    for (const auto& [name, count] : take_sample_loops()) {
      const Handle value = Handle::steal(PyLong_FromLongLong(count));
      PyDict_SetItemString(out.get(), name.c_str(), value.get());
    }
    return out.release();
  });
}

// --- reverse mode --------------------------------------------------------------------------------

// t under its wrappers, changed by f.
template <class F>
Tensor under_batches(const Tensor& t, F&& f) {
  if (!t.is_batched()) return f(t);
  const int level = t.impl()->vmap_level;
  return add_batch(under_batches(without_batch(t, level), f), level);
}

// A tensor to differentiate by: the same values, a place of its own in the graph.
PyObject* grad_input(PyObject*, PyObject* o) {
  return guarded([&] {
    differentiate_samples();
    return wrap(under_batches(tensor_argument("grad", "input", o), [](const Tensor& x) {
      check(is_differentiable(x.dtype()), ErrorKind::Runtime, "grad",
            "only floating and complex tensors can be differentiated by, this one is ", x.dtype());
      Tensor out = requires_grad(x) ? plain_alias(x) : detached(x);
      carry_tangents(x, out);
      if (!requires_grad(out)) set_requires_grad(out, true);
      return out;
    }));
  });
}

// Cut off from the graph; unlike detach(), tangents stay.
PyObject* cut_graph(PyObject*, PyObject* o) {
  return guarded([&] {
    return wrap(under_batches(tensor_argument("grad", "tensor", o), [](const Tensor& x) {
      Tensor out = detached(x);
      carry_tangents(x, out);
      return out;
    }));
  });
}

std::vector<Tensor> tensors_of(PyObject* sequence) {
  const Handle items = Handle::steal(PySequence_Fast(sequence, "expected tensors"));
  std::vector<Tensor> out;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i)
    out.push_back(tensor_argument("grad", "tensors", PySequence_Fast_GET_ITEM(items.get(), i)));
  return out;
}

// _reaches_beyond(outputs, inputs): does the graph of the outputs hold leaves other than inputs?
PyObject* reaches_beyond(PyObject*, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&] {
    const Arguments<2> a("grad", {"outputs", "inputs"}, args, n, kwnames);
    std::unordered_set<const TensorImpl*> own;
    for (const Tensor& t : tensors_of(a.at[1])) own.insert(innermost(t).impl());
    std::vector<Node*> stack;
    std::unordered_set<Node*> seen;
    std::vector<Ref<Node>> roots;
    for (const Tensor& t : tensors_of(a.at[0])) {
      const Tensor x = innermost(t);
      if (!requires_grad(x)) continue;
      roots.push_back(gradient_edge(x).node);
      if (seen.insert(roots.back().get()).second) stack.push_back(roots.back().get());
    }
    while (!stack.empty()) {
      Node* node = stack.back();
      stack.pop_back();
      if (const auto* leaf = dynamic_cast<AccumulateGrad*>(node)) {
        if (!own.contains(leaf->leaf().impl())) return PyBool_FromLong(1);
        continue;
      }
      for (const Edge& e : node->edges()) {
        if (e && seen.insert(e.node.get()).second) stack.push_back(e.node.get());
      }
    }
    return PyBool_FromLong(0);
  });
}

PyMethodDef functions[] = {
    {"_enter_dual_level", enter_level, METH_NOARGS, nullptr},
    {"_exit_dual_level", exit_level, METH_NOARGS, nullptr},
    {"_dual_level", current_level, METH_NOARGS, nullptr},
    {"_make_dual", as_method(make_dual_), kFastcall, nullptr},
    {"_unpack_dual", as_method(unpack_dual_), kFastcall, nullptr},
    {"_is_fwd_grad_enabled", is_forward_enabled, METH_NOARGS, nullptr},
    {"_set_fwd_grad_enabled", set_forward_enabled_, METH_O, nullptr},
    {"_vmap_enter", as_method(vmap_enter), kFastcall, nullptr},
    {"_vmap_exit", vmap_exit, METH_NOARGS, nullptr},
    {"_vmap_level", vmap_level_, METH_NOARGS, nullptr},
    {"_vmap_add", as_method(vmap_add), kFastcall, nullptr},
    {"_vmap_remove", as_method(vmap_remove), kFastcall, nullptr},
    {"_vmap_sample_loops", vmap_sample_loops, METH_NOARGS, nullptr},
    {"_batch_level", batch_level, METH_O, nullptr},
    {"_batch_value", batch_value, METH_O, nullptr},
    {"_grad_input", grad_input, METH_O, nullptr},
    {"_cut_graph", cut_graph, METH_O, nullptr},
    {"_reaches_beyond", as_method(reaches_beyond), kFastcall, nullptr},
    {},
};

}  // namespace

void check_not_batched(const char* function, const Tensor& t) {
  check(!t.is_batched(), ErrorKind::Runtime, function,
        "inside vmap this tensor stands for many samples and has no values of its own; return it "
        "from the function and read the result");
}

bool init_transforms(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace rush::py
