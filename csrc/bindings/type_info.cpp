// type_info.cpp: finfo and iinfo, the limits of the floating and the integer dtypes.
#include "bindings/handle.h"
#include "bindings/type_docs.h"

#include <cmath>

namespace rush::py {
namespace {

struct InfoObject {
  PyObject_HEAD DType dtype;
};
PyTypeObject *FloatInfoType, *IntInfoType;

DType dtype_of_info(PyObject* o) { return reinterpret_cast<InfoObject*>(o)->dtype; }

// A binary floating format: `digits` bits of precision with the hidden one, 2^min_exponent the
// smallest normal number, `decimals` digits that survive a round trip.
struct FloatFormat {
  int digits, min_exponent, max_exponent, decimals;
};

FloatFormat float_format(DType t) {
  switch (to_real(t)) {
    case DType::Float16:
      return {11, -14, 15, 3};
    case DType::BFloat16:
      return {8, -126, 127, 2};
    case DType::Float8E4M3FN:
      return {4, -6, 8, 0};
    case DType::Float8E5M2:
      return {3, -14, 15, 0};
    case DType::Float8E4M3FNUZ:
      return {4, -7, 7, 0};
    case DType::Float8E5M2FNUZ:
      return {3, -15, 15, 0};
    case DType::Float8E8M0FNU:
      return {1, -127, 127, 0};
    case DType::Float32:
      return {24, -126, 127, 6};
    default:
      return {53, -1022, 1023, 15};
  }
}

// The next number after 1 less 1.
double gap_of(DType t) { return std::ldexp(1.0, 1 - float_format(t).digits); }
double eps_of(DType t) {
  return t == DType::Float8E5M2FNUZ ? 0.125 : gap_of(t);  // half the gap, as PyTorch says
}
double tiny_of(DType t) { return std::ldexp(1.0, float_format(t).min_exponent); }
double max_of(DType t) {
  // In e4m3fn the last number of the last exponent is NaN.
  if (t == DType::Float8E4M3FN) return float8_e4m3fn::max;
  return std::ldexp(2.0 - gap_of(t), float_format(t).max_exponent);
}
double min_of(DType t) { return info(t).is_signed ? -max_of(t) : tiny_of(t); }
double resolution_of(DType t) { return 1.0 / std::pow(10.0, float_format(t).decimals); }

template <double (*f)(DType)>
PyObject* float_attribute(PyObject* o, void*) {
  return PyFloat_FromDouble(f(dtype_of_info(o)));
}

// A complex type is described by its parts.
PyObject* info_bits(PyObject* o, void*) {
  return PyLong_FromLongLong(8 * element_size(to_real(dtype_of_info(o))));
}
PyObject* info_dtype(PyObject* o, void*) {
  return PyUnicode_FromString(name(to_real(dtype_of_info(o))).data());
}

uint64_t int_max_of(DType t) {
  const int bits = int(8 * element_size(t)) - info(t).is_signed;
  return bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
}
PyObject* int_max(PyObject* o, void*) {
  return PyLong_FromUnsignedLongLong(int_max_of(dtype_of_info(o)));
}
int64_t int_min_of(DType t) { return info(t).is_signed ? -int64_t(int_max_of(t)) - 1 : 0; }
PyObject* int_min(PyObject* o, void*) { return PyLong_FromLongLong(int_min_of(dtype_of_info(o))); }

PyObject* make_info(PyTypeObject* type, const char* function, PyObject* args, PyObject* kwargs,
                    bool floating) {
  return guarded([&] {
    static constexpr const char* names[] = {"type"};
    PyObject* given_type;
    parse_arguments({function, names, 1, size_t(floating ? 0 : 1)}, args, kwargs, &given_type);
    const DType t = dtype_argument(function, given_type, default_dtype());
    check(floating ? is_differentiable(t) : is_integral(t), ErrorKind::Type, function, "describes ",
          floating ? "floating" : "integer", " dtypes, got ", t);
    PyObject* o = type->tp_alloc(type, 0);
    if (o) reinterpret_cast<InfoObject*>(o)->dtype = t;
    return o;
  });
}
PyObject* finfo_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return make_info(type, "finfo", args, kwargs, true);
}
PyObject* iinfo_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return make_info(type, "iinfo", args, kwargs, false);
}

PyObject* info_compare(PyObject* a, PyObject* b, int op) {
  if ((op != Py_EQ && op != Py_NE) || Py_TYPE(a) != Py_TYPE(b)) Py_RETURN_NOTIMPLEMENTED;
  return PyBool_FromLong((dtype_of_info(a) == dtype_of_info(b)) == (op == Py_EQ));
}
Py_hash_t info_hash(PyObject* o) { return Py_hash_t(dtype_of_info(o)) + 1; }

PyObject* finfo_repr(PyObject* o) {
  return guarded([&] {
    const DType t = dtype_of_info(o);
    const std::string text =
        concat("finfo(resolution=", resolution_of(t), ", min=", min_of(t), ", max=", max_of(t),
               ", eps=", eps_of(t), ", smallest_normal=", tiny_of(t), ", tiny=", tiny_of(t),
               ", dtype=", to_real(t), ")");
    return PyUnicode_FromStringAndSize(text.data(), Py_ssize_t(text.size()));
  });
}
PyObject* iinfo_repr(PyObject* o) {
  return guarded([&] {
    const DType t = dtype_of_info(o);
    const std::string text =
        concat("iinfo(min=", double(int_min_of(t)), ", max=", double(int_max_of(t)), ", dtype=", t,
               ")");  // in six digits, as PyTorch prints them
    return PyUnicode_FromStringAndSize(text.data(), Py_ssize_t(text.size()));
  });
}

PyGetSetDef float_attributes[] = {
    {"bits", info_bits, nullptr, "Bits of one number.", nullptr},
    {"dtype", info_dtype, nullptr, "The dtype's name.", nullptr},
    {"eps", float_attribute<eps_of>, nullptr, "From 1 to the next number.", nullptr},
    {"max", float_attribute<max_of>, nullptr, "The largest number.", nullptr},
    {"min", float_attribute<min_of>, nullptr, "The smallest number: -max where there are signs.",
     nullptr},
    {"tiny", float_attribute<tiny_of>, nullptr, "The smallest positive normal number.", nullptr},
    {"smallest_normal", float_attribute<tiny_of>, nullptr, "The same as tiny.", nullptr},
    {"resolution", float_attribute<resolution_of>, nullptr, "Decimal resolution.", nullptr},
    {},
};
PyGetSetDef int_attributes[] = {
    {"bits", info_bits, nullptr, "Bits of one number.", nullptr},
    {"dtype", info_dtype, nullptr, "The dtype's name.", nullptr},
    {"max", int_max, nullptr, "The largest number.", nullptr},
    {"min", int_min, nullptr, "The smallest number.", nullptr},
    {},
};
PyType_Slot float_slots[] = {
    {Py_tp_doc, const_cast<char*>(kFinfoDoc)},
    {Py_tp_new, reinterpret_cast<void*>(finfo_new)},
    {Py_tp_repr, reinterpret_cast<void*>(finfo_repr)},
    {Py_tp_richcompare, reinterpret_cast<void*>(info_compare)},
    {Py_tp_hash, reinterpret_cast<void*>(info_hash)},
    {Py_tp_getset, float_attributes},
    {},
};
PyType_Slot int_slots[] = {
    {Py_tp_doc, const_cast<char*>(kIinfoDoc)},
    {Py_tp_new, reinterpret_cast<void*>(iinfo_new)},
    {Py_tp_repr, reinterpret_cast<void*>(iinfo_repr)},
    {Py_tp_richcompare, reinterpret_cast<void*>(info_compare)},
    {Py_tp_hash, reinterpret_cast<void*>(info_hash)},
    {Py_tp_getset, int_attributes},
    {},
};
PyType_Spec float_spec = {"rushlight.finfo", sizeof(InfoObject), 0, Py_TPFLAGS_DEFAULT,
                          float_slots};
PyType_Spec int_spec = {"rushlight.iinfo", sizeof(InfoObject), 0, Py_TPFLAGS_DEFAULT, int_slots};

}  // namespace

bool init_type_info(PyObject* module) {
  FloatInfoType = add_type(module, &float_spec);
  IntInfoType = add_type(module, &int_spec);
  return FloatInfoType && IntInfoType;
}

}  // namespace rush::py
