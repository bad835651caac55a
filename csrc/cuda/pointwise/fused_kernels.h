// fused_kernels.h: compiles the kernels of fused steps beside the program.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>

#include "core/mutex.h"
#include "cuda/pointwise/fused_source.h"
#include "cuda/runtime/driver.h"

namespace rush::cuda {

// Note [Compiling beside the program]
// One thread per process compiles, or reads from the disk cache, what was asked for; meanwhile the
// steps run one by one. It starts with the first request and holds no lock while it works.
// - It touches nothing of Python's, so an interpreter that ends need not wait for it. The process
//   does: an exit handler waits for the kernel at hand (tenths of a second), because the compiler
//   and the driver must not lose their global state under a thread that is inside them.
// - A forked child has no such thread, and no GPU either: whatever it asks for is not there.
// - What cannot be compiled is remembered, and said once.
class FusedKernels {
 public:
  static FusedKernels& get();

  // The kernel of a work on a device. Null: it is not there yet, or never will be.
  CUfunction find(const FusedWork& work, const FusedForm& form, int device);

 private:
  enum class State : uint8_t { Waiting, Ready, Failed, Told };
  struct Kernel {
    State state = State::Waiting;
    CUfunction function = nullptr;
    FusedSource source;
    int device = 0;
    std::string error;
  };
  // A program that never repeats itself must not fill the memory with code.
  static constexpr size_t kMostKernels = 4096, kMostWaiting = 256;

  FusedKernels();
  void start();
  void serve();
  void stop_at_exit();
  static void compile(Kernel& kernel);

  Mutex mutex_{LockRank::Kernels};
  std::condition_variable_any changed_;
  std::unordered_map<std::string, std::unique_ptr<Kernel>> kernels_;
  std::deque<Kernel*> waiting_;
  bool started_ = false, busy_ = false, ends_ = false;
  int process_;
};

}  // namespace rush::cuda
