// objects.cpp: dtype, layout and memory_format: fixed sets of singletons, compared by identity and
// pickled by name. Devices, sizes, type infos and generators have files of their own.
#include "bindings/handle.h"
#include "bindings/printed_package.h"
#include "bindings/type_docs.h"

namespace rush::py {
namespace {

// One object of such a set: its number in the C++ enumeration and the name users know.
struct Constant {
  PyObject_HEAD uint8_t value;
  const char* name;
};

PyTypeObject *DTypeType, *LayoutType, *MemoryFormatType;
PyObject* g_dtypes[kDTypeCount];
constexpr const char* kLayouts[] = {"strided",    "sparse_coo", "sparse_csr", "sparse_csc",
                                    "sparse_bsr", "sparse_bsc", "jagged"};
PyObject* g_layouts[std::size(kLayouts)];
constexpr int kFormatCount = 4;
PyObject* g_formats[kFormatCount];

const char* g_printed_package = "rushlight";

PyObject* constant_repr(PyObject* self) {
  return PyUnicode_FromFormat("%s.%s", printed_package(), reinterpret_cast<Constant*>(self)->name);
}

// A string tells pickle and copy: this is the global of that name.
PyObject* constant_reduce(PyObject* self, PyObject*) {
  return PyUnicode_FromString(reinterpret_cast<Constant*>(self)->name);
}

DType dtype_of_object(PyObject* o) { return DType(reinterpret_cast<Constant*>(o)->value); }

PyObject* dtype_itemsize(PyObject* o, void*) {
  return PyLong_FromLongLong(element_size(dtype_of_object(o)));
}
PyObject* dtype_is_floating(PyObject* o, void*) {
  return PyBool_FromLong(is_floating(dtype_of_object(o)));
}
PyObject* dtype_is_complex(PyObject* o, void*) {
  return PyBool_FromLong(is_complex(dtype_of_object(o)));
}
PyObject* dtype_is_signed(PyObject* o, void*) {
  return PyBool_FromLong(info(dtype_of_object(o)).is_signed);
}
PyObject* dtype_to_real(PyObject* o, PyObject*) { return wrap(to_real(dtype_of_object(o))); }
PyObject* dtype_to_complex(PyObject* o, PyObject*) {
  return guarded([&] {
    const DType t = dtype_of_object(o);
    check((is_floating(t) && !is_float8(t)) || is_complex(t), ErrorKind::Runtime, "to_complex",
          "no complex dtype goes with ", t);
    return wrap(to_complex(t));
  });
}

PyGetSetDef dtype_attributes[] = {
    {"itemsize", dtype_itemsize, nullptr, "Bytes of one element.", nullptr},
    {"is_floating_point", dtype_is_floating, nullptr, "True for real floating types.", nullptr},
    {"is_complex", dtype_is_complex, nullptr, "True for complex types.", nullptr},
    {"is_signed", dtype_is_signed, nullptr, "True when values may be negative.", nullptr},
    {},
};
PyMethodDef dtype_methods[] = {
    {"__reduce__", constant_reduce, METH_NOARGS, nullptr},
    {"to_real", dtype_to_real, METH_NOARGS,
     "to_real($self, /)\n--\n\nThe real dtype of the same precision."},
    {"to_complex", dtype_to_complex, METH_NOARGS,
     "to_complex($self, /)\n--\n\nThe complex dtype of the same precision."},
    {},
};
PyMethodDef constant_methods[] = {
    {"__reduce__", constant_reduce, METH_NOARGS, nullptr},
    {},
};

PyType_Slot dtype_slots[] = {
    {Py_tp_doc, const_cast<char*>(kDtypeDoc)},
    {Py_tp_repr, reinterpret_cast<void*>(constant_repr)},
    {Py_tp_methods, dtype_methods},
    {Py_tp_getset, dtype_attributes},
    {},
};
PyType_Slot layout_slots[] = {
    {Py_tp_doc, const_cast<char*>(kLayoutDoc)},
    {Py_tp_repr, reinterpret_cast<void*>(constant_repr)},
    {Py_tp_methods, constant_methods},
    {},
};
PyType_Slot format_slots[] = {
    {Py_tp_doc, const_cast<char*>(kMemoryFormatDoc)},
    {Py_tp_repr, reinterpret_cast<void*>(constant_repr)},
    {Py_tp_methods, constant_methods},
    {},
};
constexpr unsigned kConstantFlags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION;
PyType_Spec dtype_spec = {"rushlight.dtype", sizeof(Constant), 0,
                          kConstantFlags | Py_TPFLAGS_BASETYPE, dtype_slots};
PyType_Spec layout_spec = {"rushlight.layout", sizeof(Constant), 0, kConstantFlags, layout_slots};
PyType_Spec format_spec = {"rushlight.memory_format", sizeof(Constant), 0, kConstantFlags,
                           format_slots};

// dtypes of PyTorch's that no tensor has here. Programs name them in tables; wherever a dtype is
// expected they are refused, since only dtype itself is accepted, not a class derived from it.
struct Unsupported {
  Constant constant;
  int itemsize;
  bool floating, complex, is_signed;
};

Unsupported* unsupported(PyObject* o) { return reinterpret_cast<Unsupported*>(o); }
PyObject* unsupported_itemsize(PyObject* o, void*) {
  return PyLong_FromLong(unsupported(o)->itemsize);
}
PyObject* unsupported_is_floating(PyObject* o, void*) {
  return PyBool_FromLong(unsupported(o)->floating);
}
PyObject* unsupported_is_complex(PyObject* o, void*) {
  return PyBool_FromLong(unsupported(o)->complex);
}
PyObject* unsupported_is_signed(PyObject* o, void*) {
  return PyBool_FromLong(unsupported(o)->is_signed);
}
PyGetSetDef unsupported_attributes[] = {
    {"itemsize", unsupported_itemsize, nullptr, "Bytes of one element.", nullptr},
    {"is_floating_point", unsupported_is_floating, nullptr, "True for real floating types.",
     nullptr},
    {"is_complex", unsupported_is_complex, nullptr, "True for complex types.", nullptr},
    {"is_signed", unsupported_is_signed, nullptr, "True when values may be negative.", nullptr},
    {},
};
PyObject* unsupported_conversion(PyObject* o, PyObject*) {
  PyErr_Format(PyExc_NotImplementedError, "%R: Rushlight has no tensors of this dtype", o);
  return nullptr;
}
PyMethodDef unsupported_methods[] = {
    {"to_real", unsupported_conversion, METH_NOARGS, nullptr},
    {"to_complex", unsupported_conversion, METH_NOARGS, nullptr},
    {"__reduce__", constant_reduce, METH_NOARGS, nullptr},
    {},
};
PyType_Slot unsupported_slots[] = {
    {Py_tp_doc, const_cast<char*>("A dtype of PyTorch's that Rushlight does not have.")},
    {Py_tp_repr, reinterpret_cast<void*>(constant_repr)},
    {Py_tp_getset, unsupported_attributes},
    {Py_tp_methods, unsupported_methods},
    {},
};
PyType_Spec unsupported_spec = {"rushlight.unsupported_dtype", sizeof(Unsupported), 0,
                                kConstantFlags, unsupported_slots};

struct UnsupportedRow {
  const char* name;
  int itemsize;
  const char* kind;  // f: floating, c: complex, u: unsigned, i: signed
};
constexpr UnsupportedRow kUnsupported[] = {
    {"float4_e2m1fn_x2", 1, "f"},
    {"qint8", 1, "i"},
    {"quint8", 1, "u"},
    {"qint32", 4, "i"},
    {"quint4x2", 1, "u"},
    {"quint2x4", 1, "u"},
    {"uint1", 1, "u"},
    {"uint2", 1, "u"},
    {"uint3", 1, "u"},
    {"uint4", 1, "u"},
    {"uint5", 1, "u"},
    {"uint6", 1, "u"},
    {"uint7", 1, "u"},
    {"int1", 1, "i"},
    {"int2", 1, "i"},
    {"int3", 1, "i"},
    {"int4", 1, "i"},
    {"int5", 1, "i"},
    {"int6", 1, "i"},
    {"int7", 1, "i"},
    {"bits8", 1, "u"},
    {"bits16", 2, "u"},
    {"bits1x8", 1, "u"},
    {"bits2x4", 1, "u"},
    {"bits4x2", 1, "u"},
};

// A dict of them by name, as _C._unsupported_dtypes: the package shows them, files and tables of
// dtypes do not.
bool add_unsupported(PyObject* module) {
  PyObject* base = reinterpret_cast<PyObject*>(DTypeType);
  PyObject* made = PyType_FromModuleAndSpec(module, &unsupported_spec, base);
  PyObject* dict = PyDict_New();
  if (!made || !dict) return false;
  for (const UnsupportedRow& row : kUnsupported) {
    auto* o = PyObject_New(Unsupported, reinterpret_cast<PyTypeObject*>(made));
    if (!o) return false;
    o->constant.value = 255;
    o->constant.name = row.name;
    o->itemsize = row.itemsize;
    o->floating = row.kind[0] == 'f';
    o->complex = row.kind[0] == 'c';
    o->is_signed = row.kind[0] != 'u';
    if (PyDict_SetItemString(dict, row.name, reinterpret_cast<PyObject*>(o)) < 0) return false;
    Py_DECREF(o);
  }
  const int status = PyModule_AddObjectRef(module, "_unsupported_dtypes", dict);
  Py_DECREF(dict);
  Py_DECREF(made);
  return status == 0;
}

// Makes the singleton `name` and adds it to the module; `slot` keeps one reference for ever.
bool add_constant(PyObject* module, PyTypeObject* type, uint8_t value, const char* name,
                  PyObject*& slot) {
  auto* o = PyObject_New(Constant, type);
  if (!o) return false;
  o->value = value;
  o->name = name;
  slot = reinterpret_cast<PyObject*>(o);
  return PyModule_AddObjectRef(module, name, slot) == 0;
}

constexpr std::pair<const char*, DType> kAliases[] = {
    {"half", DType::Float16},     {"float", DType::Float32},      {"double", DType::Float64},
    {"short", DType::Int16},      {"int", DType::Int32},          {"long", DType::Int64},
    {"cfloat", DType::Complex64}, {"cdouble", DType::Complex128}, {"chalf", DType::Complex32},
};

// Python's own number types stand for a dtype wherever one is expected.
std::optional<DType> dtype_of_python_type(PyObject* o) {
  if (o == reinterpret_cast<PyObject*>(&PyFloat_Type)) return DType::Float64;
  if (o == reinterpret_cast<PyObject*>(&PyLong_Type)) return DType::Int64;
  if (o == reinterpret_cast<PyObject*>(&PyBool_Type)) return DType::Bool;
  if (o == reinterpret_cast<PyObject*>(&PyComplex_Type)) return DType::Complex128;
  return std::nullopt;
}

PyObject* get_default_dtype(PyObject*, PyObject*) { return wrap(default_dtype()); }

PyObject* set_default_dtype_(PyObject*, PyObject* o) {
  return guarded([&] {
    check(is_dtype(o), ErrorKind::Type, "set_default_dtype", "expected a rushlight.dtype, got ",
          type_name(o));
    set_default_dtype(as_dtype(o));
    return Py_NewRef(Py_None);
  });
}

// See printed_package.h.
PyObject* set_printed_package(PyObject*, PyObject* o) {
  return guarded([&] {
    check(PyUnicode_Check(o), ErrorKind::Type, "_set_printed_package", "expected a str, got ",
          type_name(o));
    g_printed_package = PyUnicode_CompareWithASCIIString(o, "torch") == 0 ? "torch" : "rushlight";
    return Py_NewRef(Py_None);
  });
}

PyMethodDef functions[] = {
    {"_set_printed_package", set_printed_package, METH_O, nullptr},
    {"get_default_dtype", get_default_dtype, METH_NOARGS,
     "get_default_dtype()\n--\n\n"
     "The dtype that Python floats become.\n"
     "\n"
     "Example:\n"
     "    >>> rl.get_default_dtype()\n"
     "    rushlight.float32"},
    {"set_default_dtype", set_default_dtype_, METH_O,
     "set_default_dtype(d, /)\n--\n\n"
     "Sets the floating dtype that Python floats become.\n"
     "\n"
     "Arguments:\n"
     "    d: a floating dtype.\n"
     "\n"
     "Example:\n"
     "    >>> rl.set_default_dtype(rl.float64); rl.tensor([0.5]).dtype\n"
     "    rushlight.float64\n"
     "    >>> rl.set_default_dtype(rl.float32)"},
    {},
};

}  // namespace

const char* printed_package() { return g_printed_package; }
bool is_unsupported_dtype(PyObject* o) {
  return !Py_IS_TYPE(o, DTypeType) && PyObject_TypeCheck(o, DTypeType);
}

PyObject* wrap(DType t) { return Py_NewRef(g_dtypes[int(t)]); }
PyObject* wrap(Layout l) { return Py_NewRef(g_layouts[int(l)]); }
PyObject* wrap(MemoryFormat f) { return Py_NewRef(g_formats[int(f)]); }

bool is_dtype(PyObject* o) { return Py_IS_TYPE(o, DTypeType) || dtype_of_python_type(o); }
DType as_dtype(PyObject* o) {
  return Py_IS_TYPE(o, DTypeType) ? dtype_of_object(o) : *dtype_of_python_type(o);
}
bool is_layout(PyObject* o) { return Py_IS_TYPE(o, LayoutType); }
bool is_memory_format(PyObject* o) { return Py_IS_TYPE(o, MemoryFormatType); }
MemoryFormat as_memory_format(PyObject* o) {
  return MemoryFormat(reinterpret_cast<Constant*>(o)->value);
}

bool init_objects(PyObject* module) {
  DTypeType = add_type(module, &dtype_spec);
  LayoutType = add_type(module, &layout_spec);
  MemoryFormatType = add_type(module, &format_spec);
  if (!DTypeType || !LayoutType || !MemoryFormatType) return false;

  for (int i = 0; i < kDTypeCount; ++i) {
    const char* name = kDTypes[i].name.data();  // a literal, so it ends with a zero
    if (!add_constant(module, DTypeType, uint8_t(i), name, g_dtypes[i])) return false;
  }
  for (const auto& [name, t] : kAliases) {
    if (PyModule_AddObjectRef(module, name, g_dtypes[int(t)]) < 0) return false;
  }
  constexpr const char* formats[kFormatCount] = {"contiguous_format", "preserve_format",
                                                 "channels_last", "channels_last_3d"};
  for (int i = 0; i < kFormatCount; ++i) {
    if (!add_constant(module, MemoryFormatType, uint8_t(i), formats[i], g_formats[i])) return false;
  }
  for (size_t i = 0; i < std::size(kLayouts); ++i) {
    if (!add_constant(module, LayoutType, uint8_t(i), kLayouts[i], g_layouts[i])) return false;
  }
  return PyModule_AddFunctions(module, functions) == 0 && init_device(module) &&
         init_size(module) && init_type_info(module) && init_generator(module) &&
         add_unsupported(module);
}

}  // namespace rush::py
