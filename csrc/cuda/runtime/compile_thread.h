// compile_thread.h: compiles kernels whose sources are generated, beside the program.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "core/export.h"
#include "core/mutex.h"
#include "cuda/runtime/driver.h"

namespace rush::cuda {

// Note [Compiling beside the program]
// One thread per process compiles, or reads from the disk cache, what was asked for; meanwhile
// whoever asked does without. It starts with the first request and holds no lock while it works.
// - It touches nothing of Python's. But a process that ends has to wait for the kernel at hand
//   (tenths of a second), because the compiler and the driver must not lose their global state
//   under a thread that is inside them. An exit handler would come too late: the compiler makes
//   some of that state while it compiles, and what is made last is destroyed first. So
//   stop_compiling() runs before all exit handlers: Python calls it at the end of the interpreter,
//   and for programs in C++ the destructor of a thread-local of the main thread does.
// - A forked child has no such thread, and no GPU either: whatever it asks for is not there.
// - What cannot be compiled is remembered, and said once.
RUSH_API void stop_compiling();

struct GeneratedSource {
  std::string text, expression;  // as compile_source wants them
};

class CompileThread {
 public:
  static CompileThread& get();

  // The kernel on a device. `key` stands for what `make` writes, which is called for a new one only.
  // Null: it is not there yet (unless `wait`), or never will be.
  CUfunction find(std::string key, int device, bool wait,
                  const std::function<GeneratedSource()>& make);
  // Is nothing being compiled, and nothing waiting for it?
  bool is_idle();
  // How often a kernel was not there yet.
  uint64_t missed() const { return missed_.load(std::memory_order_relaxed); }
  void stop();

 private:
  enum class State : uint8_t { Waiting, Ready, Failed, Told };
  struct Kernel {
    State state = State::Waiting;
    CUfunction function = nullptr;
    GeneratedSource source;
    int device = 0;
    std::string error;
  };
  // A program that never repeats itself must not fill the memory with code.
  static constexpr size_t kMostKernels = 4096, kMostWaiting = 256;

  CompileThread();
  void start();
  void serve();
  static void compile(Kernel& kernel);

  Mutex mutex_{LockRank::Kernels};
  std::condition_variable_any changed_;
  std::unordered_map<std::string, std::unique_ptr<Kernel>> kernels_;
  std::deque<Kernel*> waiting_;
  bool started_ = false, watches_main_ = false, busy_ = false, ends_ = false;
  std::atomic<uint64_t> missed_{0};
  int process_;
};

}  // namespace rush::cuda
