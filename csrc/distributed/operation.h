// operation.h: one collective of one rank, and the engine that carries it out.
#pragma once

#include <vector>

#include "core/tensor.h"
#include "distributed/store.h"

namespace rush::distributed {

enum class Collective : uint8_t { AllReduce, Broadcast, AllGather, Barrier };
// The numbers are those of rushlight.distributed.ReduceOp.
enum class ReduceOp : uint8_t { Sum, Avg, Product, Min, Max, BitAnd, BitOr, BitXor };

RUSH_API const char* name_of(Collective c);
RUSH_API const char* name_of(ReduceOp op);

struct RUSH_API Operation {
  Collective kind = Collective::Barrier;
  ReduceOp reduce = ReduceOp::Sum;
  int root = 0;
  Tensor tensor;                // the user's; undefined for a barrier
  std::vector<Tensor> outputs;  // all_gather: one per rank, or a single one for all
  // What the engine reads and writes: contiguous memory in a type that it knows. It is the user's
  // own memory where that fits.
  Tensor buffer, gathered;
  ReduceOp engine_reduce = ReduceOp::Sum;
  int64_t number = 0;
  Milliseconds timeout{0};
};

// Checks the arguments and makes the buffers, on the thread of the caller.
RUSH_API void prepare(Operation& op, int size);
// Copies what the engine made to where the user wants it.
RUSH_API void complete(Operation& op, int size);
// "all_reduce(SUM) of float32 [4, 2]": what all ranks must agree on.
RUSH_API std::string describe(const Operation& op);

// What carries operations out: one communicator. Called by one thread at a time.
class RUSH_API Engine {
 public:
  virtual ~Engine() = default;
  virtual void start(const Operation& op) = 0;  // throws BackendError
  virtual bool done() = 0;                      // is what was started finished? Makes it progress
};

}  // namespace rush::distributed
