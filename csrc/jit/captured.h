// captured.h: a recording (recorder.h) as graphs of its device: replays of it queue these instead of
// running ops.
//
// Note [Recordings as device graphs]
// - A recording is cut into parts. What touches the host (a step count in host memory, a batch that
//   is uploaded), or a number that changes from call to call (a learning rate), runs *beside* the
//   graphs, by the interpreter, in every call; everything between becomes one graph each.
// - Capturing is a call as any other: each part is recorded, and queued at once. So whatever goes
//   wrong, the rest of the call runs by the interpreter; the part that failed is undone on the host,
//   where alone it had any effect.
// - A graph has addresses in it. Those of parameters and other state are compared at each call.
//   Arguments are read where they lie, until one turns up somewhere else: from then on it is copied
//   to a place of its own (and back, where the function writes to it).
// - What a call returns is copied out of the graphs' memory into fresh memory. Gradients stay there:
//   they are the .grad of parameters until the next call, as they are without graphs. If somebody
//   else holds one then, the recording is captured anew, and the old memory stays with its holder.
// - The host's side of a call (versions, .grad, the state of random numbers) is repeated at each replay.
// - Graphs of one function share their memory, which only one call may use at a time. A second thread
//   runs the interpreter; another stream waits for the last one.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/graph.h"
#include "device/runtime.h"
#include "jit/recorder.h"

namespace rush::jit {

// Whether recordings become graphs at all: config.frozen_graphs.
RUSH_API bool frozen_graphs();
RUSH_API void set_frozen_graphs(bool on);

// What the recordings of one function have in common.
struct CaptureMemory {
  std::atomic<bool> busy{false};
  int64_t name = 0;              // of the device's memory; 0: none yet
  DeviceStream* last = nullptr;  // on which it was used
};

class RUSH_API Captured {
 public:
  // `varying`: instructions with a number that is an input. `defers`: pointwise ops wait for each
  // other, as they do in the function. Both refer to what must outlive this.
  Captured(const Recording& recording, std::vector<size_t> varying, bool defers,
           std::shared_ptr<CaptureMemory> memory);
  ~Captured();

  // Has the recording anything that a graph could hold?
  bool applies() const { return device_.has_value(); }
  // What the recording gives for these inputs; by graphs, or nothing: it has to be run by the
  // interpreter. `graph` is the recording's, with the numbers of this call.
  std::optional<std::vector<Tensor>> run(const Graph& graph, const std::vector<Tensor>& inputs);

  // For people: what there is, or why there is nothing. Not while a call is under way.
  std::string about() const;
  bool is_captured() const { return captured_; }
  int64_t replays() const { return replays_; }  // calls by graphs
  // Gives up the graphs and their memory. False: they are in use.
  bool try_drop();

 private:
  struct Bump {
    enum class Of : uint8_t { State, Input, Grad } of;
    size_t index;
    uint32_t times;
  };
  struct GradAfter {
    size_t state;
    Tensor grad;
  };
  struct Part {
    size_t first, last;  // instructions
    bool beside;
    std::unique_ptr<DeviceGraph> graph;
    std::vector<std::pair<uint32_t, Tensor>> entering;  // values from beside, and their places
    std::vector<Bump> bumps;
    std::vector<GradAfter> grads;
  };
  // A gradient in the graphs' memory, and how often we ourselves refer to it.
  struct Owned {
    Tensor grad;
    size_t state;
    uint32_t tensor_count, storage_count;
  };
  struct Output {
    enum class Kind : uint8_t { Input, State, OfInput, OfState, Fresh, Beside, Held } kind;
    size_t index = 0;  // of the input, the state, or the value
    Tensor model;      // what the capture gave
    Ref<Node> node;    // its history, which holds nothing any more
    uint32_t slot = 0;
    int64_t before = -1;  // an earlier output that shares its memory
  };
  struct HostState {  // of the tensors in the recording's state
    std::vector<Tensor> grads;
    std::vector<uint32_t> versions, grad_versions;
    std::vector<uint32_t> input_versions;
  };
  enum class Fit : uint8_t { Yes, NotNow, Anew };

  // captured_parts.cpp
  void plan();
  bool runs_beside(size_t instruction) const;
  std::vector<bool> grads_read() const;
  std::string obstacle(const std::vector<Tensor>& inputs) const;

  // captured.cpp
  Fit fits(const std::vector<Tensor>& inputs);
  std::vector<Tensor> capture(const Graph& graph, const std::vector<Tensor>& inputs);
  std::vector<Tensor> replay(const Graph& graph, const std::vector<Tensor>& inputs);
  void place_inputs(const std::vector<Tensor>& inputs);
  void keep_for(const Part& part);
  void enter(Part& part);
  bool capture_part(Part& part, const Graph& graph);
  void check_backward(const Part& part, size_t instruction) const;
  void run_beside(const Part& part, const Graph& graph);
  void run_ops(const Graph& graph, size_t first, size_t last);
  HostState look() const;
  void undo(const HostState& before) const;
  void note_effects(Part& part, const HostState& before);
  void repeat_effects(const Part& part, const std::vector<Tensor>& inputs) const;
  void write_back(const std::vector<Tensor>& inputs) const;
  void note_owned();
  void order_streams();
  void drop();
  void give_up(std::string why);

  // captured_outputs.cpp
  bool plan_outputs();
  std::string plan_output(const Place& place, Output& output) const;
  std::vector<Tensor> outputs(const std::vector<Tensor>& inputs) const;
  void let_outputs_go();
  std::vector<Tensor> plain_outputs(const std::vector<Tensor>& inputs) const;
  Tensor fresh(const Output& output) const;
  void finish(const Tensor& out, const Output& output) const;

  const Recording& recording_;
  const std::vector<size_t> varying_;
  const bool defers_;
  const std::shared_ptr<CaptureMemory> memory_;
  std::optional<Device> device_;
  std::string refused_;  // why it is not captured, and will not be
  // Read by others while a call is under way; the rest is touched with memory_->busy only.
  std::atomic<bool> captured_{false};
  bool provisional_ = false;      // something ran step by step, for its code was not there yet
  int improved_ = 0;              // captures that were provisional, one after the other
  int captures_ = 0, since_ = 0;  // how often it was captured, and replays since the last time
  std::atomic<int64_t> replays_{0};
  uint64_t switches_ = 0;

  std::vector<Part> parts_;
  std::vector<bool> from_beside_;  // of each value: made beside the graphs
  std::vector<void*> state_at_;
  std::vector<void*> grad_at_;          // of state whose .grad is read; null: it does not matter
  std::vector<bool> copied_, written_;  // of each input
  std::vector<void*> input_at_;         // where it was, or what is aligned as it was
  std::vector<Tensor> statics_;         // of copied inputs
  std::vector<std::pair<uint32_t, Tensor>> kept_;  // values of graphs that are used beside them
  std::vector<Owned> owned_;
  std::vector<Output> outputs_;
  std::vector<Tensor> values_;  // of the call under way
  std::vector<Tensor> inputs_;  // as the call under way sees them
};

}  // namespace rush::jit
