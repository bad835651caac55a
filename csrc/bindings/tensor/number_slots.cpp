// number_slots.cpp: Python's operators. They skip the argument parser: two operands, known
// overloads.
#include "bindings/call/dispatch.h"
#include "bindings/call/torch_function.h"
#include "bindings/handle.h"
#include "core/modes.h"
#include "core/value_read.h"
#include "ops/autocast/autocast.h"
#include "ops/ops.h"

namespace rush::py {
namespace {

// clang-format off
enum Operator : int {
  Add, Sub, Mul, Div, FloorDiv, Mod, Pow, MatMul, And, Or, Xor, LShift, RShift,
  Lt, Le, Eq, Ne, Gt, Ge,
  Neg, Abs, Invert,
  kOperatorCount,
};
struct OperatorInfo {
  const char* op;         // in the table
  const char* method;     // Python's
  const char* reflected;  // Python's, called on the right operand
  const OpEntry* entry;   // null while the table lacks the op
  const OpEntry* in_place;
};
OperatorInfo g_operators[kOperatorCount] = {
    {"add", "__add__", "__radd__", nullptr, nullptr},
    {"sub", "__sub__", "__rsub__", nullptr, nullptr},
    {"mul", "__mul__", "__rmul__", nullptr, nullptr},
    {"div", "__truediv__", "__rtruediv__", nullptr, nullptr},
    {"floor_divide", "__floordiv__", "__rfloordiv__", nullptr, nullptr},
    {"remainder", "__mod__", "__rmod__", nullptr, nullptr},
    {"pow", "__pow__", "__rpow__", nullptr, nullptr},
    {"matmul", "__matmul__", "__rmatmul__", nullptr, nullptr},
    {"bitwise_and", "__and__", "__rand__", nullptr, nullptr},
    {"bitwise_or", "__or__", "__ror__", nullptr, nullptr},
    {"bitwise_xor", "__xor__", "__rxor__", nullptr, nullptr},
    {"bitwise_left_shift", "__lshift__", "__rlshift__", nullptr, nullptr},
    {"bitwise_right_shift", "__rshift__", "__rrshift__", nullptr, nullptr},
    {"lt", "__lt__", "__gt__", nullptr, nullptr},
    {"le", "__le__", "__ge__", nullptr, nullptr},
    {"eq", "__eq__", "__eq__", nullptr, nullptr},
    {"ne", "__ne__", "__ne__", nullptr, nullptr},
    {"gt", "__gt__", "__lt__", nullptr, nullptr},
    {"ge", "__ge__", "__le__", nullptr, nullptr},
    {"neg", "__neg__", nullptr, nullptr, nullptr},
    {"abs", "__abs__", nullptr, nullptr, nullptr},
    {"bitwise_not", "__invert__", nullptr, nullptr, nullptr},
};
// clang-format on

constexpr size_t kOperatorArgs = 4;  // operands and defaulted arguments

// The overload for `operands` tensors with everything else left to its default.
const OpEntry* find_entry(const std::string& name, Form form, size_t operands) {
  for (const OpEntry& e : find_ops(name)) {
    if (e.form != form || e.args.size() < operands || e.args.size() > kOperatorArgs) continue;
    bool fits = true;
    for (size_t i = 0; i < e.args.size(); ++i) {
      const ArgKind kind = e.args[i].kind;
      fits = fits && (i < operands ? kind == ArgKind::Tensor || kind == ArgKind::Operand
                                   : e.args[i].default_kind != DefaultKind::Required);
    }
    if (fits) return &e;
  }
  return nullptr;
}

// The arguments of an operator; only as many Values as there are get constructed.
class Operands {
 public:
  explicit Operands(const OpEntry& entry) : entry_(entry) {}
  ~Operands() {
    for (size_t i = 0; i < made_; ++i) values()[i].~Value();
  }
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;

  // The next operand. False when o is neither a tensor nor a number where one may stand.
  bool add(PyObject* o, bool numbers) {
    Value& v = *new (values() + made_++) Value();
    if (is_tensor(o)) [[likely]] {
      v.borrow(unwrap(o).impl());
      elements_ = std::max(elements_, unwrap(o).numel());
      return true;
    }
    Scalar s;
    if (!numbers || !scalar_from_python(o, s)) return false;
    v.own(wrap_number(s));
    return true;
  }

  void run(Value* result) {
    for (; made_ < entry_.args.size(); ++made_) {
      const ArgSpec& spec = entry_.args[made_];
      if (spec.make_default)
        new (values() + made_) Value(spec.make_default());
      else
        new (values() + made_) Value();
    }
    try {
      if (elements_ < kReleaseGilFrom) [[likely]]
        entry_.boxed(values(), result);
      else
        run_boxed(entry_, values(), result, elements_);
    } catch (const Error& e) {
      rethrow_named(entry_.name, e);
    }
  }

 private:
  Value* values() { return reinterpret_cast<Value*>(raw_); }

  const OpEntry& entry_;
  size_t made_ = 0;
  int64_t elements_ = 0;
  alignas(Value) unsigned char raw_[kOperatorArgs * sizeof(Value)];
};

// number / tensor is reciprocal(tensor) * number where autocast has a policy for reciprocal: that
// is how PyTorch's list for CUDA has __rtruediv__ in float32.
bool divides_by_reciprocal(const OperatorInfo& info, PyObject* a, PyObject* b) {
  if (&info != &g_operators[Div] || is_tensor(a) || !is_tensor(b)) return false;
  const DeviceType device = unwrap(b).device().type;
  return autocast_enabled(device) && autocast_policy("reciprocal", device) != AutocastPolicy::None;
}

PyObject* call_binary(const OperatorInfo& info, PyObject* a, PyObject* b) {
  return guarded([&]() -> PyObject* {
    if (g_overrides_exist) [[unlikely]] {
      const bool left = is_tensor(a);
      PyObject* result =
          left ? operator_override(info.method, a, b) : operator_override(info.reflected, b, a);
      if (result) return result;
    }
    if (!info.entry) return Py_NewRef(Py_NotImplemented);
    if (t_modes & kIntercept && divides_by_reciprocal(info, a, b)) [[unlikely]] {
      const Handle inverse = Handle::steal(wrap(reciprocal(unwrap(b))));
      return call_binary(g_operators[Mul], inverse.get(), a);
    }
    // An op on two operands takes numbers; matmul does not.
    const bool numbers = info.entry->args[1].kind == ArgKind::Operand;
    Operands operands(*info.entry);
    if (!operands.add(a, numbers) || !operands.add(b, numbers)) {
      return Py_NewRef(Py_NotImplemented);
    }
    Value result;
    operands.run(&result);
    return wrap(result.take_tensor());
  });
}

PyObject* call_in_place(const OperatorInfo& info, PyObject* a, PyObject* b) {
  return guarded([&]() -> PyObject* {
    if (g_overrides_exist) [[unlikely]] {  // "__add__" as "__iadd__"
      const std::string method = std::string("__i") + (info.method + 2);
      if (PyObject* result = operator_override(method.c_str(), a, b)) return result;
    }
    if (!info.in_place) return Py_NewRef(Py_NotImplemented);
    Operands operands(*info.in_place);
    const bool numbers = info.in_place->args[1].kind == ArgKind::Operand;
    if (!operands.add(a, false) || !operands.add(b, numbers)) return Py_NewRef(Py_NotImplemented);
    Value result;
    operands.run(&result);
    return Py_NewRef(a);
  });
}

PyObject* call_unary(const OperatorInfo& info, PyObject* a) {
  return guarded([&]() -> PyObject* {
    if (g_overrides_exist) [[unlikely]] {
      if (PyObject* result = operator_override(info.method, a, nullptr)) return result;
    }
    check(info.entry, ErrorKind::NotImplemented, info.op, "not implemented");
    Operands operands(*info.entry);
    operands.add(a, false);
    Value result;
    operands.run(&result);
    return wrap(result.take_tensor());
  });
}

template <Operator O>
PyObject* binary(PyObject* a, PyObject* b) {
  return call_binary(g_operators[O], a, b);
}
template <Operator O>
PyObject* in_place(PyObject* a, PyObject* b) {
  return call_in_place(g_operators[O], a, b);
}
template <Operator O>
PyObject* unary(PyObject* a) {
  return call_unary(g_operators[O], a);
}

PyObject* power(PyObject* a, PyObject* b, PyObject* modulus) {
  if (modulus != Py_None) {
    PyErr_SetString(PyExc_TypeError, "pow(): a modulus is not possible with tensors");
    return nullptr;
  }
  return call_binary(g_operators[Pow], a, b);
}
PyObject* in_place_power(PyObject* a, PyObject* b, PyObject*) {
  return call_in_place(g_operators[Pow], a, b);
}
PyObject* positive(PyObject* a) { return Py_NewRef(a); }

PyObject* compare(PyObject* a, PyObject* b, int op) {
  // A tensor is not None; `x == None` is asked often, and means the object.
  if (b == Py_None && (op == Py_EQ || op == Py_NE)) return PyBool_FromLong(op == Py_NE);
  static_assert(Py_LT == 0 && Py_GE == 5);
  return call_binary(g_operators[Lt + op], a, b);
}

// The number of a one-element tensor, for the conversions below.
Scalar one_value(const char* type, PyObject* o) {
  const Tensor& t = unwrap(o);
  check(t.numel() == 1, ErrorKind::Argument, type,
        "only a tensor with one element converts to a Python number, this one has shape ",
        t.sizes());
  return t.item();
}

// An integer as Python has it; uint64 may not fit into the int64 of a Scalar.
PyObject* as_python_int(const Tensor& t, const Scalar& s) {
  if (t.dtype() == DType::UInt64) return PyLong_FromUnsignedLongLong(uint64_t(s.to_int()));
  return PyLong_FromLongLong(s.to_int());
}

int as_bool(PyObject* o) {
  return guarded_int([&] {
    const Tensor& t = unwrap(o);
    check(t.numel() != 0, ErrorKind::Runtime, "bool", "an empty tensor is neither true nor false");
    check(t.numel() == 1, ErrorKind::Runtime, "bool",
          "a tensor with more than one value is neither true nor false (its shape is ", t.sizes(),
          "); use .any() or .all()");
    return int(one_value("bool", o).to<bool>());
  });
}

PyObject* as_int(PyObject* o) {
  return guarded([&] {
    const Scalar s = one_value("int", o);
    check(!s.is_complex(), ErrorKind::DType, "int", "a complex tensor has no int");
    if (!s.is_floating()) return as_python_int(unwrap(o), s);
    return PyLong_FromDouble(s.to_double());
  });
}

PyObject* as_float(PyObject* o) {
  return guarded([&] {
    const Scalar s = one_value("float", o);
    check(!s.is_complex(), ErrorKind::DType, "float", "a complex tensor has no float");
    if (unwrap(o).dtype() == DType::UInt64) return PyFloat_FromDouble(double(uint64_t(s.to_int())));
    return PyFloat_FromDouble(s.to_double());
  });
}

PyObject* as_index(PyObject* o) {
  return guarded([&] {
    const Tensor& t = unwrap(o);
    check(t.numel() == 1 && category(t.dtype()) <= Category::Integer, ErrorKind::Type, "index",
          "only an integer tensor with one element is an index, this is ", t.dtype(), " of shape ",
          t.sizes());
    return as_python_int(t, one_value("index", o));
  });
}

Py_ssize_t length(PyObject* o) {
  const Tensor& t = unwrap(o);
  if (t.dim() == 0) {
    PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
    return -1;
  }
  note_value_read(t, "its length, by len()");
  return Py_ssize_t(t.sizes()[0]);
}

PyObject* iterate(PyObject* o) {
  if (unwrap(o).dim() == 0) {
    PyErr_SetString(PyExc_TypeError, "iteration over a 0-d tensor");
    return nullptr;
  }
  note_value_read(unwrap(o), "as many items as it has now, by iteration");
  PyObject* parts = call_op(find_ops("unbind"), o, nullptr, 0, nullptr);
  if (!parts) return nullptr;
  PyObject* iterator = PyObject_GetIter(parts);
  Py_DECREF(parts);
  return iterator;
}

PyObject* subscript(PyObject* o, PyObject* index) {
  if (g_overrides_exist && Py_TYPE(o) != TensorType) [[unlikely]] {
    PyObject* result = guarded([&] { return operator_override("__getitem__", o, index); });
    if (result || PyErr_Occurred()) return result;
  }
  return tensor_getitem(o, index);
}

int contains(PyObject* o, PyObject* element) {
  return guarded_int([&] {
    Scalar s;
    check(is_tensor(element) || scalar_from_python(element, s), ErrorKind::Runtime, "in",
          "a tensor holds numbers; it was asked for ", type_name(element));
    const Handle equal = Handle::steal(compare(o, element, Py_EQ));
    check(is_tensor(equal.get()), ErrorKind::NotImplemented, "in", "not implemented");
    const Handle any = Handle::steal(call_op(find_ops("any"), equal.get(), nullptr, 0, nullptr));
    return PyObject_IsTrue(any.get());
  });
}

template <class F>
constexpr PyType_Slot slot(int id, F* f) {
  return {id, reinterpret_cast<void*>(f)};
}

}  // namespace

PyType_Slot number_slots[] = {
    slot(Py_nb_add, binary<Add>),
    slot(Py_nb_subtract, binary<Sub>),
    slot(Py_nb_multiply, binary<Mul>),
    slot(Py_nb_true_divide, binary<Div>),
    slot(Py_nb_floor_divide, binary<FloorDiv>),
    slot(Py_nb_remainder, binary<Mod>),
    slot(Py_nb_power, power),
    slot(Py_nb_matrix_multiply, binary<MatMul>),
    slot(Py_nb_and, binary<And>),
    slot(Py_nb_or, binary<Or>),
    slot(Py_nb_xor, binary<Xor>),
    slot(Py_nb_lshift, binary<LShift>),
    slot(Py_nb_rshift, binary<RShift>),
    slot(Py_nb_inplace_add, in_place<Add>),
    slot(Py_nb_inplace_subtract, in_place<Sub>),
    slot(Py_nb_inplace_multiply, in_place<Mul>),
    slot(Py_nb_inplace_true_divide, in_place<Div>),
    slot(Py_nb_inplace_floor_divide, in_place<FloorDiv>),
    slot(Py_nb_inplace_remainder, in_place<Mod>),
    slot(Py_nb_inplace_power, in_place_power),
    slot(Py_nb_inplace_and, in_place<And>),
    slot(Py_nb_inplace_or, in_place<Or>),
    slot(Py_nb_inplace_xor, in_place<Xor>),
    slot(Py_nb_inplace_lshift, in_place<LShift>),
    slot(Py_nb_inplace_rshift, in_place<RShift>),
    slot(Py_nb_negative, unary<Neg>),
    slot(Py_nb_positive, positive),
    slot(Py_nb_absolute, unary<Abs>),
    slot(Py_nb_invert, unary<Invert>),
    slot(Py_nb_bool, as_bool),
    slot(Py_nb_int, as_int),
    slot(Py_nb_float, as_float),
    slot(Py_nb_index, as_index),
    slot(Py_tp_richcompare, compare),
    slot(Py_tp_iter, iterate),
    slot(Py_mp_length, length),
    slot(Py_mp_subscript, subscript),
    slot(Py_mp_ass_subscript, tensor_setitem),
    slot(Py_sq_length, length),
    slot(Py_sq_contains, contains),
    {},
};

void resolve_operators() {
  for (OperatorInfo& info : g_operators) {
    const size_t operands = info.reflected ? 2 : 1;
    info.entry = find_entry(info.op, Form::Functional, operands);
    info.in_place = find_entry(concat(info.op, "_"), Form::InPlace, operands);
  }
}

}  // namespace rush::py
