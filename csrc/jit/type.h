// type.h: what a value of a program may be. Types are checked before anything runs, so that the
// machine need not look.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "jit/ivalue.h"

namespace rush::jit {

struct Type;
using TypePointer = std::shared_ptr<const Type>;

struct Type {
  // The first ones are kinds of values, in their order; a variable stands for any type in the
  // signature of a builtin.
  enum class Kind : uint8_t {
    None,
    Tensor,
    Bool,
    Int,
    Float,
    Str,
    DType,
    Device,
    Layout,
    MemoryFormat,
    Tuple,
    List,
    Dict,
    Object,
    Union,
    Variable
  };
  Kind kind;
  std::vector<TypePointer> items;           // Tuple, List, Dict (key, value), Object, Union
  std::string variable;                     // Variable
  std::shared_ptr<const TupleNames> names;  // a NamedTuple's, an Object's

  bool operator==(const Type& o) const;
  bool is_optional() const;  // a union with None
};

// "Dict[str, List[Tensor]]", "Optional[int]", "NamedTuple[Point; x: int; y: int]", and for classes
// "Object[Point; x: int; y: int]". Raises where the text is no type; single lower-case letters are variables where `variables` says so.
TypePointer parse_type(std::string_view text, bool variables = false);
RUSH_API std::string shown(const Type& type);

// May a value of this type stand where the other one is expected?
bool is_subtype(const Type& type, const Type& of);
// Is this value one of the type, items and all?
bool is_a(const IValue& value, const Type& type);
// The value as one of the type, from outside: an int may stand for a float, and containers are
// copied, so that nothing inside of a program has two types. `what` names it in messages.
RUSH_API IValue taken_as(const IValue& value, const Type& type, const std::string& what);
bool is_plain(const Type& type);  // a number, a string, a dtype, ...: not a container or tensor

}  // namespace rush::jit
