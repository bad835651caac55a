#include "cuda/runtime/compile_thread.h"

#include <cxxabi.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <system_error>
#include <thread>

#include "core/error.h"
#include "core/interrupt.h"
#include "core/warn.h"
#include "cuda/runtime/capture.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/kernel_cache.h"

extern "C" void* __dso_handle;

namespace rush::cuda {

namespace {

constinit std::atomic<bool> g_forked{false};
constinit std::atomic<CompileThread*> g_made{nullptr};

}  // namespace

void stop_compiling() {
  if (CompileThread* kernels = g_made.load()) kernels->stop();
}

CompileThread& CompileThread::get() {
  // For good: its thread may outlive everything else.
  static CompileThread& kernels = *new CompileThread;
  return kernels;
}

CompileThread::CompileThread() : process_(getpid()) {
  pthread_atfork(nullptr, nullptr, [] { g_forked.store(true, std::memory_order_relaxed); });
  g_made.store(this);
}

// Under the lock.
void CompileThread::start() {
  // exit() begins with what the thread that calls it has registered for its own end. (A thread-local
  // variable would do so, too, and take from the little room there is for those.)
  if (!watches_main_ && gettid() == getpid()) {
    watches_main_ = true;
    abi::__cxa_thread_atexit([](void*) { stop_compiling(); }, nullptr, &__dso_handle);
  }
  if (started_ || ends_) return;
  started_ = true;
  // Signals are for the program's own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread([this] { serve(); }).detach();
  } catch (const std::system_error&) {
    ends_ = true;  // no thread is to be had: steps stay single
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void CompileThread::compile(Kernel& kernel) {
  const CachedKernel code =
      find_generated_kernel("generated.cu", kernel.source.text, kernel.source.expression,
                            device_info(kernel.device).arch());
  bind(kernel.device);
  // Another thread may begin to capture a graph at any time.
  CUcaptureMode mode = kCaptureRelaxed;
  driver().ThreadExchangeCaptureMode(&mode);
  CUmodule module = nullptr;
  must(driver().ModuleLoadData(&module, code.cubin.data()), "cuda");
  must(driver().ModuleGetFunction(&kernel.function, module, code.name.c_str()), "cuda");
}

void CompileThread::serve() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    if (waiting_.empty()) {
      changed_.wait(lock);
      continue;
    }
    Kernel& kernel = *waiting_.front();
    waiting_.pop_front();
    busy_ = true;
    lock.unlock();
    std::string error;
    try {
      compile(kernel);
    } catch (const std::exception& e) {
      error = e.what();
    }
    lock.lock();
    busy_ = false;
    kernel.error = std::move(error);
    kernel.state = kernel.function ? State::Ready : State::Failed;
    kernel.source = {};
    changed_.notify_all();
  }
}

bool CompileThread::is_idle() {
  std::lock_guard lock(mutex_);
  return ends_ || (!busy_ && waiting_.empty());
}

void CompileThread::stop() {
  if (getpid() != process_) return;
  std::unique_lock lock(mutex_);
  ends_ = true;
  changed_.notify_all();
  changed_.wait(lock, [&] { return !busy_; });
}

CUfunction CompileThread::find(std::string key, int device, bool wait,
                               const std::function<GeneratedSource()>& make) {
  if (g_forked.load(std::memory_order_relaxed)) return nullptr;
  key.push_back(char(device));
  std::unique_lock lock(mutex_);
  auto found = kernels_.find(key);
  if (found == kernels_.end()) {
    start();
    if (ends_ || kernels_.size() == kMostKernels || waiting_.size() == kMostWaiting) return nullptr;
    auto fresh = std::make_unique<Kernel>();
    fresh->source = make();
    fresh->device = device;
    waiting_.push_back(fresh.get());
    found = kernels_.emplace(std::move(key), std::move(fresh)).first;
    changed_.notify_all();
  }
  Kernel& kernel = *found->second;
  while (wait && !ends_ && kernel.state == State::Waiting) {
    changed_.wait_for(lock, kInterruptInterval);
    lock.unlock();
    check_interrupt();
    lock.lock();
  }
  if (kernel.state == State::Failed) {
    kernel.state = State::Told;
    const std::string error = std::move(kernel.error);
    lock.unlock();
    warn(concat("steps run one by one, for the kernel of all of them cannot be compiled: ", error));
    return nullptr;
  }
  if (kernel.state == State::Waiting) missed_.fetch_add(1, std::memory_order_relaxed);
  return kernel.state == State::Ready ? kernel.function : nullptr;
}

}  // namespace rush::cuda
