#include "bindings/autograd/function_node.h"

#include <algorithm>
#include <mutex>

#include "autograd/engine.h"

namespace rush::py {

FunctionNode::FunctionNode(PyObject* ctx, std::vector<bool> is_tensor)
    : ctx_(ctx), is_tensor_(std::move(is_tensor)), name_(Py_TYPE(ctx)->tp_name) {
  set_trait(kRunsUserCode);
  set_trait(kTakesUndefined);
  if (const size_t dot = name_.rfind('.'); dot != std::string::npos) name_.erase(0, dot + 1);
}

FunctionNode::~FunctionNode() {
  if (!owns_ctx_) return;
  as_function(ctx_)->owner = nullptr;
  drop_reference(ctx_);
}

PyObject* FunctionNode::object() {
  if (!owns_ctx_) return Py_NewRef(ctx_);
  owns_ctx_ = false;
  FunctionObject* f = as_function(ctx_);
  f->owner = nullptr;
  f->base.node = Ref<Node>::share(this);
  return ctx_;
}

void FunctionNode::adopt_object() {
  owns_ctx_ = true;
  FunctionObject* f = as_function(ctx_);
  f->owner = this;
  f->base.node.detach()->release();  // perhaps the last one: then the destructor frees the ctx
}

int FunctionNode::traverse_owned(visitproc visit, void* arg) {
  if (owns_ctx_) Py_VISIT(ctx_);
  return 0;
}

void FunctionNode::add_other_result() {
  other_results_.push_back(add_result(make_tensor(Dims{0}, DType::Bool)));
}

void FunctionNode::save(const Tensor& t) { saved_.emplace_back(t); }
void FunctionNode::save_output(const Tensor& t, uint32_t slot) {
  saved_.push_back(SavedTensor::output(t, slot));
}

void FunctionNode::release_saved() {
  std::vector<SavedTensor> die_unlocked;
  std::lock_guard guard(lock_);
  released_ = true;
  die_unlocked.swap(saved_);
}

Handle FunctionNode::saved_tensors() const {
  std::vector<SavedTensor> saved;
  bool released;
  {
    std::lock_guard guard(lock_);
    saved = saved_;
    released = released_;
  }
  check(!released, ErrorKind::Runtime, name_, "the tensors saved", at_source(source()),
        " are gone: an earlier backward", at_source(released_at()),
        " freed them. Pass retain_graph=True to the earlier call");
  Handle tuple = Handle::steal(PyTuple_New(Py_ssize_t(saved.size())));
  for (size_t i = 0; i < saved.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), Py_ssize_t(i),
                     Handle::steal(wrap(saved[i].unpack(this, true))).release());
  }
  return tuple;
}

size_t FunctionNode::saved_count() const {
  std::lock_guard guard(lock_);
  return saved_.size();
}

SavedTensor FunctionNode::saved(size_t i) const {
  SavedTensor found;
  std::lock_guard guard(lock_);
  if (i < saved_.size()) return saved_[i];
  found.reset();
  return found;
}

void FunctionNode::set_saved(size_t i, SavedTensor saved) {
  std::lock_guard guard(lock_);
  if (i < saved_.size()) std::swap(saved_[i], saved);  // the old one dies unlocked
}

Grads FunctionNode::apply(GradSpan grads, std::span<const bool>) {
  return call_python([&] {
    const Handle result = call_backward(grads);
    return gradients_from(result.get());
  });
}

Handle FunctionNode::call_backward(GradSpan grads) {
  const Handle ctx = Handle::steal(object());
  Handle args = Handle::steal(PyTuple_New(Py_ssize_t(results().size())));
  for (size_t i = 0; i < results().size(); ++i) {
    Tensor g = i < grads.size() ? grads[i] : Tensor();
    const ResultMeta& meta = results()[i];
    const bool other = std::count(other_results_.begin(), other_results_.end(), uint32_t(i)) > 0;
    if (!g.defined() && as_function(ctx.get())->materialize_grads && !other)
      g = engine_ops().zeros(meta.sizes, meta.dtype, meta.device);
    PyTuple_SET_ITEM(args.get(), Py_ssize_t(i), Handle::steal(wrap(std::move(g))).release());
  }
  const Handle backward = Handle::steal(PyObject_GetAttrString(ctx.get(), "apply"));
  return Handle::steal(PyObject_Call(backward.get(), args.get(), nullptr));
}

Grads FunctionNode::gradients_from(PyObject* result) {
  const Handle tuple =
      PyTuple_Check(result) ? Handle::borrow(result) : Handle::steal(PyTuple_Pack(1, result));
  Py_ssize_t n = PyTuple_GET_SIZE(tuple.get());
  const auto expected = Py_ssize_t(is_tensor_.size());
  while (n > expected && PyTuple_GET_ITEM(tuple.get(), n - 1) == Py_None) --n;
  check(n == expected, ErrorKind::Runtime, name_,
        "backward must return one gradient for each of the ", expected,
        " arguments of forward (None where there is none), it returned ", n);
  Grads grads;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple.get(), i);
    if (!is_tensor_[size_t(i)]) {
      check(item == Py_None, ErrorKind::Runtime, name_, "backward returned a gradient at position ",
            i, ", but that argument of forward was no tensor; return None there");
      continue;
    }
    check(item == Py_None || is_tensor(item), ErrorKind::ArgumentType, name_,
          "backward must return tensors and None, at position ", i, " it returned ",
          type_name(item));
    const Edge& edge = edges()[grads.size()];
    if (item != Py_None && edge) check_gradient(unwrap(item), size_t(i), edge);
    grads.push_back(item == Py_None ? Tensor() : unwrap(item));
  }
  return grads;
}

// The engine sums broadcast dimensions and casts; what is left over is the user's mistake.
void FunctionNode::check_gradient(const Tensor& g, size_t argument, const Edge& edge) const {
  const ResultMeta& want = edge.node->results()[edge.slot];
  const int64_t lead = g.dim() - int64_t(want.sizes.size());
  bool fits = lead >= 0;
  for (size_t d = 0; fits && d < want.sizes.size(); ++d) {
    fits = want.sizes[d] == 1 || want.sizes[d] == g.sizes()[size_t(lead) + d];
  }
  check_shape(fits, name_, "backward returned a gradient of shape ", g.sizes(), " for argument ",
              argument, ", which has shape ", want.sizes);
  check_dtype(!g.is_complex() || is_complex(want.dtype), name_,
              "backward returned a complex gradient for argument ", argument, ", which is ",
              want.dtype);
  check(g.device() == want.device, ErrorKind::Device, name_, "backward returned a gradient on ",
        g.device(), " for argument ", argument, ", which is on ", want.device);
}

}  // namespace rush::py
