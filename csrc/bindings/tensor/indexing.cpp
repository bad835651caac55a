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
#include "jit/tracer.h"
#include "ops/index/index_steps.h"
#include "ops/ops.h"

namespace rush::py {
namespace {

SliceRange range_of(PyObject* slice, int64_t size) {
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
  int64_t next_size() const {
    if (dim_ >= self_.dim()) [[unlikely]]
      too_many_indices(self_, dim_ + 1);
    return self_.sizes()[dim_];
  }
  void slice(const SliceRange& r) {
    const int64_t d = next();
    // An empty slice may start at the end; its offset must stay inside the storage.
    offset_ += (r.length ? r.start : 0) * self_.strides()[d];
    push(r.length, stepped(self_.strides()[d], r.step));
  }
  void new_axis() {
    const bool last = dim_ == self_.dim();
    push(1, last ? 1 : stepped(self_.strides()[dim_], self_.sizes()[dim_]));
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
      too_many_indices(self_, dim_ + 1);
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

bool is_basic(PyObject* o) {
  return PyLong_CheckExact(o) || PySlice_Check(o) || o == Py_None || o == Py_Ellipsis;
}

bool is_index_sequence(PyObject* o) {
  return PySequence_Check(o) && !PyUnicode_Check(o) && !PyBytes_Check(o) && !is_tensor(o) &&
         !PyDict_Check(o) && !is_numpy_array(o) && !is_numpy_scalar(o);
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

void truth(IndexSteps& steps, bool value) {
  steps.truth(value);
  jit::note_made(steps.indices().back());
}

void apply_other(IndexSteps& steps, PyObject* o) {
  if (PyBool_Check(o)) return truth(steps, o == Py_True);
  if (is_tensor(o)) return steps.tensor(unwrap(o));
  if (is_numpy_array(o)) return steps.tensor(tensor_from_array(o, false));
  int64_t number = 0;
  if (int_from_python(o, number)) return steps.select(number);
  if (is_index_sequence(o)) return steps.index(index_from_sequence(o));
  Scalar s;
  if (is_numpy_scalar(o) && scalar_from_python(o, s) && s.is_bool()) {
    return truth(steps, s.to<bool>());
  }
  fail(PyUnicode_Check(o) ? ErrorKind::Type : ErrorKind::Index, "",
       "only integers, slices (`:`), ellipsis (`...`), None and integer or "
       "bool tensors are valid indices, got ",
       type_name(o));
}

// x[:n] of all n there are is no slice; in a trace it is one, since n may follow a size.
bool is_slice_in_trace(PyObject* o) {
  const auto* s = reinterpret_cast<PySliceObject*>(o);
  return (s->start != Py_None || s->stop != Py_None) && jit::is_tracing();
}

template <class S>
void slice(S& steps, PyObject* o) {
  SliceRange range = range_of(o, steps.next_size());
  if constexpr (std::is_same_v<S, IndexSteps>) {
    if (is_slice_in_trace(o)) range.length = -1;  // that of no dimension
  }
  steps.slice(range);
}

// Applies the items of an index; S is Geometry or IndexSteps.
template <class S, class Other>
void apply(S& steps, PyObject* const* items, Py_ssize_t n, int64_t hidden, Other&& other) {
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* o = items[i];
    if (PyLong_CheckExact(o)) {
      int64_t index = 0;
      int_from_python(o, index);
      steps.select(index);
    } else if (PySlice_Check(o)) {
      slice(steps, o);
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
    if (used > self.dim()) too_many_indices(self, used);
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

IndexSteps all_steps(const Tensor& self, const Items& items) {
  IndexSteps steps(self);
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
  return indexed(all_steps(self, items));
}

void assign_number(const IndexSteps& steps, const Scalar& value) {
  const Tensor& target = steps.current();
  if (!steps.has_indices() || (value.is_complex() && !target.is_complex()))
    return assign(steps, value);
  const Tensor number = scalar_tensor(value, target.dtype());
  jit::note_made(number);
  assign(steps, number);
}

void set(const Tensor& self, PyObject* index, PyObject* value) {
  Scalar number;
  const bool is_number = !is_tensor(value) && scalar_from_python(value, number);
  check(is_number || is_tensor(value), ErrorKind::Type, "", "can't assign a ", type_name(value),
        " to a tensor; make it a tensor first, with tensor() or from_numpy()");
  const Items items(index);
  const IndexSteps steps = all_steps(self, items);
  is_number ? assign_number(steps, number) : assign(steps, unwrap(value));
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
