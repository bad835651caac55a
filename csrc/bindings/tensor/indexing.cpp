// indexing.cpp: x[index] and x[index] = value.
//
// - Ints, slices, None and `...` only move offset, sizes and strides: they are turned into one view
//   without looking at anything else. With a gradient to record, the same steps run as select,
//   slice and unsqueeze, whose backward is cheap.
// - Everything else first applies those steps and collects the index tensors, one entry a
//   dimension; then one call of index or index_put_ does the rest.
#include "bindings/call/torch_function.h"
#include "bindings/tensor/literal.h"

#include <algorithm>

#include "autograd/meta.h"
#include "jit/recorder.h"
#include "ops/index/index_plan.h"
#include "ops/ops.h"

namespace rush::py {
namespace {

[[noreturn, gnu::cold, gnu::noinline]] void out_of_bounds(int64_t index, int64_t dim,
                                                          int64_t size) {
  fail(ErrorKind::Index, "", "index ", index, " is out of bounds for dimension ", dim,
       " with size ", size);
}
[[noreturn, gnu::cold, gnu::noinline]] void too_many(const Tensor& t, int64_t used) {
  check(t.dim() > 0, ErrorKind::Index, "",
        "invalid index of a 0-dim tensor: use tensor.item() to "
        "convert a 0-dim tensor to a Python number");
  fail(ErrorKind::Index, "", "too many indices for tensor of dimension ", t.dim(), ": got ", used);
}

inline int64_t wrapped_index(int64_t index, int64_t dim, int64_t size) {
  if (index < -size || index >= size) [[unlikely]]
    out_of_bounds(index, dim, size);
  return index < 0 ? index + size : index;
}

struct Range {
  int64_t start, stop, step, length;
};

Range range_of(PyObject* slice, int64_t size) {
  Py_ssize_t start, stop, step;
  if (PySlice_Unpack(slice, &start, &stop, &step) < 0) [[unlikely]]
    throw PythonError{};
  check(step > 0, ErrorKind::Value, "", "slice step must be greater than zero, got ", step);
  const Py_ssize_t length = PySlice_AdjustIndices(size, &start, &stop, step);
  return {start, stop, step, length};
}

// The geometry of a view while the steps are applied to it.
class Geometry {
 public:
  explicit Geometry(const Tensor& t) : self_(t), offset_(t.offset()) {}

  void select(int64_t index) {
    const int64_t d = next();
    offset_ += wrapped_index(index, d, self_.sizes()[d]) * self_.strides()[d];
  }
  void slice(PyObject* o) {
    const int64_t d = next();
    const Range r = range_of(o, self_.sizes()[d]);
    // An empty slice may start at the end; its offset must stay inside the storage.
    offset_ += (r.length ? r.start : 0) * self_.strides()[d];
    push(r.length, self_.strides()[d] * r.step);
  }
  void new_axis() {
    const bool last = dim_ == self_.dim();
    push(1, last ? 1 : self_.sizes()[dim_] * self_.strides()[dim_]);
  }
  void keep(int64_t count) {
    for (; count > 0; --count, ++dim_) push(self_.sizes()[dim_], self_.strides()[dim_]);
  }
  Tensor finish() {
    keep(self_.dim() - dim_);
    return rush::as_strided(self_, sizes_, strides_, offset_);
  }

 private:
  int64_t next() {
    if (dim_ >= self_.dim()) [[unlikely]]
      too_many(self_, dim_ + 1);
    return dim_++;
  }
  void push(int64_t size, int64_t stride) {
    sizes_.push_back(size);
    strides_.push_back(stride);
  }

  const Tensor& self_;
  Dims sizes_, strides_;
  int64_t offset_;
  int64_t dim_ = 0;
};

// The same steps as ops, and the index tensors that remain to be applied.
class Steps {
 public:
  explicit Steps(const Tensor& t) : self_(t), current_(t) {}

  void select(int64_t index) {
    const int64_t size = next_size();
    current_ = rush::select(current_, dim_, wrapped_index(index, source_dim_++, size));
  }
  void slice(PyObject* o) {
    const int64_t size = next_size();
    const Range r = range_of(o, size);
    if (r.length != size) current_ = rush::slice(current_, dim_, r.start, r.stop, r.step);
    advance(1);
    ++source_dim_;
  }
  void new_axis() {
    current_ = rush::unsqueeze(current_, dim_);
    advance(1);
  }
  void keep(int64_t count) {
    advance(count);
    source_dim_ += count;
  }
  // True picks everything along a new axis, False nothing.
  void truth(bool value) {
    current_ = rush::unsqueeze(current_, dim_++);
    const Tensor index = make_tensor(Dims{value ? 1 : 0}, DType::Int64);
    if (value) index.data<int64_t>()[0] = 0;
    jit::note_made(index);
    indices_.push_back(index);
    has_indices_ = true;
  }
  void index(Tensor t) {
    const int64_t covered = t.dtype() == DType::Bool ? t.dim() : 1;
    if (source_dim_ + covered > self_.dim()) too_many(self_, source_dim_ + covered);
    if (t.dtype() == DType::Bool) check_mask(t);
    indices_.push_back(std::move(t));
    dim_ += covered;
    source_dim_ += covered;
    has_indices_ = true;
  }

  const Tensor& current() const { return current_; }
  bool has_indices() const { return has_indices_; }
  TensorList indices() const { return indices_; }

 private:
  int64_t next_size() const {
    if (source_dim_ >= self_.dim()) too_many(self_, source_dim_ + 1);
    return self_.sizes()[source_dim_];
  }
  void advance(int64_t count) {
    dim_ += count;
    indices_.resize(indices_.size() + size_t(count));
  }
  void check_mask(const Tensor& mask) const {
    const IntList own = IntList(self_.sizes()).subspan(size_t(source_dim_), size_t(mask.dim()));
    check_index(equal(mask.sizes(), own), "", "the shape of the mask ", mask.sizes(),
                " does not match the shape of the indexed tensor ", self_.sizes(), " at dimension ",
                source_dim_);
  }

  const Tensor& self_;
  Tensor current_;
  std::vector<Tensor> indices_;  // undefined: the whole dimension; a mask covers several
  int64_t dim_ = 0;              // in current_
  int64_t source_dim_ = 0;       // in self_
  bool has_indices_ = false;
};

// The two ops that take index tensors, through the table: interceptors see them as any other call.
const OpEntry& table_entry(const char* name) {
  const auto found = find_ops(name);
  check(!found.empty(), ErrorKind::NotImplemented, name, "this build has no such op");
  return found.front();
}

void call_entry(const OpEntry& entry, Value* args, Value* result) {
  if (t_modes & kSlowPath) return run_intercepted(entry, args, result);
  entry.boxed(args, result);
}

Tensor gather_by(const Tensor& self, TensorList indices) {
  if (has_gpu_mask(self, indices)) return index_by_masks(self, indices);
  static const OpEntry& entry = table_entry("index");
  Value args[2], result;
  args[0].borrow(self.impl());
  args[1].borrow(indices);
  call_entry(entry, args, &result);
  return result.tensor();
}

void put_by(const Tensor& self, TensorList indices, const Tensor& values) {
  if (values.dim() > 0 && has_gpu_mask(self, indices))
    return put_by(self, without_masks(indices), values);
  static const OpEntry& entry = table_entry("index_put_");
  Value args[4], result;
  args[0].borrow(self.impl());
  args[1].borrow(indices);
  args[2].borrow(values.impl());
  args[3].set(false);  // accumulate
  call_entry(entry, args, &result);
}

bool is_basic(PyObject* o) {
  return PyLong_CheckExact(o) || PySlice_Check(o) || o == Py_None || o == Py_Ellipsis;
}

bool is_index_sequence(PyObject* o) {
  return PySequence_Check(o) && !PyUnicode_Check(o) && !PyBytes_Check(o) && !is_tensor(o) &&
         !PyDict_Check(o) && !is_numpy_array(o) && !is_numpy_scalar(o);
}

Tensor as_type(const Tensor& t, DType dtype) {
  if (t.dtype() == dtype) return t;
  const NoGradGuard no_grad;
  const Tensor out = make_tensor(t.sizes(), dtype, t.device());
  rush::copy_(out, t);
  return out;
}

// Index tensors are int64 or bool from here on.
Tensor checked_index(const Tensor& t) {
  switch (t.dtype()) {
    case DType::Bool:
    case DType::Int64:
      return t;
    case DType::Int32:
      return as_type(t, DType::Int64);
    case DType::UInt8:
      check_status(PyErr_WarnEx(PyExc_UserWarning,
                                "indexing with dtype rushlight.uint8 is now deprecated, please use "
                                "a dtype rushlight.bool instead.",
                                1));
      return as_type(t, DType::Bool);
    default:
      fail(ErrorKind::Index, "",
           "tensors used as indices must be int64, int32, uint8 or bool, got ", t.dtype());
  }
}

Tensor index_from_sequence(PyObject* o) {
  const Literal literal = inspect_literal("index", o);
  const Tensor out =
      make_tensor(literal.sizes, literal.dtype == DType::Bool ? DType::Bool : DType::Int64);
  fill_literal("index", o, out);
  jit::note_made(out);
  return out;
}

// How many dimensions of the tensor one item of the index uses up.
int64_t dims_used(PyObject* o) {
  if (PyLong_CheckExact(o) || PySlice_Check(o)) return 1;
  if (o == Py_None || o == Py_Ellipsis || PyBool_Check(o)) return 0;
  if (is_tensor(o)) {
    const DType t = unwrap(o).dtype();
    return t == DType::Bool || t == DType::UInt8 ? unwrap(o).dim() : 1;
  }
  if (is_numpy_array(o)) {
    const Tensor t = tensor_from_array(o, false);
    return t.dtype() == DType::Bool ? t.dim() : 1;
  }
  if (!is_index_sequence(o)) return 1;
  const Literal literal = inspect_literal("index", o);
  return literal.dtype == DType::Bool ? int64_t(literal.sizes.size()) : 1;
}

void apply_tensor(Steps& steps, const Tensor& t) {
  const bool is_mask = t.dtype() == DType::Bool || t.dtype() == DType::UInt8;
  if (t.dim() > 0 || !(is_mask || is_integral(t.dtype()))) return steps.index(checked_index(t));
  if (is_mask) return steps.truth(t.item().to<bool>());
  if (t.is_batched()) return steps.index(t);  // inside vmap: a number for each sample
  steps.select(t.item().to_int());
}

void apply_other(Steps& steps, PyObject* o) {
  if (PyBool_Check(o)) return steps.truth(o == Py_True);
  if (is_tensor(o)) return apply_tensor(steps, unwrap(o));
  if (is_numpy_array(o)) return apply_tensor(steps, tensor_from_array(o, false));
  int64_t number = 0;
  if (int_from_python(o, number)) return steps.select(number);
  if (is_index_sequence(o)) return steps.index(index_from_sequence(o));
  Scalar s;
  if (is_numpy_scalar(o) && scalar_from_python(o, s) && s.is_bool()) {
    return steps.truth(s.to<bool>());
  }
  fail(PyUnicode_Check(o) ? ErrorKind::Type : ErrorKind::Index, "",
       "only integers, slices (`:`), ellipsis (`...`), None and integer or "
       "bool tensors are valid indices, got ",
       type_name(o));
}

// Applies the items of an index; S is Geometry or Steps.
template <class S, class Other>
void apply(S& steps, PyObject* const* items, Py_ssize_t n, int64_t hidden, Other&& other) {
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* o = items[i];
    if (PyLong_CheckExact(o)) {
      int64_t index = 0;
      int_from_python(o, index);
      steps.select(index);
    } else if (PySlice_Check(o)) {
      steps.slice(o);
    } else if (o == Py_None) {
      steps.new_axis();
    } else if (o == Py_Ellipsis) {
      steps.keep(std::exchange(hidden, 0));  // a second `...` stands for nothing
    } else {
      other(o);
    }
  }
}

// An old habit: a list with slices or nested lists in it means a tuple.
bool means_tuple(PyObject* o) {
  if (!PyList_Check(o) || PyList_GET_SIZE(o) >= 32) return false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(o); ++i) {
    PyObject* item = PyList_GET_ITEM(o, i);
    if (is_tensor(item) || PySlice_Check(item) || item == Py_None || item == Py_Ellipsis ||
        is_index_sequence(item) || is_numpy_array(item)) {
      return true;
    }
  }
  return false;
}

// The items of an index, whether it is a tuple or a single thing.
struct Items {
  explicit Items(PyObject* index) : data(&single), size(1), single(index) {
    if (!PyTuple_Check(index)) {
      if (!means_tuple(index)) return;
      check_status(PyErr_WarnEx(
          PyExc_UserWarning,
          "Using a non-tuple sequence for multidimensional indexing is deprecated; use "
          "x[tuple(seq)] instead of x[seq], or x[tensor(seq)] for an index tensor.",
          1));
    }
    data = PySequence_Fast_ITEMS(index);
    size = PySequence_Fast_GET_SIZE(index);
  }
  Items(const Items&) = delete;
  bool all_basic() const { return std::all_of(data, data + size, is_basic); }
  // Dimensions that `...` stands for.
  int64_t hidden(const Tensor& self) const {
    int64_t used = 0;
    bool ellipsis = false;
    for (Py_ssize_t i = 0; i < size; ++i) {
      used += dims_used(data[i]);
      ellipsis = ellipsis || data[i] == Py_Ellipsis;
    }
    if (used > self.dim()) too_many(self, used);
    return ellipsis ? self.dim() - used : 0;
  }

  PyObject* const* data;
  Py_ssize_t size;
  PyObject* single;
};

// The way of nearly all programs: a view made at once.
Tensor basic_view(const Tensor& self, const Items& items) {
  Geometry geometry(self);
  apply(geometry, items.data, items.size, items.hidden(self), [](PyObject*) {});
  return geometry.finish();
}

Steps all_steps(const Tensor& self, const Items& items) {
  Steps steps(self);
  apply(steps, items.data, items.size, items.hidden(self),
        [&](PyObject* o) { apply_other(steps, o); });
  return steps;
}

bool one_view_will_do(const Tensor& self) {
  return !(t_modes & (kSlowPath | kForward)) && (!is_tracked(self) || !requires_grad(self));
}

Tensor get(const Tensor& self, PyObject* index) {
  const Items items(index);
  if (items.all_basic() && one_view_will_do(self)) return basic_view(self, items);
  const Steps steps = all_steps(self, items);
  if (steps.has_indices()) return gather_by(steps.current(), steps.indices());
  // x[...] and x[()] are new tensors, as every other index is.
  return steps.current().is_same(self) ? rush::alias(self) : steps.current();
}

// Leading dimensions of size 1 mean nothing to broadcasting, and may be more than the target has.
Tensor without_leading_ones(const Tensor& value) {
  Tensor out = value;
  while (out.dim() > 0 && out.sizes()[0] == 1) out = rush::select(out, 0, 0);
  return out;
}

void assign_tensor(const Steps& steps, const Tensor& given_value) {
  const Tensor& target = steps.current();
  const Tensor value = without_leading_ones(given_value);
  if (!steps.has_indices()) {
    rush::copy_(target, value);
    return;
  }
  const bool same = value.dtype() == target.dtype();
  put_by(target, steps.indices(), same ? value : rush::cast(value, target.dtype()));
}

void assign_number(const Steps& steps, const Scalar& value) {
  const Tensor& target = steps.current();
  check_dtype(!value.is_complex() || target.is_complex(), "",
              "a complex number cannot be assigned "
              "to a tensor of dtype ",
              target.dtype());
  if (!steps.has_indices()) {
    rush::fill_(target, wrap_number(value));
  } else {
    const Tensor number = scalar_tensor(value, target.dtype());
    jit::note_made(number);
    put_by(target, steps.indices(), number);
  }
}

void set(const Tensor& self, PyObject* index, PyObject* value) {
  Scalar number;
  const bool is_number = !is_tensor(value) && scalar_from_python(value, number);
  check(is_number || is_tensor(value), ErrorKind::Type, "", "can't assign a ", type_name(value),
        " to a tensor; make it a tensor first, with tensor() or from_numpy()");
  const Items items(index);
  const Steps steps = all_steps(self, items);
  is_number ? assign_number(steps, number) : assign_tensor(steps, unwrap(value));
}

}  // namespace

PyObject* tensor_getitem(PyObject* self, PyObject* index) noexcept {
  return guarded([&] {
    if (g_overrides_exist) [[unlikely]] {
      if (PyObject* result = operator_override("__getitem__", self, index)) return result;
    }
    return wrap(get(unwrap(self), index));
  });
}

int tensor_setitem(PyObject* self, PyObject* index, PyObject* value) noexcept {
  return guarded_int([&] {
    check(value, ErrorKind::Type, "", "elements of a tensor cannot be deleted");
    if (g_overrides_exist) [[unlikely]] {
      if (PyObject* result = operator_override("__setitem__", self, index, value)) {
        Py_DECREF(result);
        return 0;
      }
    }
    set(unwrap(self), index, value);
    return 0;
  });
}

}  // namespace rush::py
