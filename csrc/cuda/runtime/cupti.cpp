// cupti.cpp: kernels, copies and fills as CUPTI reports them (device/activity.h).
//
// Note [Records on their way]
// CUPTI asks for buffers and hands them back full, on threads of its own or inside any call of the
// driver, under whatever locks its caller holds. So nothing is locked there: a buffer is turned into
// a batch of small records at once, and batches go onto a list that is taken as a whole by the one
// who stops. Two limits bound it: buffers that CUPTI has, and records that wait; what is beyond them
// is counted.
#include <cxxabi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <unordered_map>

#include "core/dynamic_library.h"
#include "core/error.h"
#include "core/mutex.h"
#include "cuda/runtime/capture.h"
#include "cuda/runtime/cupti_api.h"
#include "cuda/runtime/launch_batch.h"
#include "cuda/runtime/opened.h"
#include "device/activity.h"

namespace rush::cuda {
namespace cupti {
namespace {

Library open() {
  Library l;
  void* library = open_library({"libcupti.so.13", "libcupti.so.12", "libcupti.so",
                                "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so"},
                               {"nvidia/cu13/lib", "nvidia/cuda_cupti/lib", ""});
  const char* absent = nullptr;
#define RUSH_LOAD(symbol, name, params)                                          \
  l.name = reinterpret_cast<decltype(l.name)>(library_symbol(library, #symbol)); \
  if (!l.name && !absent) absent = #symbol;
  RUSH_CUPTI(RUSH_LOAD)
#undef RUSH_LOAD
#define RUSH_LOAD(symbol, name, params) \
  l.name = reinterpret_cast<decltype(l.name)>(library_symbol(library, #symbol));
  RUSH_CUPTI_NEW(RUSH_LOAD)
#undef RUSH_LOAD
  if (!library)
    l.missing = "NVIDIA's CUPTI was not found: pip install nvidia-cuda-cupti";
  else if (absent)
    l.missing = concat("CUPTI is too old: it lacks ", absent);
  return l;
}

}  // namespace

const Library& find_library() {
  static const Library found = open();
  return found;
}

}  // namespace cupti

namespace {

using namespace cupti;

constexpr size_t kBufferBytes = size_t(1) << 20, kMostBuffers = 64;
constexpr size_t kMostRecords = size_t(1) << 21;
constexpr int kChannelKinds[] = {kCustom0, kCustom1, kCustom2, kUnknown};
constexpr int kChannels = int(std::size(kChannelKinds));
constexpr int kKinds[] = {kExternal, kKernel, kCopy, kFill, kPeerCopy, kDriverCall, kRuntimeCall};

uint64_t now() {
  using namespace std::chrono;
  return uint64_t(duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count());
}

// ---- buffers ----

struct External {
  uint32_t correlation;
  int kind;
  uint64_t event;
};
struct Batch {
  Batch* next = nullptr;
  Activities found;
  std::vector<External> externals;
};
std::atomic<Batch*> g_batches{nullptr};
std::atomic<size_t> g_buffers{0}, g_records{0};
std::atomic<uint64_t> g_lost{0};
std::atomic<int64_t> g_clock_offset{0};  // to the steady clock, where CUPTI has a clock of its own

void buffer_requested(uint8_t** buffer, size_t* size, size_t* most_records) {
  *most_records = 0;  // as many as fit
  *size = 0;
  *buffer = nullptr;
  if (g_buffers.fetch_add(1) >= kMostBuffers) {
    --g_buffers;
    return;
  }
  *buffer = static_cast<uint8_t*>(
      ::operator new(kBufferBytes, std::align_val_t(alignof(uint64_t)), std::nothrow));
  if (*buffer)
    *size = kBufferBytes;
  else
    --g_buffers;
}

const char* memory_name(uint8_t kind) {
  constexpr const char* names[] = {"Unknown", "Pageable", "Pinned",        "Device",
                                   "Array",   "Managed",  "Device Static", "Managed Static"};
  return kind < std::size(names) ? names[kind] : "Unknown";
}
const char* direction_name(uint8_t kind) {
  constexpr const char* names[] = {"Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                   "AtoD",    "DtoA", "DtoD", "HtoH", "PtoP"};
  return kind < std::size(names) ? names[kind] : "Unknown";
}

// Most calls (queries, settings) are of no interest.
bool is_shown(int domain, uint32_t id) {
#define RUSH_CALL(name, number) \
  case number:                  \
    return true;
  if (domain == kDriverDomain) {
    switch (id) { RUSH_CUPTI_DRIVER_CALLS(RUSH_CALL) }
  } else {
    switch (id) { RUSH_CUPTI_RUNTIME_CALLS(RUSH_CALL) }
  }
#undef RUSH_CALL
  return false;
}

std::string demangled(const char* name) {
  if (!name) return "unknown kernel";
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return text ? text.get() : name;
}

// Turns the records of one buffer into a batch.
class Reader {
 public:
  explicit Reader(Batch& batch) : batch_(batch) {}

  void read(const void* record) {
    const int64_t offset = g_clock_offset.load(std::memory_order_relaxed);
    switch (*static_cast<const int*>(record)) {
      case kKernel:
        return kernel(*static_cast<const KernelRecord*>(record), offset);
      case kCopy:
        return copy(*static_cast<const CopyRecord*>(record), offset);
      case kPeerCopy:
        return copy(*static_cast<const PeerCopyRecord*>(record), offset);
      case kFill:
        return fill(*static_cast<const FillRecord*>(record), offset);
      case kDriverCall:
        return call(*static_cast<const CallRecord*>(record), kDriverDomain, offset);
      case kRuntimeCall:
        return call(*static_cast<const CallRecord*>(record), kRuntimeDomain, offset);
      case kExternal: {
        const auto& r = *static_cast<const ExternalRecord*>(record);
        batch_.externals.push_back({r.correlation, r.external_kind, r.external});
        return;
      }
      default:
        return;
    }
  }

 private:
  template <class Record>
  Activity& add(const Record& r, Activity::Kind kind, uint32_t name, int64_t offset) {
    Activity& a = batch_.found.all.emplace_back();
    a.kind = kind;
    a.name = name;
    a.correlation = r.correlation;
    a.begin = int64_t(r.start) + offset;
    a.end = int64_t(r.end) + offset;
    return a;
  }
  template <class Record>
  Activity& add_on_device(const Record& r, Activity::Kind kind, uint32_t name, int64_t offset) {
    Activity& a = add(r, kind, name, offset);
    a.device = int32_t(r.device);
    a.stream = int32_t(r.stream);
    return a;
  }
  void kernel(const KernelRecord& r, int64_t offset) {
    if (r.start == 0 || r.end == 0) return;  // it had not run when the buffer was taken
    Activity& a = add_on_device(r, Activity::Kind::Kernel, known_name(r.name), offset);
    std::copy_n(r.grid, 3, a.grid);
    std::copy_n(r.block, 3, a.block);
    a.registers = r.registers;
    a.shared_bytes = uint32_t(r.static_shared + r.dynamic_shared);
    a.graph = r.graph;
  }
  template <class Record>
  void copy(const Record& r, int64_t offset) {
    if (r.start == 0 || r.end == 0) return;
    const std::string name = concat("Memcpy ", direction_name(r.copy_kind), " (",
                                    memory_name(r.from_kind), " -> ", memory_name(r.to_kind), ")");
    add_on_device(r, Activity::Kind::Copy, number(name), offset).bytes = r.bytes;
  }
  void fill(const FillRecord& r, int64_t offset) {
    if (r.start == 0 || r.end == 0) return;
    const std::string name = concat("Memset (", memory_name(uint8_t(r.memory_kind)), ")");
    add_on_device(r, Activity::Kind::Fill, number(name), offset).bytes = r.bytes;
  }
  void call(const CallRecord& r, int domain, int64_t offset) {
    if (!is_shown(domain, r.id)) return;
    add(r, Activity::Kind::Call, call_name(domain, r.id), offset).stream = int32_t(r.thread);
  }

  uint32_t number(const std::string& name) {
    const auto [at, fresh] = numbers_.try_emplace(name, uint32_t(batch_.found.names.size()));
    if (fresh) batch_.found.names.push_back(name);
    return at->second;
  }
  uint32_t known_name(const char* name) {  // kernels of one function share their name's address
    const auto at = addresses_.find(name);
    if (at != addresses_.end()) return at->second;
    return addresses_[name] = number(demangled(name));
  }
  uint32_t call_name(int domain, uint32_t id) {
    const auto at = calls_.find({domain, id});
    if (at != calls_.end()) return at->second;
    const char* name = nullptr;
    if (find_library().GetCallbackName(domain, id, &name) != kOk || !name) name = "unknown call";
    // cudaLaunchKernel_v7000 is cudaLaunchKernel.
    std::string text(name);
    const size_t version = text.rfind("_v");
    if (version != std::string::npos && version + 2 < text.size() &&
        text.find_first_not_of("0123456789", version + 2) == std::string::npos)
      text.resize(version);
    const uint32_t found = number(text);
    calls_[{domain, id}] = found;
    return found;
  }

  struct Hash {
    size_t operator()(std::pair<int, uint32_t> p) const { return size_t(p.first) << 32 | p.second; }
  };
  Batch& batch_;
  std::unordered_map<std::string, uint32_t> numbers_;
  std::unordered_map<const char*, uint32_t> addresses_;
  std::unordered_map<std::pair<int, uint32_t>, uint32_t, Hash> calls_;
};

void read_buffer(uint8_t* buffer, size_t valid) {
  auto batch = std::make_unique<Batch>();
  Reader reader(*batch);
  void* record = nullptr;
  uint64_t more = 0;
  while (find_library().GetNextRecord(buffer, valid, &record) == kOk) {
    if (g_records.load(std::memory_order_relaxed) + batch->found.all.size() < kMostRecords)
      reader.read(record);
    else
      ++more;
  }
  g_lost += more;
  g_records += batch->found.all.size();
  Batch* made = batch.release();
  made->next = g_batches.load();
  while (!g_batches.compare_exchange_weak(made->next, made)) continue;
}

void buffer_completed(CUcontext context, uint32_t stream, uint8_t* buffer, size_t, size_t valid) {
  if (!buffer) return;
  try {
    if (valid > 0) read_buffer(buffer, valid);
  } catch (...) {
    ++g_lost;  // no memory for it
  }
  size_t dropped = 0;
  if (find_library().GetNumDropped(context, stream, &dropped) == kOk) g_lost += dropped;
  ::operator delete(buffer, std::align_val_t(alignof(uint64_t)));
  --g_buffers;
}

// ---- who records ----

struct Recording {
  Mutex mutex{LockRank::Listeners};
  int users = 0;
  bool taken[kChannels] = {};
  Subscriber subscriber = nullptr;
  std::vector<std::unique_ptr<Batch>> kept;  // until the last one stops
};
Recording& recording() {
  static auto* r = new Recording;
  return *r;
}

std::string text_of(int result) {
  const char* text = nullptr;
  find_library().GetResultString(result, &text);
  return concat(text ? text : "unknown error", " (", result, ")");
}

void ignore_callback(void*, int, unsigned, const void*) {}

// Who has the place that only one may have; CUPTI of CUDA 13.1 and later says.
std::string holder() {
  const Library& l = find_library();
  if (!l.SubscribeNamed) return "";
  char name[128] = "";
  SubscriberParams params{sizeof(SubscriberParams), "Rushlight", name, sizeof name, 0, {}};
  Subscriber subscriber = nullptr;
  if (l.SubscribeNamed(&subscriber, ignore_callback, nullptr, &params) == kOk)
    l.Unsubscribe(subscriber);
  name[sizeof name - 1] = 0;
  return name;
}

void disable_all() {
  for (const int kind : kKinds) find_library().Disable(kind);
}

// Empty, or why it cannot be; with the mutex held.
std::string enable_all(Recording& r) {
  const Library& l = find_library();
  if (!l.missing.empty()) return l.missing;
  int result = l.Subscribe(&r.subscriber, ignore_callback, nullptr);
  if (result == kOtherSubscriber) {
    const std::string other = holder();
    return concat("CUPTI serves one tool at a time, and ", other.empty() ? "another one" : other,
                  " has it: profile without that tool, or leave ProfilerActivity.CUDA out");
  }
  if (result != kOk) return concat("CUPTI cannot be used here: ", text_of(result));
  g_clock_offset = 0;
  if (!l.RegisterTimestamp || l.RegisterTimestamp(now) != kOk) {
    uint64_t theirs = 0;
    l.GetTimestamp(&theirs);
    g_clock_offset = int64_t(now()) - int64_t(theirs);
  }
  l.SetThreadIdType(kSystemThreads);
  result = l.RegisterCallbacks(buffer_requested, buffer_completed);
  for (const int kind : kKinds) {
    if (result == kOk) result = l.Enable(kind);
  }
  if (result == kOk) return "";
  disable_all();
  l.Unsubscribe(r.subscriber);
  return concat("CUPTI does not record here: ", text_of(result));
}

int start(std::string& why_not) {
  find_library();  // which takes locks that come before this one
  Recording& r = recording();
  const std::lock_guard lock(r.mutex);
  const auto free = std::find(std::begin(r.taken), std::end(r.taken), false);
  if (free == std::end(r.taken)) {
    why_not = "too many profiles record at the same time";
    return -1;
  }
  if (r.users == 0) why_not = enable_all(r);
  if (!why_not.empty()) return -1;
  set_single_launches(true);  // each kernel has an op of its own
  ++r.users;
  *free = true;
  return int(free - std::begin(r.taken));
}

// What a channel's listener gets of the batches: what began since then.
Activities gather(const Recording& r, int channel, int64_t since) {
  Activities found;
  std::unordered_map<uint32_t, uint64_t> events;
  std::unordered_map<std::string, uint32_t> numbers;
  for (const auto& batch : r.kept) {
    for (const External& e : batch->externals) {
      if (e.kind == kChannelKinds[channel]) events[e.correlation] = e.event;
    }
  }
  for (const auto& batch : r.kept) {
    std::vector<uint32_t> renumbered;
    for (const std::string& name : batch->found.names) {
      const auto [at, fresh] = numbers.try_emplace(name, uint32_t(found.names.size()));
      if (fresh) found.names.push_back(name);
      renumbered.push_back(at->second);
    }
    for (const Activity& a : batch->found.all) {
      if (a.begin < since) continue;
      Activity& copy = found.all.emplace_back(a);
      copy.name = renumbered[a.name];
      if (const auto at = events.find(a.correlation); at != events.end()) copy.event = at->second;
    }
  }
  found.lost = g_lost.load();
  return found;
}

Activities stop(int channel, int64_t since) {
  synchronize_opened();
  Recording& r = recording();
  const std::lock_guard lock(r.mutex);
  find_library().FlushAll(any_capture() ? 0 : kForcedFlush);
  for (Batch* b = g_batches.exchange(nullptr); b;) {
    r.kept.emplace_back(b);
    b = b->next;
  }
  Activities found = gather(r, channel, since);
  r.taken[channel] = false;
  set_single_launches(false);
  if (--r.users == 0) {
    disable_all();
    find_library().Unsubscribe(r.subscriber);
    r.kept.clear();
    g_records = 0;
    g_lost = 0;
  }
  return found;
}

void push(int channel, uint64_t event) noexcept {
  find_library().PushExternal(kChannelKinds[channel], event);
}
void pop(int channel) noexcept {
  uint64_t last = 0;
  find_library().PopExternal(kChannelKinds[channel], &last);
}

const bool g_registered = [] {
  activity_recorders(DeviceType::CUDA) = {start, stop, push, pop};
  return true;
}();

}  // namespace
}  // namespace rush::cuda
