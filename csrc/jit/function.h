// function.h: a function with control flow, as jit.script makes it.
//
// - A function has typed locals, the first of which are its inputs, and a body: a list of
//   statements, some of which own lists themselves (if, loop, with).
// - A local may be written many times, always with values of its type; `verify` knows for every
//   read that it was written before.
// - Functions call functions that stand before them: no function calls itself, and calls are at
//   most kMostCalls deep.
// - What runs is made of it by `prepare` (machine.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "jit/builtins.h"
#include "jit/graph.h"
#include "jit/type.h"

namespace rush::jit {

// What a statement reads.
struct Operand {
  enum class Kind : uint8_t { Local, Value, State, Constant, Attribute, List };
  Kind kind = Kind::Value;
  uint32_t index = 0;          // Local, State, Constant (a tensor), Attribute
  IValue value;                // Value: a number, a string, ...; not a tensor, not a container
  std::vector<Operand> items;  // List: one that an op is given
};

inline constexpr uint32_t kNowhere = UINT32_MAX;

struct Statement {
  enum class Kind : uint8_t {
    Builtin,
    Op,
    Call,
    If,
    Loop,
    Break,
    Continue,
    Return,
    Raise,
    Move,
    SetState,
    SetAttribute,
    Make,
    Cast,
    With
  };
  Kind kind;
  const Builtin* builtin = nullptr;  // Builtin
  const OpEntry* op = nullptr;       // Op; args are as many as op->args
  uint32_t index = 0;                // Call: the function; SetState, SetAttribute: which one
  std::string error;                 // Raise: the class
  std::vector<Operand> args;
  std::vector<uint32_t> to;  // locals; kNowhere: the result is not wanted
  std::vector<Statement> body, orelse;
  Modes modes;        // With
  uint32_t line = 0;  // in the function's file; 0: not known
};

struct Machine;

struct Function {
  struct Input {
    std::string name;
    std::optional<Operand> standard;  // what it is when the caller leaves it out
  };
  std::string name, file;
  bool is_method = false;  // reachable from outside under its name
  std::vector<Input> inputs;
  std::vector<TypePointer> locals;
  TypePointer result;
  std::vector<Statement> body;
  // By prepare:
  std::shared_ptr<const Machine> machine;
};

// A value of a module that is no tensor, or that is a tensor under no fixed name: it is kept from
// call to call.
struct AttributeEntry {
  std::string name;
  TypePointer type;
  IValue value;  // as it was when the program was made
};

inline constexpr int kMostCalls = 200, kMostBlocks = 100;

struct Code;
// Checks all that the machine relies on; raises where something does not fit.
void verify_functions(const Code& code);
// The result types of a table op, by position.
RUSH_API std::vector<TypePointer> result_types(const OpEntry& op);
// May a value of this type be given for the parameter?
bool takes(const ArgSpec& spec, const Type& type);

}  // namespace rush::jit
