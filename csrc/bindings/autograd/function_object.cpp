// function_object.cpp: rushlight._C._FunctionBase, the base of every Function's ctx, and apply().
#include <algorithm>
#include <cstddef>

#include "autograd/engine.h"
#include "bindings/autograd/function_node.h"
#include "bindings/autograd/saved_values.h"
#include "core/memoryless.h"
#include "jit/tracer.h"
#include "ops/ops.h"

namespace rush::py {
namespace {

PyTypeObject* FunctionType = nullptr;

// Birth and death -------------------------------------------------------------------------------

PyObject* function_new(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* self = type->tp_alloc(type, 0);
  if (!self) return nullptr;
  new (&as_node_object(self)->node) Ref<Node>();
  as_function(self)->materialize_grads = true;
  return self;
}

int function_traverse(PyObject* o, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(o));
  FunctionObject* self = as_function(o);
  Py_VISIT(self->dict);
  Py_VISIT(self->to_save);
  Py_VISIT(self->saved_for_forward);
  Py_VISIT(self->dirty_tensors);
  Py_VISIT(self->non_differentiable);
  if (g_threads_without_gil > 0) return 0;  // Note [Collections beside running threads]
  const Ref<Node>& node = self->base.node;
  return node && node->use_count() == 1 ? traverse_node(*node, visit, arg) : 0;
}

int function_clear(PyObject* o) {
  FunctionObject* self = as_function(o);
  Py_CLEAR(self->dict);
  Py_CLEAR(self->to_save);
  Py_CLEAR(self->saved_for_forward);
  Py_CLEAR(self->needs_input_grad);
  Py_CLEAR(self->dirty_tensors);
  Py_CLEAR(self->non_differentiable);
  return 0;
}

// In place of CPython's subtype_dealloc, which can be cancelled only once in an object's life. See
// Note [A ctx and its node].
void function_dealloc(PyObject* o) {
  FunctionObject* self = as_function(o);
  const Ref<Node>& node = self->base.node;
  if (node && node->use_count() > 1) {
    Py_SET_REFCNT(o, 1);
    static_cast<FunctionNode*>(node.get())->adopt_object();
    return;
  }
  PyTypeObject* type = Py_TYPE(o);
  PyObject_GC_UnTrack(o);
  if (self->base.weakrefs) PyObject_ClearWeakRefs(o);
  function_clear(o);
  const Ref<Node> dies_last = std::move(self->base.node);
  self->base.node.~Ref<Node>();
  type->tp_free(o);
  Py_DECREF(type);
}

PyObject* function_init_subclass(PyObject* cls, PyObject*, PyObject*) {
  reinterpret_cast<PyTypeObject*>(cls)->tp_dealloc = function_dealloc;
  Py_RETURN_NONE;
}

// Forward ----------------------------------------------------------------------------------------

// Gradients of a sparse tensor are those of its values, which a Function does not see.
void check_sparse(PyObject* o) {
  const Handle wanted = Handle::steal(PyObject_GetAttrString(o, "requires_grad"));
  check(wanted.get() != Py_True || !grad_enabled(), ErrorKind::NotImplemented, "apply",
        "a custom Function cannot differentiate a sparse tensor; give it indices and values");
}

// One call of apply(): everything between the user's arguments and results.
class Call {
 public:
  Call(PyObject* cls, PyObject* args) : cls_(cls), args_(args) {
    const Py_ssize_t n = PyTuple_GET_SIZE(args);
    Handle needs = Handle::steal(PyTuple_New(n));
    bool batched = false;
    for (Py_ssize_t i = 0; i < n; ++i) {
      PyObject* item = PyTuple_GET_ITEM(args, i);
      is_tensor_.push_back(is_tensor(item));
      if (is_tensor_.back() && is_memoryless(unwrap(item))) check_sparse(item);
      const bool need = is_tensor_.back() && requires_grad(unwrap(item));
      records_ |= need;
      has_tangent_ |= is_tensor_.back() && forward_active() && has_tangent(unwrap(item));
      batched |= is_tensor_.back() && unwrap(item).is_batched();
      PyTuple_SET_ITEM(needs.get(), i, Py_NewRef(need ? Py_True : Py_False));
    }
    records_ = records_ && grad_enabled();
    check(!(records_ && batched), ErrorKind::NotImplemented, "apply",
          "a custom Function cannot be differentiated inside vmap; write it with ordinary "
          "operations there");
    const Handle type = Handle::steal(PyObject_GetAttrString(cls, "_backward_cls"));
    check(PyType_Check(type.get()) &&
              PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type.get()), FunctionType),
          ErrorKind::Type, "apply", "expected a subclass of autograd.Function, not ",
          type_name(cls));
    ctx_ = Handle::steal(PyObject_CallNoArgs(type.get()));
    function()->needs_input_grad = needs.release();
    if (records_) add_node();
  }

  PyObject* run() {
    jit::check_not_tracing(name(), "the backward of a Function is Python code");
    Handle result = forward();
    const bool single = !PyTuple_Check(result.get());
    Handle outputs = single ? Handle::steal(PyTuple_Pack(1, result.get()))
                            : Handle::steal(PyTuple_GetSlice(result.get(), 0, PY_SSIZE_T_MAX));
    collect_marks();
    // A tuple of its own: slices of a whole tuple are the tuple itself.
    Handle wrapped = Handle::steal(PyTuple_New(PyTuple_GET_SIZE(outputs.get())));
    check_dirty(outputs.get());
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(outputs.get()); ++i) {
      PyTuple_SET_ITEM(wrapped.get(), i, finish_output(PyTuple_GET_ITEM(outputs.get(), i)));
    }
    for (int level = 1, last = visible_forward_level(); has_tangent_ && level <= last; ++level) {
      const LevelsBelow below(level);
      push_tangents(wrapped.get(), level);
    }
    if (records_) save_tensors();
    Py_CLEAR(function()->to_save);
    Py_CLEAR(function()->dirty_tensors);
    Py_CLEAR(function()->non_differentiable);
    return single ? Py_NewRef(PyTuple_GET_ITEM(wrapped.get(), 0)) : wrapped.release();
  }

 private:
  FunctionObject* function() { return as_function(ctx_.get()); }

  void add_node() {
    node_ = Ref<FunctionNode>::adopt(new FunctionNode(ctx_.get(), is_tensor_));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args_); ++i) {
      if (is_tensor_[size_t(i)]) node_->add_edge(gradient_edge(unwrap(PyTuple_GET_ITEM(args_, i))));
    }
    function()->base.node = Ref<Node>::share(node_.get());
  }

  // forward(ctx, *args), or forward(*args) and then setup_context(ctx, args, output).
  Handle forward() {
    const ModeGuard no_grad(kNoGrad, true);
    const LevelsBelow no_tangents(1);  // jvp() computes them
    const Handle forward = Handle::steal(PyObject_GetAttrString(cls_, "forward"));
    const Handle apart = Handle::steal(PyObject_GetAttrString(cls_, "_uses_setup_context"));
    if (apart.get() == Py_True) {
      Handle result = Handle::steal(PyObject_Call(forward.get(), args_, nullptr));
      Handle::steal(
          PyObject_CallMethod(cls_, "setup_context", "OOO", ctx_.get(), args_, result.get()));
      return result;
    }
    const Py_ssize_t n = PyTuple_GET_SIZE(args_);
    const Handle with_ctx = Handle::steal(PyTuple_New(n + 1));
    PyTuple_SET_ITEM(with_ctx.get(), 0, Py_NewRef(ctx_.get()));
    for (Py_ssize_t i = 0; i < n; ++i) {
      PyTuple_SET_ITEM(with_ctx.get(), i + 1, Py_NewRef(PyTuple_GET_ITEM(args_, i)));
    }
    return Handle::steal(PyObject_Call(forward.get(), with_ctx.get(), nullptr));
  }

  std::vector<const TensorImpl*> tensors_in(PyObject* marks, const char* function) {
    std::vector<const TensorImpl*> list;
    if (!given(marks)) return list;
    check(PyTuple_Check(marks), ErrorKind::Type, function, "expected a tuple of tensors, not ",
          type_name(marks));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(marks); ++i) {
      PyObject* item = PyTuple_GET_ITEM(marks, i);
      check(is_tensor(item), ErrorKind::Type, function, "accepts only tensors, argument ", i,
            " is ", type_name(item));
      list.push_back(unwrap(item).impl());
    }
    return list;
  }
  void collect_marks() {
    dirty_ = tensors_in(function()->dirty_tensors, "mark_dirty");
    fixed_ = tensors_in(function()->non_differentiable, "mark_non_differentiable");
    for (Py_ssize_t i = 0; i < Py_ssize_t(dirty_.size()); ++i)
      unwrap(PyTuple_GET_ITEM(function()->dirty_tensors, i)).bump_version("mark_dirty");
  }
  const char* name() { return node_ ? node_->name() : Py_TYPE(ctx_.get())->tp_name; }

  static bool contains(const std::vector<const TensorImpl*>& list, const Tensor& t) {
    return std::find(list.begin(), list.end(), t.impl()) != list.end();
  }
  bool is_input(const Tensor& t) const {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args_); ++i) {
      if (is_tensor_[size_t(i)] && unwrap(PyTuple_GET_ITEM(args_, i)).is_same(t)) return true;
    }
    return false;
  }

  void check_dirty(PyObject* outputs) {
    size_t tensors = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(outputs); ++i)
      tensors += is_tensor(PyTuple_GET_ITEM(outputs, i));
    for (Py_ssize_t d = 0; d < Py_ssize_t(dirty_.size()); ++d) {
      const Tensor& t = unwrap(PyTuple_GET_ITEM(function()->dirty_tensors, d));
      bool returned = false;
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(outputs); ++i) {
        PyObject* item = PyTuple_GET_ITEM(outputs, i);
        returned |= is_tensor(item) && unwrap(item).is_same(t);
      }
      check(returned, ErrorKind::Runtime, name(),
            "a tensor given to mark_dirty() was not returned from forward; what is modified in "
            "place must be among the outputs");
      check(!records_ || !(requires_grad(t) && is_leaf(t)), ErrorKind::Runtime, name(),
            "a leaf tensor that requires grad was modified in place");
      check(
          !records_ || !t.impl()->base || tensors == 1, ErrorKind::Runtime, name(),
          "an argument that is a view was modified in place, so the Function may return only this "
          "one tensor; clone() the view first, or split the Function into two");
    }
  }

  // One result, connected to the node; a new reference.
  PyObject* finish_output(PyObject* item) {
    if (!is_tensor(item)) {
      if (node_) node_->add_other_result();
      return Py_NewRef(item);
    }
    const Tensor& t = unwrap(item);
    const bool modified = contains(dirty_, t);
    const bool differentiable = is_differentiable(t.dtype()) && !contains(fixed_, t);
    if (!differentiable) return finish_fixed(item, t);
    if (modified) {
      if (node_) rebase(t);
      return Py_NewRef(item);
    }
    Tensor out = t;
    if (is_input(t)) {  // a view of its own, so that it can have another history
      const NoGradGuard no_grad;
      out = alias(t);
    }
    if (node_) set_history(out, Ref<Node>::share(node_.get()), node_->add_result(out));
    Handle result = Handle::steal(wrap(std::move(out)));
    if (node_) track_tensor(result.get());
    return result.release();
  }

  PyObject* finish_fixed(PyObject* item, const Tensor& t) {
    if (node_) node_->add_result(t);
    if (!requires_grad(t)) return Py_NewRef(item);
    if (is_input(t) || t.impl()->base) return wrap(detached(t));
    GradMeta& meta = grad_meta(t);
    meta.grad_fn = nullptr;
    meta.requires_grad = false;
    return Py_NewRef(item);
  }

  void rebase(const Tensor& t) {
    const Ref<Node> node = Ref<Node>::share(node_.get());
    if (t.impl()->base) {
      rebase_history(t, node);
    } else {
      set_history(t, node, node->add_result(t));
    }
  }

  void save_tensors() {
    PyObject* list = function()->to_save;
    if (!given(list)) return;
    check(PyTuple_Check(list), ErrorKind::Type, "save_for_backward",
          "expected a tuple of tensors, not ", type_name(list));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(list); ++i) {
      PyObject* item = PyTuple_GET_ITEM(list, i);
      check(item == Py_None || is_tensor(item), ErrorKind::Type, name(),
            "save_for_backward saves only tensors, argument ", i, " is ", type_name(item),
            "; keep other objects as attributes of ctx");
      if (item == Py_None) {
        node_->save(Tensor());
        continue;
      }
      const Tensor& t = unwrap(item);
      const GradMeta* meta = grad_meta_or_null(t);
      if (meta && meta->grad_fn.get() == node_.get())
        node_->save_output(t, meta->slot);
      else
        node_->save(t);
    }
  }

  // Forward mode: the tangents of the results, by the user's jvp().
  void push_tangents(PyObject* outputs, int level) {
    const Py_ssize_t n = PyTuple_GET_SIZE(args_);
    const Handle args = Handle::steal(PyTuple_New(n + 1));
    PyTuple_SET_ITEM(args.get(), 0, Py_NewRef(ctx_.get()));
    for (Py_ssize_t i = 0; i < n; ++i) {
      Tensor g;
      if (is_tensor_[size_t(i)]) {
        const Tensor& t = unwrap(PyTuple_GET_ITEM(args_, i));
        g = tangent_at(t, level);
        if (!g.defined() && function()->materialize_grads && is_differentiable(t.dtype()))
          g = engine_ops().zeros(t.sizes(), t.dtype(), t.device());
      }
      PyTuple_SET_ITEM(args.get(), i + 1, Handle::steal(wrap(std::move(g))).release());
    }
    const Handle jvp = Handle::steal(PyObject_GetAttrString(cls_, "jvp"));
    const Handle result = Handle::steal(PyObject_Call(jvp.get(), args.get(), nullptr));
    const Handle tangents = PyTuple_Check(result.get())
                                ? Handle::borrow(result.get())
                                : Handle::steal(PyTuple_Pack(1, result.get()));
    const Py_ssize_t outs = PyTuple_GET_SIZE(outputs);
    check(PyTuple_GET_SIZE(tangents.get()) == outs, ErrorKind::Runtime, name(),
          "jvp must return one tangent for each of the ", outs, " outputs, it returned ",
          PyTuple_GET_SIZE(tangents.get()));
    for (Py_ssize_t i = 0; i < outs; ++i) {
      set_tangent(PyTuple_GET_ITEM(outputs, i), PyTuple_GET_ITEM(tangents.get(), i), i, level);
    }
  }
  void set_tangent(PyObject* output, PyObject* item, Py_ssize_t i, int level) {
    if (!is_tensor(output)) {
      check(item == Py_None, ErrorKind::Runtime, name(), "jvp returned a tangent at position ", i,
            ", but that output is no tensor; return None there");
      return;
    }
    check(item == Py_None || is_tensor(item), ErrorKind::ArgumentType, name(),
          "jvp must return tensors and None, at position ", i, " it returned ", type_name(item));
    const Tensor& t = unwrap(output);
    if (item != Py_None) {
      check_shape(unwrap(item).sizes() == t.sizes(), name(), "jvp returned a tangent of shape ",
                  unwrap(item).sizes(), " for output ", i, ", which has shape ", t.sizes());
    }
    if (item == Py_None && !grad_meta_or_null(t)) return;
    rush::set_tangent(t, level, item == Py_None ? Tensor() : unwrap(item));
  }

  PyObject* cls_;
  PyObject* args_;
  Handle ctx_;
  Ref<FunctionNode> node_;
  std::vector<bool> is_tensor_;
  std::vector<const TensorImpl*> dirty_, fixed_;
  bool records_ = false;      // a node is made
  bool has_tangent_ = false;  // jvp() is called
};

PyObject* function_apply(PyObject* cls, PyObject* args) {
  return guarded([&] { return Call(cls, args).run(); });
}

// Attributes -------------------------------------------------------------------------------------

PyObject* get_saved_tensors(PyObject* o, void*) {
  return guarded([&] {
    FunctionObject* self = as_function(o);
    if (given(self->saved_for_forward)) return Py_NewRef(self->saved_for_forward);
    FunctionNode* node = function_node(o);
    return node ? node->saved_tensors().release() : PyTuple_New(0);
  });
}

PyObject* get_raw_saved_tensors(PyObject* o, void*) {
  return guarded([&] {
    const Ref<Node>& node = as_node_object(o)->node;
    if (!node) return PyTuple_New(0);
    return raw_saved_tensors(node, static_cast<FunctionNode*>(node.get())->saved_count());
  });
}

PyMethodDef type_methods[] = {
    {"__init_subclass__", as_method(function_init_subclass),
     METH_CLASS | METH_VARARGS | METH_KEYWORDS, nullptr},
    {},
};
PyGetSetDef type_getset[] = {
    {"saved_tensors", get_saved_tensors, nullptr, "What save_for_backward() was given.", nullptr},
    {"_raw_saved_tensors", get_raw_saved_tensors, nullptr,
     "The same as SavedTensor objects, which take hooks.", nullptr},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {},
};
#define RUSH_MEMBER(name, type) {#name, type, offsetof(FunctionObject, name), 0, nullptr}
PyMemberDef type_members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(FunctionObject, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(NodeObject, weakrefs), READONLY, nullptr},
    RUSH_MEMBER(to_save, T_OBJECT),
    RUSH_MEMBER(saved_for_forward, T_OBJECT),
    RUSH_MEMBER(needs_input_grad, T_OBJECT),
    RUSH_MEMBER(dirty_tensors, T_OBJECT),
    RUSH_MEMBER(non_differentiable, T_OBJECT),
    RUSH_MEMBER(materialize_grads, T_BOOL),
    {},
};
#undef RUSH_MEMBER
PyType_Slot type_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(function_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(function_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(function_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(function_clear)},
    {Py_tp_methods, type_methods},
    {Py_tp_getset, type_getset},
    {Py_tp_members, type_members},
    {},
};
PyType_Spec type_spec = {"rushlight._C._FunctionBase", sizeof(FunctionObject), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, type_slots};

PyMethodDef functions[] = {
    {"_apply_function", as_method(+[](PyObject*, PyObject* const* args, Py_ssize_t n) -> PyObject* {
       if (n != 2 || !PyTuple_Check(args[1])) {
         PyErr_SetString(PyExc_TypeError, "_apply_function: expected a class and a tuple");
         return nullptr;
       }
       return function_apply(args[0], args[1]);
     }),
     METH_FASTCALL, nullptr},
    {},
};

}  // namespace

bool init_functions(PyObject* module) {
  const Handle bases = Handle::maybe(PyTuple_Pack(1, NodeType));
  if (!bases) return false;
  FunctionType = add_type(module, &type_spec, bases.get());
  return FunctionType && PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace rush::py
