// operation.h: one collective or message of one rank, and the engine that carries it out.
#pragma once

#include <vector>

#include "core/tensor.h"
#include "distributed/store.h"

namespace rush::distributed {

// The numbers are those of rushlight/distributed/_groups.py. Send and Recv concern two
// ranks; all others are collectives, which all ranks of a group issue in one order.
enum class Collective : uint8_t {
  AllReduce,
  Broadcast,
  AllGather,
  Barrier,
  Reduce,
  Gather,
  Scatter,
  ReduceScatter,
  AllToAll,
  Send,
  Recv
};
// The numbers are those of rushlight.distributed.ReduceOp.
enum class ReduceOp : uint8_t { Sum, Avg, Product, Min, Max, BitAnd, BitOr, BitXor };

inline constexpr int kAnySource = -1;

RUSH_API const char* name_of(Collective c);
RUSH_API const char* name_of(ReduceOp op);

struct RUSH_API Operation {
  Collective kind = Collective::Barrier;
  ReduceOp reduce = ReduceOp::Sum;
  int root = 0;  // of send and recv: the other rank, or kAnySource; then, who sent
  int tag = 0;
  int rank = 0;     // this one, in the group
  int device = -1;  // the GPU on which it runs; -1: the host
  // The user's tensors. Where a kind has one part per rank, one tensor holds all of them behind
  // each other, or each has a tensor. all_reduce, reduce and broadcast work in place.
  std::vector<Tensor> inputs, outputs;
  // all_to_all: how many elements go to each rank, and come from each.
  std::vector<int64_t> input_counts, output_counts;
  // What the engine reads and writes: contiguous memory in a type that it knows. It is the user's
  // own memory where that fits; undefined where this rank sends or receives nothing.
  Tensor sent, received;
  ReduceOp engine_reduce = ReduceOp::Sum;
  int64_t number = 0;
  Milliseconds timeout{0};

  bool is_message() const { return kind >= Collective::Send; }
  bool adds() const {
    return kind == Collective::AllReduce || kind == Collective::Reduce ||
           kind == Collective::ReduceScatter;
  }
  bool has_root() const {
    return kind == Collective::Broadcast || kind == Collective::Reduce ||
           kind == Collective::Gather || kind == Collective::Scatter;
  }
  bool at_root() const { return rank == root; }
  DType dtype() const { return inputs.empty() ? outputs.at(0).dtype() : inputs[0].dtype(); }
};

// Checks the arguments, says on which device it runs, and makes the buffers, on the thread of the
// caller.
RUSH_API void prepare(Operation& op, int size);
// What the only rank of a group sends, it receives.
RUSH_API void copy_to_itself(Operation& op);
// Copies what the engine made to where the user wants it.
RUSH_API void complete(Operation& op, int size);
// "all_reduce(SUM) of float32 [4, 2]": what all ranks must agree on.
RUSH_API std::string describe(const Operation& op);

// An engine's error that says what is wrong: it is no echo of another rank's.
class RUSH_API KnownFault : public BackendError {
 public:
  using BackendError::BackendError;
};

// An operation on its way. One that is dropped before it is done may still be read and written by
// the engine: whoever drops it keeps the memory.
class RUSH_API Transfer {
 public:
  virtual ~Transfer() = default;
  virtual bool done() = 0;  // makes it progress; throws BackendError
};

// What carries operations out: one communicator. Collectives are started by one thread at a time,
// and one after the other; messages by any thread, at any time.
class RUSH_API Engine {
 public:
  virtual ~Engine() = default;
  // The operation stays where it is until the transfer is done or dropped. Throws BackendError.
  virtual std::unique_ptr<Transfer> start(Operation& op) = 0;
};

}  // namespace rush::distributed
