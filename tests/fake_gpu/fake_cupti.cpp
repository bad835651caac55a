// fake_cupti.cpp: a libcupti.so over the driver without a GPU (fake_driver.cpp).
//
// - Work takes FAKE_CUPTI_KERNEL_US (10) or 4 us of a clock that runs on per stream, and begins 3 us
//   after the call that queued it; a wait lasts until then.
// - It is strict: nothing is enabled without a subscriber, and there is one of them at a time.
// - With FAKE_CUPTI_NCCL, kernels of streams that a program made are called as NCCL's are.
// - With FAKE_CUPTI_UNLISTED, all calls have a number that no list has.
// - FAKE_CUPTI_HOLDER names another tool that has the only place.
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "cuda/runtime/cupti_api.h"
#include "fake_tool.h"

using namespace rush::cuda;
using namespace rush::cuda::cupti;

namespace {

constexpr int kInvalidOperation = 7, kQueueEmpty = 11, kInvalidParameter = 1;

std::recursive_mutex g_mutex;
Subscriber g_subscriber = nullptr;
std::set<int> g_kinds;
BufferRequested g_requested;
BufferCompleted g_completed;
Timestamp g_now;
uint8_t* g_buffer = nullptr;
size_t g_size = 0, g_used = 0, g_dropped = 0;
uint32_t g_correlation = 0;
std::map<CUstream, uint64_t> g_busy;

// Every record is stored behind its size.
template <class Record>
void write(const Record& record) {
  const size_t whole = (sizeof(Record) + 8 + 7) / 8 * 8;
  if (g_buffer && g_used + whole > g_size) {
    g_completed(nullptr, 0, std::exchange(g_buffer, nullptr), g_size, g_used);
    g_used = 0;
  }
  if (!g_buffer) {
    size_t most = 0;
    g_requested(&g_buffer, &g_size, &most);
  }
  if (!g_buffer) {
    ++g_dropped;
    return;
  }
  const uint64_t size = whole;
  std::memcpy(g_buffer + g_used, &size, 8);
  std::memcpy(g_buffer + g_used + 8, &record, sizeof record);
  g_used += whole;
}

uint64_t kernel_ns() {
  const char* text = std::getenv("FAKE_CUPTI_KERNEL_US");
  return (text ? std::strtoull(text, nullptr, 10) : 10) * 1000;
}

uint32_t stream_number(CUstream s) {
  static std::map<CUstream, uint32_t> numbers;
  return numbers.try_emplace(s, uint32_t(7 + numbers.size())).first->second;
}

void wait_until(uint64_t when) {
  const uint64_t now = g_now();
  if (when > now) usleep(unsigned((when - now) / 1000 + 1));
}

void run_work(const FakeWork& work, uint32_t correlation) {
  uint64_t& busy = g_busy[work.stream];
  const uint64_t start = std::max(busy, g_now() + 3000);
  const bool kernel = work.kind == FakeWork::Kernel;
  const uint64_t end = busy = start + (kernel ? kernel_ns() : 4000);
  const auto device = uint32_t(work.device), stream = stream_number(work.stream);
  if (kernel && g_kinds.count(kKernel)) {
    KernelRecord r{};
    r.kind = kKernel;
    r.registers = 32;
    r.start = start;
    r.end = end;
    r.device = device;
    r.stream = stream;
    r.grid[0] = int(work.grid);
    r.grid[1] = r.grid[2] = r.block[1] = r.block[2] = 1;
    r.block[0] = int(work.block);
    r.correlation = correlation;
    r.name = work.stream && std::getenv("FAKE_CUPTI_NCCL") ? "ncclDevKernel_AllReduce" : work.name;
    r.graph = work.graph;
    write(r);
  } else if (work.kind == FakeWork::Copy && g_kinds.count(kCopy)) {
    CopyRecord r{};
    r.kind = kCopy;
    r.copy_kind = uint8_t(work.direction);
    r.from_kind = work.direction == 1 ? 1 : 3;
    r.to_kind = work.direction == 2 ? 1 : 3;
    r.bytes = work.bytes;
    r.start = start;
    r.end = end;
    r.device = device;
    r.stream = stream;
    r.correlation = correlation;
    write(r);
  } else if (work.kind == FakeWork::Fill && g_kinds.count(kFill)) {
    FillRecord r{};
    r.kind = kFill;
    r.bytes = work.bytes;
    r.start = start;
    r.end = end;
    r.device = device;
    r.stream = stream;
    r.correlation = correlation;
    r.memory_kind = 3;
    write(r);
  }
}

void watch(const FakeWork& work) {
  const std::lock_guard lock(g_mutex);
  if (g_kinds.empty()) return;
  const uint64_t begin = g_now();
  const uint32_t correlation = ++g_correlation;
  if (work.kind == FakeWork::Wait) {
    uint64_t until = 0;
    for (const auto& [stream, busy] : g_busy)
      if (!work.stream || stream == work.stream) until = std::max(until, busy);
    wait_until(until);
  } else {
    for (unsigned i = 0; i < work.count; ++i) run_work(work, correlation);
  }
  const uint32_t call = std::getenv("FAKE_CUPTI_UNLISTED") ? 99999 : work.call;
  if (g_kinds.count(kDriverCall))
    write(CallRecord{kDriverCall, call, begin, g_now(), uint32_t(getpid()), uint32_t(gettid()),
                     correlation, 0});
}

#define FAKE(name) extern "C" __attribute__((visibility("default"))) int name
#define LOCKED const std::lock_guard lock(g_mutex)

}  // namespace

FAKE(cuptiSubscribe)(Subscriber* s, Callback, void*) {
  LOCKED;
  if (g_subscriber || std::getenv("FAKE_CUPTI_HOLDER")) return kOtherSubscriber;
  *s = g_subscriber = reinterpret_cast<Subscriber>(new int);
  fake_cuda_tool = watch;
  return kOk;
}
FAKE(cuptiSubscribe_v2)(Subscriber* s, Callback c, void* user, SubscriberParams* params) {
  const int result = cuptiSubscribe(s, c, user);
  if (result == kOtherSubscriber && std::getenv("FAKE_CUPTI_HOLDER"))
    std::snprintf(params->old_name, params->old_name_size, "%s", std::getenv("FAKE_CUPTI_HOLDER"));
  return result;
}
FAKE(cuptiUnsubscribe)(Subscriber s) {
  LOCKED;
  if (s != g_subscriber || !s || !g_kinds.empty()) {
    std::fprintf(stderr, "fake CUPTI: a subscriber left who is none, or with records enabled\n");
    std::abort();
  }
  delete reinterpret_cast<int*>(std::exchange(g_subscriber, nullptr));
  fake_cuda_tool = nullptr;
  return kOk;
}
FAKE(cuptiActivityRegisterCallbacks)(BufferRequested requested, BufferCompleted completed) {
  LOCKED;
  g_requested = requested;
  g_completed = completed;
  return kOk;
}
FAKE(cuptiActivityRegisterTimestampCallback)(Timestamp now) {
  LOCKED;
  if (!g_kinds.empty()) return kInvalidOperation;
  g_now = now;
  return kOk;
}
FAKE(cuptiActivityEnable)(int kind) {
  LOCKED;
  if (!g_subscriber || !g_requested || !g_now) return kInvalidOperation;
  g_kinds.insert(kind);
  return kOk;
}
FAKE(cuptiActivityDisable)(int kind) {
  LOCKED;
  g_kinds.erase(kind);
  return kOk;
}
FAKE(cuptiActivityFlushAll)(uint32_t) {
  LOCKED;
  if (!g_completed) return kInvalidOperation;
  if (g_buffer) g_completed(nullptr, 0, std::exchange(g_buffer, nullptr), g_size, g_used);
  g_used = 0;
  return kOk;
}
FAKE(cuptiActivityGetNextRecord)(uint8_t* buffer, size_t valid, void** record) {
  uint8_t* next = buffer;
  if (*record) {
    auto* at = static_cast<uint8_t*>(*record) - 8;
    uint64_t size = 0;
    std::memcpy(&size, at, 8);
    next = at + size;
  }
  if (next >= buffer + valid) return kNoMoreRecords;
  *record = next + 8;
  return kOk;
}
FAKE(cuptiActivityGetNumDroppedRecords)(CUcontext, uint32_t, size_t* dropped) {
  *dropped = std::exchange(g_dropped, 0);
  return kOk;
}
FAKE(cuptiSetThreadIdType)(int) { return kOk; }
FAKE(cuptiGetTimestamp)(uint64_t* t) {
  *t = g_now ? g_now() : 0;
  return kOk;
}
FAKE(cuptiGetCallbackName)(int, uint32_t id, const char** name) {
#define RUSH_NAME(symbol, number) \
  if (id == number) *name = #symbol;
  RUSH_CUPTI_DRIVER_CALLS(RUSH_NAME)
#undef RUSH_NAME
  return *name ? kOk : kInvalidParameter;
}
FAKE(cuptiGetResultString)(int, const char** text) {
  *text = "CUPTI_ERROR_FAKE";
  return kOk;
}
