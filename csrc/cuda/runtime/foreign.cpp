#include "cuda/runtime/foreign.h"

#include <memory>
#include <vector>

#include "core/error.h"
#include "core/mutex.h"
#include "cuda/runtime/capture.h"
#include "cuda/runtime/stream.h"

namespace rush::cuda {
namespace {

struct Pending {
  std::unique_ptr<Event> event;
  void (*release)(void*);
  void* context;
};
struct Waiting {
  Mutex mutex{LockRank::Streams};
  std::vector<Pending> all;
  std::atomic<int> count{0};
};
Waiting& waiting() {
  static auto* w = new Waiting;
  return *w;
}

CUstream handle_of(int64_t token) {
  check(token > 0, ErrorKind::Argument, "stream",
        "expected 1 (the default stream), 2 (the thread's own) or a stream's handle, got ", token);
  return token == 1 ? nullptr : reinterpret_cast<CUstream>(token);
}

// What is queued on `first` comes before what is queued on `second` from now on.
void order(int device, CUstream first, CUstream second) {
  if (first == second) return;
  bind(device);
  CUevent event = nullptr;
  must(driver().EventCreate(&event, kEventNoTiming), "Event");
  const CUresult recorded = driver().EventRecord(event, first);
  const CUresult waits =
      recorded == kSuccess ? driver().StreamWaitEvent(second, event, 0) : recorded;
  driver().EventDestroy(event);
  must(waits, "waiting for another library's stream");
}

}  // namespace

int64_t stream_token(int device) {
  const CUstream handle = current_stream(device)->handle();
  return handle ? int64_t(reinterpret_cast<intptr_t>(handle)) : 1;
}

void make_foreign_wait(int device, int64_t token) {
  order(device, current_stream(device)->handle(), handle_of(token));
}

void wait_for_foreign(int device, int64_t token) {
  order(device, handle_of(token), current_stream(device)->handle());
}

void release_when_passed(int device, void (*release)(void*), void* context) noexcept {
  release_passed();
  try {
    Stream* stream = current_stream(device);
    if (!is_capturing(stream) && !is_done(stream)) {
      auto event = std::make_unique<Event>();
      event->record(stream);
      Waiting& w = waiting();
      std::lock_guard lock(w.mutex);
      w.all.push_back({std::move(event), release, context});
      w.count.fetch_add(1, std::memory_order_relaxed);
      return;
    }
  } catch (const std::exception&) {  // the device is gone, and with it whoever reads the memory
  }
  release(context);
}

void release_passed() noexcept {
  Waiting& w = waiting();
  if (w.count.load(std::memory_order_relaxed) == 0) return;
  std::vector<Pending> passed;
  {
    std::lock_guard lock(w.mutex);
    for (size_t i = 0; i < w.all.size();) {
      bool done = true;
      try {
        done = w.all[i].event->done();
      } catch (const Error&) {
      }
      if (!done) {
        ++i;
        continue;
      }
      passed.push_back(std::move(w.all[i]));
      w.all[i] = std::move(w.all.back());
      w.all.pop_back();
      w.count.fetch_sub(1, std::memory_order_relaxed);
    }
  }
  for (const Pending& p : passed) p.release(p.context);  // without the lock: it may run Python
}

int device_of_pointer(const void* p) {
  bind(check_device("cuda", -1));
  constexpr int kDeviceOrdinal = 9;
  int device = -1;
  const CUresult found =
      driver().PointerGetAttribute(&device, kDeviceOrdinal, reinterpret_cast<CUdeviceptr>(p));
  check(found == kSuccess && device >= 0, ErrorKind::Argument, "cuda",
        "the pointer is not one of GPU memory: ", describe(found));
  return device;
}

}  // namespace rush::cuda
