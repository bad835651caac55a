// custom_schema.h: the signature of an operator that a user defines, as text and as data:
// "muladd(Tensor a, Tensor b, float c=1.) -> Tensor". PyTorch's grammar, as far as the table of ops
// has kinds for it.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "ops/framework/registry.h"

namespace rush {

// The default of a parameter; std::monostate is None.
using CustomDefault = std::variant<std::monostate, Scalar, std::vector<int64_t>,
                                   std::vector<double>, std::string, DType, Device, MemoryFormat>;

struct CustomParameter {
  std::string name;
  ArgKind kind = ArgKind::Tensor;
  bool bools = false;  // bool[]: Ints that Python sees as bools
  bool optional = false;
  bool holes = false;  // Tensor?[]
  bool keyword_only = false;
  bool mutated = false;  // Tensor(a!)
  std::string alias;     // "a" of Tensor(a!) and Tensor(a)
  uint8_t broadcast = 0;
  bool has_default = false;
  CustomDefault default_value;
  std::string default_text;
};

struct CustomResult {
  ArgKind kind = ArgKind::Tensor;
  bool optional = false;
  std::string name, alias;
  int returned = -1;  // Tensor(a!): the parameter that comes back, or -1
};

struct RUSH_API CustomSchema {
  std::string space, name, overload;  // "mylib", "muladd", ""
  std::vector<CustomParameter> parameters;
  std::vector<CustomResult> results;

  // Raises a RuntimeError with the place in the text where it cannot be read.
  static CustomSchema parse(std::string_view text);
  std::string qualified() const { return space + "::" + name; }
  std::string text() const;  // as PyTorch prints it, with the namespace
  bool mutates() const;
};

// "Tensor?", "int[2]", "bool[]": the type as the grammar spells it.
RUSH_API std::string type_text(const CustomParameter& parameter);
RUSH_API std::string type_text(const CustomResult& result);

}  // namespace rush
