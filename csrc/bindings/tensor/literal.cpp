// literal.cpp: reads nested Python data straight into a tensor's memory.
//
// Two walks: `inspect_literal` finds shape and dtype and checks every item, `fill_literal` writes.
// The innermost lists are the hot part; both walks look at exact floats and ints first.
#include <algorithm>

#include "bindings/tensor/literal.h"

#include <cmath>
#include <limits>

#include "core/interrupt.h"
#include "ops/ops.h"

namespace rush::py {
namespace {

constexpr int64_t kPerLook = 1 << 16;  // items between looks for an interrupt, a power of two

// Where in the nested data the walk is, for messages.
struct Place {
  Py_ssize_t index[kMaxDims];
  int depth = 0;

  bool is_first() const {
    return depth > 0 && std::all_of(index, index + depth, [](Py_ssize_t i) { return i == 0; });
  }
};
std::ostream& operator<<(std::ostream& os, const Place& p) {
  if (p.depth == 0) return os << "the data";
  os << "item ";
  for (int i = 0; i < p.depth; ++i) os << '[' << p.index[i] << ']';
  return os;
}

bool is_text(PyObject* o) { return PyUnicode_Check(o) || PyBytes_Check(o); }

// Tensors of one element count as numbers, and so does what has no length.
bool is_nested(PyObject* o) {
  if (PyList_Check(o) || PyTuple_Check(o)) return true;
  if (PyFloat_Check(o) || PyLong_Check(o) || is_text(o) || is_tensor(o)) return false;
  return PySequence_Check(o) && !PyDict_Check(o) && !is_numpy_scalar(o);
}

// The items of a sequence: lists and tuples as they are, others (ranges, user types) as a list.
class Items {
 public:
  explicit Items(PyObject* sequence)
      : fast_(Handle::steal(PySequence_Fast(sequence, "expected a sequence"))) {}
  Py_ssize_t size() const { return PySequence_Fast_GET_SIZE(fast_.get()); }
  PyObject* operator[](Py_ssize_t i) const { return PySequence_Fast_GET_ITEM(fast_.get(), i); }

 private:
  Handle fast_;
};

class Inspector {
 public:
  explicit Inspector(const char* function) : function_(function) {}

  Literal run(PyObject* data) {
    find_sizes(data);
    visit(data, 0);
    return {sizes_, natural_dtype()};
  }

 private:
  // The first item of each level decides; `visit` holds the others to it.
  void find_sizes(PyObject* data) {
    Handle at = Handle::borrow(data);
    while (at) {
      if (const Handle array = array_of(at.get())) {
        const Tensor block = tensor_from_array(array.get(), false);
        for (int64_t s : block.sizes()) sizes_.push_back(s);
        return;
      }
      if (!is_nested(at.get())) return;
      check(sizes_.size() < kMaxDims, ErrorKind::Value, function_,
            "the data is nested deeper than ", kMaxDims, " levels");
      const Items items(at.get());
      sizes_.push_back(items.size());
      at = items.size() > 0 ? Handle::borrow(items[0]) : Handle();
    }
  }

  void visit(PyObject* o, uint32_t depth) {
    if (const Handle array = array_of(o))
      return visit_block(tensor_from_array(array.get(), false), depth);
    if (depth == sizes_.size()) return visit_number(o);
    check(is_nested(o), is_text(o) ? ErrorKind::Value : ErrorKind::Type, function_, place_,
          " is a ", type_name(o), ", expected a sequence of length ", sizes_[depth]);
    const Items items(o);
    check_shape(items.size() == sizes_[depth], function_, "expected a sequence of length ",
                sizes_[depth], " at dim ", depth, ", got length ", items.size(), " (", place_, ")");
    const bool innermost = depth + 1 == sizes_.size();
    place_.depth = int(depth) + 1;
    interrupts_.add(items.size());
    for (Py_ssize_t i = 0; i < items.size(); ++i) {
      if (i % kPerLook == kPerLook - 1) [[unlikely]]
        check_interrupt();
      PyObject* item = items[i];
      if (innermost && PyFloat_CheckExact(item)) {
        has_float_ = true;
      } else if (innermost && PyLong_CheckExact(item)) {
        has_int_ = true;
      } else {
        place_.index[depth] = i;
        visit(item, depth + 1);
        place_.depth = int(depth) + 1;
      }
    }
    place_.depth = int(depth);
  }

  void visit_block(const Tensor& block, uint32_t depth) {
    const IntList rest = IntList(sizes_).subspan(depth);
    check_shape(equal(block.sizes(), rest), function_, place_, " is an array of shape ",
                block.sizes(), ", expected ", rest);
    add(block.dtype());
  }

  void visit_number(PyObject* o) {
    if (PyFloat_CheckExact(o)) {
      has_float_ = true;
    } else if (PyBool_Check(o)) {
      add(DType::Bool);
    } else if (PyLong_CheckExact(o)) {
      has_int_ = true;
    } else if (PyComplex_CheckExact(o)) {
      has_complex_ = true;
    } else if (is_tensor(o)) {
      const Tensor& t = unwrap(o);
      check(t.numel() == 1, ErrorKind::Type, function_, place_, " is a tensor of shape ", t.sizes(),
            "; only tensors with one element can stand for numbers, use stack() or cat()");
      add(t.dtype());
    } else if (is_numpy_scalar(o)) {
      const Handle dtype = Handle::steal(PyObject_GetAttrString(o, "dtype"));
      const auto t = dtype_from_numpy(dtype.get());
      check_dtype(t.has_value(), function_, "no dtype fits ", place_, ", a ", type_name(o));
      add(*t);
    } else {
      visit_unusual(o);
    }
  }

  // Subclasses of Python's numbers, types with __float__, and what is no number at all.
  void visit_unusual(PyObject* o) {
    Scalar s;
    // A first item that is text looks like one more dimension, as in PyTorch: a matter of value,
    // not of type.
    check(!is_text(o), place_.is_first() ? ErrorKind::Value : ErrorKind::ArgumentType, function_,
          place_, " is a ", type_name(o), "; tensors hold numbers");
    check(!is_nested(o), ErrorKind::Type, function_, place_, " is a ", type_name(o),
          ", expected a number as its neighbours are");
    check_dtype(scalar_from_python(o, s), function_, "could not infer the dtype of ", place_,
                ", a ", type_name(o));
    switch (s.category()) {
      case Category::Bool:
        return add(DType::Bool);
      case Category::Integer:
        has_int_ = true;
        return;
      case Category::Floating:
        has_float_ = true;
        return;
      default:
        has_complex_ = true;
    }
  }

  void add(DType t) { dtype_ = dtype_ ? promote(*dtype_, t) : t; }

  DType natural_dtype() {
    if (has_int_) add(DType::Int64);
    if (has_float_) add(default_dtype());
    if (has_complex_) add(to_complex(default_dtype()));
    return dtype_.value_or(default_dtype());
  }

  const char* function_;
  Dims sizes_;
  Place place_;
  bool has_int_ = false, has_float_ = false, has_complex_ = false;
  std::optional<DType> dtype_;
  InterruptCounter interrupts_{kPerLook};
};

[[noreturn]] void overflow(const char* function, DType t, PyObject* o) {
  const Handle text = Handle::steal(PyObject_Repr(o));
  fail(ErrorKind::Argument, function, "value ", text_of(text.get()), " cannot be converted to ", t,
       " without overflow");
}

// Negative ints may wrap into an unsigned type as two's complement does, as far as they fit.
template <class T>
T integer_from(const char* function, PyObject* o) {
  int over = 0;
  const long long v = PyLong_AsLongLongAndOverflow(o, &over);
  if (over) {
    if (std::is_same_v<T, uint64_t> && over > 0) {
      const unsigned long long u = PyLong_AsUnsignedLongLong(o);
      if (!PyErr_Occurred()) return T(u);
      PyErr_Clear();
    }
    overflow(function, dtype_of<T>, o);
  }
  if constexpr (sizeof(T) < 8) {
    constexpr long long high = std::numeric_limits<T>::max();
    constexpr long long low = std::is_signed_v<T> ? std::numeric_limits<T>::min() : -high;
    if (v > high || v < low) overflow(function, dtype_of<T>, o);
  }
  return T(v);
}

template <class T>
T integer_from(const char* function, double v, PyObject* o) {
  const double high = std::ldexp(1.0, int(sizeof(T)) * 8 - std::is_signed_v<T>);
  const double low = std::is_signed_v<T> ? -high : 0;
  if (!(v < high && v >= low)) overflow(function, dtype_of<T>, o);  // NaN fails too
  return T(v);
}

// Any number as T; the exact float and int of Python are handled by the caller.
template <class T>
T number_from(const char* function, PyObject* o) {
  constexpr DType to = dtype_of<T>;
  Scalar s;
  if (is_tensor(o)) {
    s = unwrap(o).item();
  } else if (PyLong_Check(o) && !PyBool_Check(o) && is_integral(to)) {
    if constexpr (is_integral(to)) return integer_from<T>(function, o);
  } else {
    check(scalar_from_python(o, s), ErrorKind::Type, function, "expected a number, got ",
          type_name(o));
  }
  check(!s.is_complex() || is_complex(to) || to == DType::Bool, ErrorKind::Type, function,
        "expected real numbers for dtype ", to, ", got a complex one");
  if constexpr (is_integral(to)) {
    if (s.is_floating()) return integer_from<T>(function, s.to_double(), o);
    const Handle number = Handle::steal(PyLong_FromLongLong(s.to_int()));
    return integer_from<T>(function, number.get());
  } else {
    return s.to<T>();
  }
}

template <class T>
T item_from(const char* function, PyObject* o) {
  constexpr DType to = dtype_of<T>;
  if (PyFloat_CheckExact(o)) {
    const double v = PyFloat_AS_DOUBLE(o);
    if constexpr (is_integral(to))
      return integer_from<T>(function, v, o);
    else
      return Scalar(v).to<T>();
  }
  if (PyLong_CheckExact(o)) {
    if constexpr (is_integral(to)) {
      return integer_from<T>(function, o);
    } else if constexpr (to == DType::Bool) {
      return PyObject_IsTrue(o) == 1;
    } else {
      const double v = PyLong_AsDouble(o);
      if (v == -1.0 && PyErr_Occurred()) throw PythonError{};
      return Scalar(v).to<T>();
    }
  }
  return number_from<T>(function, o);
}

template <class T>
class Filler {
 public:
  Filler(const char* function, const Tensor& out)
      : function_(function), out_(out), at_(out.data<T>()) {}

  void visit(PyObject* o, uint32_t depth) {
    if (const Handle array = array_of(o)) return copy_block(array.get(), depth);
    if (depth == out_.sizes().size()) {
      *at_++ = item_from<T>(function_, o);
      return;
    }
    const Items items(o);
    const Py_ssize_t n = out_.sizes()[depth];
    const bool innermost = depth + 1 == out_.sizes().size();
    interrupts_.add(n);
    check_unchanged(items.size() == n);
    for (Py_ssize_t i = 0; i < n; ++i) {
      if (i % kPerLook == kPerLook - 1) [[unlikely]] {
        check_interrupt();
        check_unchanged(items.size() == n);
      }
      PyObject* item = items[i];
      if (innermost && (PyFloat_CheckExact(item) || PyLong_CheckExact(item))) {
        *at_++ = item_from<T>(function_, item);
      } else {
        const Handle keep = Handle::borrow(item);
        visit(item, depth + 1);
        check_unchanged(items.size() == n);
      }
    }
  }

 private:
  // A user's __float__ or signal handler may run while we read, and change the very list.
  void check_unchanged(bool same) const {
    check(same, ErrorKind::Runtime, function_, "the data changed while it was read");
  }

  void copy_block(PyObject* array, uint32_t depth) {
    const Tensor block = tensor_from_array(array, false);
    const int64_t offset = at_ - out_.data<T>();
    const Tensor part = out_.alias(IntList(out_.sizes()).subspan(depth),
                                   IntList(out_.strides()).subspan(depth), offset);
    check_unchanged(part.sizes() == block.sizes());
    rush::copy_(part, block);
    at_ += part.numel();
  }

  const char* function_;
  const Tensor& out_;
  T* at_;
  InterruptCounter interrupts_{kPerLook};
};

}  // namespace

Literal inspect_literal(const char* function, PyObject* data) {
  return Inspector(function).run(data);
}

void fill_literal(const char* function, PyObject* data, const Tensor& out) {
  dispatch_storage(function, out.dtype(),
                   [&]<typename T>() { Filler<T>(function, out).visit(data, 0); });
}

}  // namespace rush::py
