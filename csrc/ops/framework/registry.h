// registry.h: the table of operators at run time, filled by generated code from csrc/ops/*.yaml.
//
// Every overload of every op is one OpEntry: its schema and its boxed function. The bindings, the
// interceptors, the JIT and the C++ by-name call all read this one table.
#pragma once

#include <span>
#include <string_view>

#include "ops/framework/value.h"

namespace rush {

// The kind of one parameter, as the table's signatures spell it.
enum class ArgKind : uint8_t {
  Tensor,   // "Tensor"
  Operand,  // "Operand": a tensor, or a number that becomes a weak 0-d tensor
  Tensors,  // "Tensor[]"
  Scalar,   // "Scalar": a Python number (a 0-d tensor is read)
  Int,      // "int"
  Ints,     // "int[]": a sequence of ints; with `broadcast` one int stands for [int]
  Float,    // "float"
  Floats,   // "float[]"
  Bool,     // "bool"
  String,   // "str"
  DType,
  Device,
  Layout,
  MemoryFormat,
  Generator,
};

enum class DefaultKind : uint8_t { Required, None, Value };

struct ArgSpec {
  const char* name;
  ArgKind kind;
  bool optional;  // None is accepted
  bool keyword_only;
  uint8_t broadcast;  // int[N]: a single int is accepted and stands for N of them; 0: it is not
  bool holes;         // Tensor?[]: an element may be None, and is then undefined
  DefaultKind default_kind;
  const char* default_text;  // as in the table, for stubs and messages
  Value (*make_default)();   // null when there is none, or when it is None
};

enum class Form : uint8_t { Functional, InPlace, Out };
// How the block is written; see docs/adding_an_op.md.
enum class OpKind : uint8_t { Compute, View, Composite, Mutate };

// What mixed precision does with the floating arguments of an op; see ops/autocast/autocast.h.
enum class AutocastPolicy : uint8_t {
  None,             // the op runs as it is
  LowerPrecision,   // floating arguments become float16 or bfloat16
  Float32,          // they become float32
  Float32ByOption,  // `dtype` is set to float32 where the caller left it open
  Widest,           // they get the widest dtype among them
};

class BatchedCall;  // ops/vmap/vmap.h
using BatchingRule = void (*)(BatchedCall&);

// A number about a call that has returned, from its arguments and results; see ops/framework/cost.h.
using CostFormula = int64_t (*)(const Value* args, const Value* results);

struct OpEntry {
  const char* name;      // "add", "add_"; what the user calls
  const char* overload;  // "" or a suffix that tells overloads apart: "dim"
  Form form;
  OpKind kind;
  bool pointwise;            // runs one formula on each element
  bool is_method;            // reachable as Tensor.name
  bool is_function;          // reachable as rushlight.name
  bool varargs;              // f(2, 3) may stand for f((2, 3)): the first int[] takes the rest
  bool hidden;               // an old spelling: accepted, but not shown
  uint8_t self_index;        // where a method call puts its object among the args
  uint8_t num_results;       // 1 for a Tensor, a list or a number; more for tuples
  const char* result_names;  // "values indices" for named tuples, else ""
  const char* doc;
  // In-place: args[0] is self. Out: the last one is `out`, a list where there are several results.
  std::span<const ArgSpec> args;
  // Reads args (as many as `args`), writes results. Throws rush::Error. The results of in-place and
  // out forms borrow the argument: whoever keeps them longer than the arguments takes a count.
  void (*boxed)(Value* args, Value* results);
  const void* block;  // the address of block_id of the row's block: which nodes are this row's
  AutocastPolicy autocast[kDeviceTypeCount] = {};  // by DeviceType
  BatchingRule batch;        // how vmap runs it (vmap/batch_rules.h); null: see Vmap::call
  CostFormula flops, bytes;  // null: no arithmetic of its own; all bytes of arguments and results
};

// Each block of csrc/ops has an address of its own here.
template <class Op>
inline constexpr char block_id = 0;

RUSH_API std::span<const OpEntry> all_ops();
// The overloads of a name, adjacent in the table; empty when there is none.
RUSH_API std::span<const OpEntry> find_ops(std::string_view name);

// The by-name call, for the JIT and C++ programs: picks the overload that fits, checks the count
// and kinds.
RUSH_API std::vector<Value> call_by_name(std::string_view name, std::span<Value> args);

// What runs instead of the op while a bit of kSlowPath is set; calls `next` to go on.
struct Interceptor {
  virtual ~Interceptor() = default;
  // Called with the interceptors below it active; may call entry.boxed(args, results).
  virtual void call(const OpEntry& entry, Value* args, Value* results) = 0;
};
RUSH_API void push_interceptor(Interceptor* i);  // on this thread
RUSH_API void pop_interceptor(Interceptor* i);
RUSH_API void run_intercepted(const OpEntry& entry, Value* args, Value* results);
// For an interceptor that leaves a call as it is: runs the op itself, with `self` still active for
// the ops that the op calls.
RUSH_API void run_under(Interceptor* self, const OpEntry& entry, Value* args, Value* results);
// Is any of them active on this thread? (kIntercept is set under autocast as well, which is none.)
RUSH_API bool any_interceptor();

// In its scope an interceptor that is running is active again, for the ops it calls.
class RUSH_API ActiveAgain {
 public:
  explicit ActiveAgain(Interceptor* self);
  ~ActiveAgain();
  ActiveAgain(const ActiveAgain&) = delete;
  ActiveAgain& operator=(const ActiveAgain&) = delete;

 private:
  size_t saved_;
};

// What is told of every op of a thread and changes none; csrc/trace/stream.h is the one there is.
// It is no interceptor: it may come and go at any time, is told of a call before anything changes
// it, and code that asks for kIntercept runs as if nobody looked.
struct OpObserver {
  virtual ~OpObserver() = default;
  virtual void observe(const OpEntry& entry, Value* args, Value* results) = 0;
};
RUSH_API void set_observer(OpObserver* o);  // of this thread; null: none
// For the observer: runs the op, with all that is installed on this thread.
RUSH_API void run_observed(const OpEntry& entry, Value* args, Value* results);

// Asked by each op while a bit of kSlowPath is set: false for the one that run_under or
// run_observed runs.
RUSH_API bool is_intercepted(const OpEntry& entry);

}  // namespace rush
