// builtins.cpp: questions to tensors, and the table of all builtins.
#include "jit/builtins.h"

#include <unordered_map>

#include "autograd/meta.h"
#include "jit/builtin_rows.h"
#include "ops/ops.h"

namespace rush::jit {
namespace {

IValue ints(IntList dims) {
  IValue::Items items;
  items.reserve(dims.size());
  for (const int64_t n : dims) items.emplace_back(n);
  return IValue::list(std::move(items));
}
int64_t size_of(const Tensor& t, int64_t dim, const Dims& of, const char* what) {
  const int64_t n = t.dim();
  if (dim < -n || dim >= n)
    raise_index(concat(what, ": dimension ", dim, " is out of range for a tensor of ", n));
  return of[uint32_t(dim < 0 ? dim + n : dim)];
}
Scalar number_in(const Tensor& t, const char* what) {
  if (t.numel() != 1)
    fail(ErrorKind::Runtime, what, "a tensor of one element can be a number, got shape ",
         IntList(t.sizes()));
  const Scalar s = t.item();
  check(!s.is_complex(), ErrorKind::NotImplemented, what,
        "programs know no complex numbers besides those in tensors");
  return s;
}
int64_t int_in(const Tensor& t) {
  const Scalar s = number_in(t, "int");
  if (!s.is_floating()) return s.to_int();
  const double d = s.to_double();
  check(d >= -9223372036854775808.0 && d < 9223372036854775808.0, ErrorKind::Value, "int",
        "cannot convert ", d, " to an int of 64 bits");
  return int64_t(d);
}

// Nested lists and tuples of numbers as a tensor.
void walk(const IValue& v, size_t depth, Dims& shape, std::vector<IValue>& leaves) {
  if (!v.isList() && !v.isTuple()) {
    check(depth == shape.size() && v.is_number(), ErrorKind::Value, "tensor",
          "the lists must have equal lengths, and numbers at the bottom");
    leaves.push_back(v);
    return;
  }
  const auto n = int64_t(v.items().size());
  if (depth == shape.size()) {
    check(leaves.empty() && depth < kMaxDims, ErrorKind::Value, "tensor",
          "the lists must have equal lengths");
    shape.push_back(n);
  }
  check(shape[uint32_t(depth)] == n, ErrorKind::Value, "tensor",
        "the lists must have equal lengths, got ", shape[uint32_t(depth)], " and ", n);
  for (const IValue& item : v.items()) walk(item, depth + 1, shape, leaves);
}
Tensor tensor_of(const Args& a) {
  Dims shape;
  std::vector<IValue> leaves;
  walk(a[0], 0, shape, leaves);
  bool real = leaves.empty(), whole = false;
  for (const IValue& v : leaves) {
    real = real || v.isDouble();
    whole = whole || v.isInt();
  }
  const DType wanted = !a[1].isNone() ? DType(a.i(1))
                       : real         ? default_dtype()
                       : whole        ? DType::Int64
                                      : DType::Bool;
  const DType staged = real ? DType::Float64 : DType::Int64;
  Tensor t = rush::empty(shape, staged);
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (real)
      static_cast<double*>(t.data())[i] = leaves[i].scalar().to_double();
    else
      static_cast<int64_t*>(t.data())[i] = leaves[i].integer();
  }
  t = rush::to(t, wanted);
  if (!a[2].isNone()) t = rush::to(t, a[2].device());
  if (a.b(3)) set_requires_grad(t, true);
  return t;
}
IValue device_index(Device d) { return d.index < 0 ? IValue() : IValue(int64_t{d.index}); }

constexpr Builtin kRows[] = {
    RUSH_ROW("shape", "Tensor -> List[int]", ints(a.t(0).sizes())),
    RUSH_ROW("stride", "Tensor -> List[int]", ints(a.t(0).strides())),
    RUSH_ROW("size", "Tensor, int -> int", size_of(a.t(0), a.i(1), a.t(0).sizes(), "size")),
    RUSH_ROW("stride_of", "Tensor, int -> int",
             size_of(a.t(0), a.i(1), a.t(0).strides(), "stride")),
    RUSH_ROW("dim", "Tensor -> int", int64_t(a.t(0).dim())),
    RUSH_ROW("numel", "Tensor -> int", a.t(0).numel()),
    RUSH_ROW("storage_offset", "Tensor -> int", a.t(0).offset()),
    RUSH_ROW("element_size", "Tensor -> int", int64_t(a.t(0).element_size())),
    RUSH_ROW("dtype", "Tensor -> dtype", a.t(0).dtype()),
    RUSH_ROW("device", "Tensor -> Device", a.t(0).device()),
    RUSH_ROW("layout", "Tensor -> layout", Layout::Strided),
    RUSH_ROW("requires_grad", "Tensor -> bool", requires_grad(a.t(0))),
    RUSH_ROW("set_requires_grad", "Tensor, bool -> Tensor",
             (set_requires_grad(a.t(0), a.b(1)), a[0])),
    RUSH_ROW("is_cuda", "Tensor -> bool", a.t(0).device().is_cuda()),
    RUSH_ROW("is_cpu", "Tensor -> bool", a.t(0).device().is_cpu()),
    RUSH_ROW("is_meta", "Tensor -> bool", a.t(0).device().is_meta()),
    RUSH_ROW("is_floating_point", "Tensor -> bool", is_floating(a.t(0).dtype())),
    RUSH_ROW("is_complex", "Tensor -> bool", is_complex(a.t(0).dtype())),
    RUSH_ROW("is_contiguous", "Tensor -> bool", a.t(0).is_contiguous()),
    RUSH_ROW("is_floating_dtype", "dtype -> bool", is_floating(DType(a.i(0)))),
    RUSH_ROW("is_complex_dtype", "dtype -> bool", is_complex(DType(a.i(0)))),
    RUSH_ROW("bool_tensor", "Tensor -> bool", number_in(a.t(0), "bool").to<bool>()),
    RUSH_ROW("int_tensor", "Tensor -> int", int_in(a.t(0))),
    RUSH_ROW("float_tensor", "Tensor -> float", number_in(a.t(0), "float").to_double()),
    RUSH_ROW("number_tensor", "Tensor -> Union[bool, int, float]",
             IValue::number(number_in(a.t(0), "item"))),
    RUSH_ROW("tensor", "t, Optional[dtype], Optional[Device], bool -> Tensor", tensor_of(a)),
    RUSH_ROW("make_device", "str -> Device", parse_device(a.s(0))),
    RUSH_ROW("device_type", "Device -> str", std::string(name(a[0].device().type))),
    RUSH_ROW("device_index", "Device -> Optional[int]", device_index(a[0].device())),
    RUSH_ROW("default_dtype", " -> dtype", default_dtype()),
    RUSH_ROW("is_grad_enabled", " -> bool", grad_enabled()),
};

const std::vector<Builtin>& table() {
  static const auto* all = [] {
    auto* rows = new std::vector<Builtin>;
    for (const auto part :
         {number_builtins(), text_builtins(), container_builtins(), tensor_builtins()})
      rows->insert(rows->end(), part.begin(), part.end());
    return rows;
  }();
  return *all;
}

}  // namespace

std::span<const Builtin> tensor_builtins() { return kRows; }
std::span<const Builtin> all_builtins() { return table(); }

const Builtin* find_builtin(std::string_view name) {
  static const auto* index = [] {
    auto* found = new std::unordered_map<std::string_view, const Builtin*>;
    for (const Builtin& b : table()) found->emplace(b.name, &b);
    return found;
  }();
  const auto found = index->find(name);
  return found == index->end() ? nullptr : found->second;
}

}  // namespace rush::jit
