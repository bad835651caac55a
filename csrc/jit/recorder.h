// recorder.h: what one call of a function does, as a graph that can be run in its place: frozen
// replay (rushlight/compiler/_frozen.py).
//
// Unlike a trace (tracer.h), which becomes a program for elsewhere, a recording stays beside the
// function that it was made of, and does to the world what the function does:
// - Tensors that are neither inputs nor results are the function's own (parameters, globals): the
//   graph holds these very tensors as its state. Whoever runs it has checked that the function
//   would still find them.
// - backward, .grad and requires_grad are instructions (ops/framework/gradients.yaml).
// - Tensors that were made of Python's numbers are constants, and each run makes new ones.
// - Whatever cannot be repeated that way ends the recording with a reason, never with an error: the
//   function goes on in Python as if nobody had looked.
//
// Note [What a recording keeps alive]
// A tensor is known by its address, so all that turn up live until the recording is dropped: a
// recorded call needs the memory of all its results together.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "jit/graph.h"
#include "trace/stream.h"

namespace rush::jit {

// What of a tensor decides which way a program takes, besides what its ops compute.
struct TensorFacts {
  Dims sizes, strides;
  DType dtype;
  Device device;
  uint8_t flags;  // requires a gradient, is a leaf, has a gradient, was made in inference mode
  bool operator==(const TensorFacts&) const = default;
};
RUSH_API TensorFacts facts_of(const Tensor& t);
RUSH_API bool has_facts(const Tensor& t, const TensorFacts& facts);  // the same, without a copy
RUSH_API std::string shown(const TensorFacts& facts);

struct Recording {
  Graph graph;  // verified
  std::vector<Tensor> state;
  std::vector<TensorFacts> state_facts;  // when each was met
  std::vector<SourcePoint> state_met;
  std::vector<Tensor> constants;
  std::vector<std::optional<Device>> devices;  // of each value; none where there is no tensor
};

class RUSH_API Recorder final : public StreamListener,
                                public std::enable_shared_from_this<Recorder> {
 public:
  // `reachable`: tensors that the function is known to be able to find.
  Recorder(std::vector<Tensor> inputs, std::unordered_set<const TensorImpl*> reachable);
  ~Recorder() override;

  void start();
  void stop();
  bool ended() const { return !reason_.empty(); }
  bool inside_op() const { return ops_ > 0 || nodes_ > 0; }
  const std::string& reason() const { return reason_; }
  void refuse(std::string why, SourcePoint at);
  void made(const Tensor& t);  // of Python's numbers
  void value_read(const char* as);

  // After the stop. What `outputs` are becomes the graph's output, a tuple; not if it has ended.
  Recording finish(const std::vector<Tensor>& outputs);
  // The tensors made meanwhile.
  const std::vector<Tensor>& results() const { return results_; }
  SourcePoint line_of(const Tensor& result) const;

  void* enter_thread(uint32_t) noexcept override;
  void* begin(void* thread, const StreamEvent& event) noexcept override;
  void end(void* thread, void* begun, const StreamEvent& event) noexcept override;

 private:
  void know(const Tensor& t, Place place);
  uint32_t define(const Tensor& t);
  Place place_of(const Tensor& t);
  std::optional<Place> place_of_alias(const Tensor& t);
  uint32_t emit(std::string_view op, std::vector<Argument> args, const Tensor& result);
  Argument argument(const Value& v);
  bool modes_fit(const StreamEvent& event, Modes& modes);
  void unless_it_fails(const StreamEvent& event,
                       void (Recorder::*step)(const StreamEvent&)) noexcept;
  void begin_op(const StreamEvent& event);
  void end_op(const StreamEvent& event);

  Recording recording_;
  std::unordered_map<const TensorImpl*, Place> places_;
  std::unordered_map<const TensorImpl*, SourcePoint> born_;
  std::unordered_set<const TensorImpl*> reachable_;
  std::vector<Tensor> inputs_, results_;
  std::string reason_;
  std::optional<Instruction> pending_;
  std::thread::id thread_;
  uint32_t outer_modes_ = 0;
  bool outer_autocast_[kDeviceTypeCount] = {};
  DType outer_autocast_dtype_[kDeviceTypeCount] = {};
  int ops_ = 0, nodes_ = 0;  // under way
  bool running_ = false;
};

// The recorder of this thread, or null.
RUSH_API Recorder* recorder_here();
// For what no recording can repeat: ends the one of this thread, if there is one.
RUSH_API void end_recording(const char* what);
// Values left the tensors, as what: ends the recording, too.
void tell_recorder(const char* as);
// A tensor was made of Python's numbers.
RUSH_API void note_made(const Tensor& t);

// Where two recordings of one function part.
struct Parting {
  size_t at = 0;  // the instruction; as many as there are: the outputs or the constants differ
  std::string how;
};
// A number with a fraction that two recordings have in the same place, with different values.
struct FloatPlace {
  size_t instruction, argument, item;
  double one, other;
};
// Nothing where both do the same. With `floats`, such numbers may differ, and are listed there.
RUSH_API std::optional<Parting> compare(const Recording& one, const Recording& other,
                                        std::vector<FloatPlace>* floats);
RUSH_API void set_float(Graph& graph, const FloatPlace& place, double value);

}  // namespace rush::jit
