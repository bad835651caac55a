// graph.h: one method of a program: ops of the table, each result under a number of its own.
//
// - An instruction calls one OpEntry. Its arguments are literals, or places: results of earlier
//   instructions and inputs (values), parameters and buffers (state), tensors that the program
//   brings along (constants).
// - Values are tensors. Each number is defined once, before it is used; what is written in place
//   keeps being the tensor that it was, and its new number names the same one.
// - An instruction without results counts all the same: it may write to what it was given.
// - `verify` is the one place that knows what a well-formed graph is, and nothing runs that did not
//   pass it. Control flow is a function's (function.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "jit/ivalue.h"
#include "ops/framework/registry.h"

namespace rush::jit {

struct Place {
  enum class Kind : uint8_t { Value, State, Constant };
  Kind kind;
  uint32_t index;
  bool operator==(const Place&) const = default;
};

// A size of an input, on which numbers in the program may depend.
struct Symbol {
  uint32_t value;
  uint32_t dim;
  bool operator==(const Symbol&) const = default;
};
inline constexpr size_t kMostSymbols = 2;

// An integer that follows the sizes s and t of the graph's symbols: c[0] + c[1]s + c[2]t + c[3]st.
struct SizeInt {
  int64_t c[1 << kMostSymbols] = {};
  bool operator==(const SizeInt&) const = default;
};
// What an int, a list of ints or a whole number among Scalars is, where it follows sizes.
using SizeInts = std::vector<SizeInt>;

// Everything an argument can be that is no tensor. std::monostate is None.
using Literal =
    std::variant<std::monostate, Scalar, int64_t, std::vector<int64_t>, double, std::vector<double>,
                 bool, std::string, DType, Device, Layout, MemoryFormat, SizeInts>;
using Places = std::vector<std::optional<Place>>;  // of a list of tensors, whose holes are empty
using Argument = std::variant<Literal, Place, Places>;

// Where one result of an op goes: nowhere, to one value, or a list of tensors to one value each.
using Result = std::variant<std::monostate, uint32_t, std::vector<uint32_t>>;

// The modes that the program sets by itself; all others are the caller's.
struct Modes {
  std::optional<bool> grad;
  std::optional<DType> autocast[kDeviceTypeCount];
  bool operator==(const Modes&) const = default;
};

struct Instruction {
  const OpEntry* op = nullptr;
  std::vector<Argument> args;   // as many as op->args
  std::vector<Result> results;  // as many as op->num_results
  Modes modes;
  // By verify:
  std::vector<uint32_t> last_uses;  // values that nobody reads after it
  std::vector<Tensor> numbers;      // of each argument: a number as the tensor that it stands for
  bool plain = true;                // it sets no mode
};

// How tensors are packed in an input or in the output.
struct Structure {
  IValue::Kind kind = IValue::Kind::None;
  Place place{};                  // Tensor; of an input always a value
  std::vector<Structure> items;   // Tuple, List, Dict
  std::vector<std::string> keys;  // Dict
};

struct Input {
  std::string name;
  Structure structure;
};

struct Graph {
  std::vector<Input> inputs;
  std::vector<Symbol> symbols;
  std::vector<Instruction> body;
  Structure output;
  uint32_t num_values = 0;
  // Of recordings (recorder.h), else empty: the line of each instruction, for messages, and of each
  // value the sizes that it must have in every run.
  std::vector<SourcePoint> lines;
  std::vector<Dims> sizes;
};

// A copy of what a Value of no tensor holds.
Literal literal_of(const Value& v);
// The entry of the table, or null.
const OpEntry* find_entry(std::string_view name, std::string_view overload, Form form);
// Is this what a parameter takes?
bool takes(const ArgSpec& spec, const Argument& argument);

// Is it one that a program may call?
RUSH_API bool may_be_called(const OpEntry& entry);

// Checks all that the interpreter relies on, and works out the last uses. `method` is for messages.
// `any_op`: ops that Python cannot call may be called, for a graph that is no file's.
void verify(Graph& graph, const std::string& method, size_t num_state, size_t num_constants,
            bool any_op = false);

inline constexpr int kMostNesting = 32;  // of structures

}  // namespace rush::jit
