// builtins.h: what programs compute besides ops: numbers, strings, lists, dicts, and questions to tensors.
#pragma once

#include <span>
#include <string_view>

#include "jit/ivalue.h"

namespace rush::jit {

// An error that a program raises by itself: `raise ValueError(...)`. In Python it has the class.
class RUSH_API ScriptError : public Error {
 public:
  ScriptError(std::string class_name, std::string message, ErrorKind kind = ErrorKind::Runtime)
      : Error(kind, std::move(message)), class_name_(std::move(class_name)) {}
  const std::string& class_name() const { return class_name_; }

 private:
  std::string class_name_;
};

// Work that the machine does by itself instead of a call.
// The names are the first ones of StepCode, too.
// clang-format off
#define RUSH_QUICK_STEPS(X) \
  X(None) X(AddInt) X(SubInt) X(MulInt) X(LtInt) X(LeInt) X(GtInt) X(GeInt) X(EqInt) X(NeInt) \
  X(AddFloat) X(SubFloat) X(MulFloat) X(LtFloat) X(LeFloat) X(GtFloat) X(GeFloat) X(EqFloat) \
  X(NeFloat) X(Not) X(IntToFloat) X(ModInt) X(FloordivInt) X(NegInt) X(DivFloat) X(DivInt)
// clang-format on
#define RUSH_NAME(name) name,
enum class Quick : uint8_t { RUSH_QUICK_STEPS(RUSH_NAME) };

struct Builtin {
  const char* name;
  // "List[t], t -> None"; "..." takes everything.
  const char* signature;
  void (*run)(const IValue* const* args, size_t count, IValue& out);
  Quick quick = Quick::None;
};

RUSH_API std::span<const Builtin> all_builtins();
const Builtin* find_builtin(std::string_view name);

// Where `print` writes; the bindings put Python's stdout here.
RUSH_API void set_print(void (*print)(const std::string& text));

}  // namespace rush::jit
