// tracer.h: makes a graph of what a thread does: the outermost ops of the table that it calls.
//
// Note [What a trace knows a tensor by]
// By its identity: the inputs, the parameters and buffers, and every result of a recorded op are
// kept alive while the trace lasts, so an address stands for one tensor. What else turns up was
// made without an op of the table:
// - A number next to a tensor is a literal.
// - Memory that belongs to a tensor of the trace (`.data`, as_subclass): that tensor, detached
//   where the new one has no gradient, or a strided view of it.
// - Everything else is a constant, with the values that it had when it was first seen. A constant
//   that is written to is copied first, so that each run starts as this one did.
// What would run wrong later raises: a result of backward, of vmap, a constant with a gradient.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "jit/code.h"
#include "trace/stream.h"

namespace rush::jit {

// Something to say about a line of the traced program.
struct TraceNote {
  std::string text;
  SourcePoint at;
};

// Lives in a shared pointer, as listeners do.
class RUSH_API Tracer final : public StreamListener, public std::enable_shared_from_this<Tracer> {
 public:
  // `code` has the state already, and what methods were traced before.
  Tracer(Code code, std::span<const Tensor> state);
  ~Tracer() override;

  // Before the start: one argument of the function; what to call it with instead. (A tensor that is
  // there twice must become two.)
  IValue add_input(const std::string& name, const IValue& value);
  void start();
  void stop();
  // After the stop: the code with the new method. Raises where the trace cannot be right.
  CodePointer finish(const std::string& method, const IValue& output);

  const std::vector<TraceNote>& warnings() const { return warnings_; }
  // Of each instruction so far: the line of the program that called the op.
  const std::vector<SourcePoint>& lines() const { return lines_; }
  // The number of the value that this tensor is now; none where it is no value of the trace.
  std::optional<uint32_t> value_of(const Tensor& t) const;
  const std::vector<Dims>& value_sizes() const {
    return sizes_;
  }  // of each value, when it was made
  bool inside_op() const { return ops_ > 0; }
  void value_read(const Tensor& t, const char* as);
  void refuse(std::string why, SourcePoint at);
  // Around a call of a program that keeps its own control flow: the ops inside are not recorded. An
  // instruction stands for it (kCallOp), from the tensors that go in to those that come out; whoever
  // finishes the trace puts the call in its place. False: the call is inside of an op, and its
  // business.
  bool begin_call(std::span<const Tensor> inputs);
  void end_call(std::span<const Tensor> outputs);
  void drop_call();

  void* enter_thread(uint32_t) noexcept override;
  void* begin(void* thread, const StreamEvent& event) noexcept override;
  void end(void* thread, void* begun, const StreamEvent& event) noexcept override;

 private:
  using Geometries = std::vector<Tensor>;  // the tensors of the trace over one storage

  Structure input_structure(const IValue& value, IValue& given);
  Structure output_structure(const IValue& value);
  void know(const Tensor& t, Place place);
  Place place_of(const Tensor& t);
  Place place_of_unknown(const Tensor& t);
  std::optional<Place> place_of_alias(const Tensor& t, const Geometries& over);
  Place constant(const Tensor& t);
  uint32_t define(const Tensor& t, bool varies);
  bool varies(const Place& place) const;
  bool varies(const Instruction& instruction) const;
  uint32_t emit(std::string_view op, std::vector<Argument> args, const Tensor& result);
  void own_constants(const OpEntry& entry, const Value* args);
  Modes modes_of(const StreamEvent& event) const;
  Argument argument(const OpEntry& entry, const ArgSpec& spec, const Value& v);
  void begin_op(const StreamEvent& event);
  void end_op(const StreamEvent& event);

  void add(Instruction instruction, SourcePoint at);

  Code code_;
  Graph graph_;
  std::vector<SourcePoint> lines_;
  std::unordered_map<const TensorImpl*, Place> places_;
  std::unordered_map<const Storage*, Geometries> storages_;
  std::vector<Tensor> kept_;
  std::vector<Dims> sizes_;
  std::vector<bool> varies_;  // of each value: does it depend on more than constants?
  std::vector<TraceNote> warnings_;
  std::optional<TraceNote> refusal_;
  std::optional<Instruction> pending_, call_;
  std::thread::id thread_;
  uint32_t outer_modes_ = 0;
  int ops_ = 0, nodes_ = 0;  // under way
  bool running_ = false;
};

// The op whose instructions stand for calls of programs: from a list of tensors to a list.
inline constexpr const char* kCallOp = "_list_clone";

// Is this thread being traced?
RUSH_API bool is_tracing();
RUSH_API Tracer* tracer_of_this_thread();
// For what a trace cannot follow: raises if this thread is being traced.
RUSH_API void check_not_tracing(const char* function, const char* why);

}  // namespace rush::jit
