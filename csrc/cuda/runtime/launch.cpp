#include "cuda/runtime/launch.h"

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <span>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/mutex.h"
#include "core/warn.h"
#include "cuda/runtime/graph.h"
#include "cuda/runtime/kernel_cache.h"
#include "cuda/runtime/outside_fault.h"
#include "device/activity.h"

namespace rush::cuda {
namespace {

// Where a family's number stands in a key of the table below, above the device's and its own key.
constexpr int kFamilyShift = 57, kMostFamilies = 1 << (64 - kFamilyShift);

// Read without a lock: open addressing, entries appear and stay.
class FunctionTable {
 public:
  CUfunction find(uint64_t key) const {
    for (size_t at = home(key);; at = (at + 1) & kMask) {
      const uint64_t there = keys_[at].load(std::memory_order_acquire);
      if (there == key) return functions_[at].load(std::memory_order_relaxed);
      if (there == 0) return nullptr;
    }
  }
  // Under a lock. Half the table is left empty, so that a search ends.
  void insert(uint64_t key, CUfunction f) {
    check(used_ < kMask / 2, ErrorKind::Runtime, "cuda", "too many different kernels: ", used_);
    size_t at = home(key);
    while (keys_[at].load(std::memory_order_relaxed) != 0) at = (at + 1) & kMask;
    functions_[at].store(f, std::memory_order_relaxed);
    keys_[at].store(key, std::memory_order_release);
    ++used_;
  }

 private:
  static constexpr size_t kMask = (size_t(1) << 16) - 1;
  static size_t home(uint64_t key) { return size_t(key * 0x9E3779B97F4A7C15ull >> 40) & kMask; }
  std::array<std::atomic<uint64_t>, kMask + 1> keys_{};
  std::array<std::atomic<CUfunction>, kMask + 1> functions_{};
  size_t used_ = 0;
};

FunctionTable& functions() {
  static auto* table = new FunctionTable;
  return *table;
}

Mutex& load_mutex() {
  static Mutex mutex{LockRank::Kernels};
  return mutex;
}
// Files and expressions of what was loaded, for the warm-up's list.
std::vector<std::pair<std::string, std::string>>& loaded() {
  static auto* all = new std::vector<std::pair<std::string, std::string>>;
  return *all;
}

// Whoever waits for the compiler learns why, once.
void tell_of_waiting(std::chrono::steady_clock::duration taken) {
  static std::atomic<int64_t> kernels{0}, nanoseconds{0};
  static std::atomic<bool> told{false};
  const int64_t count = ++kernels;
  const int64_t all = nanoseconds += std::chrono::nanoseconds(taken).count();
  if (all < 1'000'000'000 || told.exchange(true)) return;
  std::fprintf(
      stderr, "rushlight: compiled %lld kernels for this GPU in %.1f s, kept for next time in %s\n",
      static_cast<long long>(count), double(all) * 1e-9, KernelCache::default_folder().c_str());
}

[[gnu::noinline]] CUfunction load_function(const KernelFamily& family, uint64_t key, int device,
                                           uint64_t full) {
  const auto start = std::chrono::steady_clock::now();
  const CachedKernel code = find_kernel(family.file, family.spell(key), device_info(device).arch());
  if (code.compiled) tell_of_waiting(std::chrono::steady_clock::now() - start);
  std::lock_guard lock(load_mutex());
  if (CUfunction known = functions().find(full)) return known;  // another thread was faster
  bind(device);
  const RelaxedCapture relaxed;
  CUmodule module = nullptr;
  must(driver().ModuleLoadData(&module, code.cubin.data()), "cuda");
  CUfunction f = nullptr;
  must(driver().ModuleGetFunction(&f, module, code.name.c_str()), "cuda");
  functions().insert(full, f);
  loaded().emplace_back(family.file, family.spell(key));
  return f;
}

std::atomic<bool> g_blocking{[] {
  const char* text = std::getenv("RUSHLIGHT_CUDA_BLOCKING");
  const char* theirs = std::getenv("CUDA_LAUNCH_BLOCKING");
  return (text && *text == '1') || (theirs && *theirs == '1');
}()};
std::atomic<SyncDebug> g_sync_debug{SyncDebug::Off};

// ---- faults ----

struct Checked {
  const char* op = nullptr;
  int64_t dim = 0, size = 0;
  const char* rule = nullptr;  // what elements have to be, if they are no indices
};

struct Faults {
  static constexpr size_t kRemembered = 4096;
  Mutex mutex{LockRank::Streams};
  IndexFault* record = nullptr;  // on the device
  std::atomic<bool> pending{false};
  uint64_t launches = 0;
  std::array<Checked, kRemembered> checked;
  // Captured kernels keep their numbers from replay to replay, beyond what is remembered above.
  std::deque<Checked> captured;
  std::exception_ptr outside;  // what another process's fault has done to this device's results
};
// Numbers of captured launches begin here.
constexpr uint64_t kFirstCaptured = uint64_t(1) << 62;
Faults& faults_of(int device) {
  static auto* all = new std::array<Faults, kMaxDevices>;
  return (*all)[size_t(device)];
}

constexpr IndexFault kNoFault{~u64(0), 0, 0, 0};

CUdeviceptr address(const void* p) { return reinterpret_cast<CUdeviceptr>(p); }

}  // namespace

std::vector<std::pair<std::string, std::string>> loaded_kernels() {
  std::lock_guard lock(load_mutex());
  return loaded();
}

KernelFamily::KernelFamily(const char* name, std::string (*spelled)(uint64_t key))
    : file(name), spell(spelled) {
  static constinit int families = 0;
  internal_assert(families < kMostFamilies, "too many families of kernels");
  number = uint8_t(families++);
}

CUfunction find_function(const KernelFamily& family, uint64_t key, int device) {
  const uint64_t full =
      uint64_t(family.number) << kFamilyShift | uint64_t(device + 1) << kKeyBits | key;
  if (CUfunction f = functions().find(full)) [[likely]]
    return f;
  return load_function(family, key, device, full);
}

namespace {

LaunchShape shape_of(Grid grid, Grid block, unsigned shared) {
  return {{grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared};
}

constexpr CUlaunchAttribute kTogether[] = {{kLaunchCooperative, 0, {.on = 1}}};
// See Note [Early launches]; older GPUs know none.
constexpr CUlaunchAttribute kEarly[] = {{kLaunchProgrammatic, 0, {.on = 1}}};

}  // namespace

CUresult launch_now(CUfunction f, Stream* stream, const LaunchShape& s, void** args) {
  std::span<const CUlaunchAttribute> attributes(s.together ? kTogether : kEarly);
  if (!s.together && device_info(stream->device).major < 9) attributes = {};
  const CUlaunchConfig config{s.grid[0],         s.grid[1],
                              s.grid[2],         s.block[0],
                              s.block[1],        s.block[2],
                              s.shared,          stream->raw_handle(),
                              attributes.data(), unsigned(attributes.size())};
  return driver().LaunchKernelEx(&config, f, args, nullptr);
}

namespace {

void launch_or_keep(CUfunction f, int device, const LaunchShape& shape, void** args,
                    JoinRule join) {
  bind(device);
  Stream* stream = current_stream(device);
  if (add_to_batch(f, stream, shape, args, join)) return;
  must(launch_now(f, stream, shape, args), "launch");
  after_launch(stream);
}

}  // namespace

void allow_shared(CUfunction f, unsigned shared) {
  constexpr int kMaxDynamicShared = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
  must(driver().FuncSetAttribute(f, kMaxDynamicShared, int(shared)), "launch");
}

void launch(CUfunction f, int device, Grid grid, Grid block, void** args, unsigned shared) {
  launch_or_keep(f, device, shape_of(grid, block, shared), args, nullptr);
}

void launch_joined(CUfunction f, int device, Grid grid, Grid block, void* args, JoinRule join) {
  launch_or_keep(f, device, shape_of(grid, block, 0), &args, join);
}

void launch_together(CUfunction f, int device, Grid grid, Grid block, void** args) {
  LaunchShape shape = shape_of(grid, block, 0);
  shape.together = true;
  launch_or_keep(f, device, shape, args, nullptr);
}

void after_launch(Stream* stream) {
  if (!g_blocking.load(std::memory_order_relaxed)) [[likely]]
    return;
  if (!is_capturing(stream)) must(driver().StreamSynchronize(stream->handle()), "launch");
}

Grid blocks_for(int64_t threads, int device) {
  const int64_t wanted = (threads + kThreads - 1) / kThreads;
  const int64_t most = int64_t(device_info(device).processors) * 16;
  return {unsigned(std::max<int64_t>(1, std::min(wanted, most)))};
}

u32* stream_counters(int device, int64_t count) {
  if (Graph* graph = capture_of(current_stream(device))) {
    const std::vector<u32> zeros(size_t(count), 0);
    return static_cast<u32*>(graph->constant(zeros.data(), zeros.size() * sizeof(u32)));
  }
  // More streams than these share theirs; sets of streams are smaller.
  constexpr int64_t kStreams = 256;
  static std::array<std::atomic<u32*>, kMaxDevices> all{};
  const int64_t mine = current_stream(device)->id % kStreams;
  if (u32* known = all[size_t(device)].load(std::memory_order_acquire)) [[likely]]
    return known + mine * kStreamCounters;
  static Mutex mutex{LockRank::Kernels};
  std::lock_guard lock(mutex);
  if (!all[size_t(device)].load()) {
    bind(device);
    const RelaxedCapture relaxed;
    constexpr size_t nbytes = kStreams * kStreamCounters * sizeof(u32);
    CUdeviceptr p = 0;
    must(driver().MemAlloc(&p, nbytes), "cuda");
    must(driver().MemsetD8Async(p, 0, nbytes, nullptr), "cuda");
    must(driver().StreamSynchronize(nullptr), "cuda");
    all[size_t(device)].store(reinterpret_cast<u32*>(p), std::memory_order_release);
  }
  return all[size_t(device)].load() + mine * kStreamCounters;
}

const char* kernel_type(DType dtype) {
  static constexpr const char* names[kDTypeCount] = {"bool",
                                                     "rush::u8",
                                                     "rush::i8",
                                                     "rush::i16",
                                                     "rush::i32",
                                                     "rush::i64",
                                                     "rush::u16",
                                                     "rush::u32",
                                                     "rush::u64",
                                                     "rush::half",
                                                     "rush::bfloat16",
                                                     "float",
                                                     "double",
                                                     "rush::complex<float>",
                                                     "rush::complex<double>",
                                                     "rush::float8_e4m3fn",
                                                     "rush::float8_e5m2",
                                                     "rush::float8_e4m3fnuz",
                                                     "rush::float8_e5m2fnuz",
                                                     "rush::float8_e8m0fnu",
                                                     "rush::complex<rush::half>"};
  return names[int(dtype)];
}

const char* stored_type(DType dtype) {
  return dtype == DType::Bool ? "rush::truth" : kernel_type(dtype);
}

const char* kernel_bytes(int64_t element_size) {
  static constexpr const char* names[] = {"rush::u8", "rush::u16", "rush::u32", "rush::u64",
                                          "rush::Bytes16"};
  return names[std::countr_zero(uint64_t(element_size))];
}

namespace {
FaultSlot next_fault_slot(int device, const Checked& checked) {
  bind(device);
  Faults& f = faults_of(device);
  Graph* graph = capture_of(current_stream(device));
  std::lock_guard lock(f.mutex);
  if (!f.record) {
    const RelaxedCapture relaxed;
    CUdeviceptr p = 0;
    must(driver().MemAlloc(&p, sizeof(IndexFault)), "cuda");
    f.record = reinterpret_cast<IndexFault*>(p);
    upload_now(device, f.record, &kNoFault, sizeof kNoFault);
  }
  if (graph) {
    graph->check_indices();
    f.captured.push_back(checked);
    return {f.record, kFirstCaptured + f.captured.size() - 1};
  }
  f.pending.store(true, std::memory_order_relaxed);
  f.checked[f.launches % Faults::kRemembered] = checked;
  return {f.record, f.launches++};
}
constexpr const char* kFoundLate =
    ". (The GPU found it; it is reported now that the program waited for it.)";
}  // namespace

FaultSlot next_fault_slot(int device, const char* op, int64_t dim, int64_t size) {
  return next_fault_slot(device, Checked{op, dim, size});
}
FaultSlot next_fault_slot(int device, const char* op, const char* rule) {
  return next_fault_slot(device, Checked{op, 0, 0, rule});
}

void expect_faults(int device) { faults_of(device).pending.store(true, std::memory_order_relaxed); }

void note_outside_fault(int device, std::exception_ptr fault) {
  Faults& f = faults_of(device);
  std::lock_guard lock(f.mutex);
  f.outside = std::move(fault);
  f.pending.store(true, std::memory_order_relaxed);
}

void raise_faults(int device) {
  Faults& f = faults_of(device);
  if (!f.pending.load(std::memory_order_relaxed)) [[likely]]
    return;
  if (is_capturing(current_stream(device))) return;
  IndexFault found = kNoFault;
  Checked checked;
  {
    std::lock_guard lock(f.mutex);
    if (f.outside) std::rethrow_exception(std::exchange(f.outside, nullptr));
    if (!f.record) return f.pending.store(false, std::memory_order_relaxed);
    const CUstream stream = current_stream(device)->handle();
    must(driver().MemcpyDtoHAsync(&found, address(f.record), sizeof found, stream), "cuda");
    must(driver().StreamSynchronize(stream), "cuda");
    f.pending.store(false, std::memory_order_relaxed);
    if (found.launch == kNoFault.launch) return;
    must(driver().MemcpyHtoDAsync(address(f.record), &kNoFault, sizeof kNoFault, stream), "cuda");
    if (found.launch >= kFirstCaptured)
      checked = f.captured[found.launch - kFirstCaptured];
    else if (f.launches - found.launch <= Faults::kRemembered)
      checked = f.checked[found.launch % Faults::kRemembered];
  }
  if (checked.rule)
    fail(ErrorKind::Runtime, checked.op, checked.rule, ", but element number ", found.position,
         " is ", std::bit_cast<double>(found.value), kFoundLate);
  const std::string dim = checked.op
                              ? concat(" of dimension ", checked.dim, " with size ", checked.size)
                              : std::string();
  fail(ErrorKind::Range, checked.op ? checked.op : "", "index ", found.value, " is out of range",
       dim, "; it is number ", found.position, " of the indices", kFoundLate);
}

void set_sync_debug(SyncDebug mode) { g_sync_debug.store(mode); }
SyncDebug sync_debug() { return g_sync_debug.load(); }
void set_blocking(bool on) { g_blocking.store(on); }
bool is_blocking() { return g_blocking.load(); }

void note_wait(const char* what) {
  refuse_capture(what, "the host would have to wait for the GPU, or do the work itself");
  if (const WaitListener told = g_wait_listener.load(std::memory_order_relaxed)) told(what);
  const SyncDebug mode = g_sync_debug.load(std::memory_order_relaxed);
  if (mode == SyncDebug::Off) [[likely]]
    return;
  const std::string text = concat("the host waits for the GPU: ", what);
  check(mode != SyncDebug::Error, ErrorKind::Runtime, "", text,
        " (set_sync_debug_mode is 'error')");
  warn(text);
}

}  // namespace rush::cuda
