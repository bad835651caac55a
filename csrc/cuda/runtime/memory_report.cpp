#include "cuda/runtime/memory_report.h"

#include <cstdio>
#include <unordered_map>

#include "core/error.h"
#include "core/mutex.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/private_pool.h"
#include "cuda/runtime/stream.h"

namespace rush::cuda {
namespace {

struct Description {
  DType dtype;
  Dims sizes;
};
struct Descriptions {
  Mutex mutex{LockRank::Streams};
  std::unordered_map<const void*, Description> all;
  std::vector<LiveBlock> last;  // when memory ran out
};
Descriptions& descriptions() {
  static auto* d = new Descriptions;
  return *d;
}

}  // namespace

void describe_block(void* p, IntList sizes, DType dtype) {
  Descriptions& d = descriptions();
  std::lock_guard lock(d.mutex);
  d.all.insert_or_assign(p, Description{dtype, Dims(sizes)});
}

void forget_description(void* p) noexcept {
  Descriptions& d = descriptions();
  std::lock_guard lock(d.mutex);
  d.all.erase(p);
}

std::vector<GpuSegment> gpu_memory_snapshot() {
  std::vector<GpuSegment> out;
  if (!is_initialized()) return out;
  const auto add = [&](Arena& arena, PoolId pool) {
    for (const bool small : {true, false})
      for (auto& segment : (small ? arena.small : arena.large).snapshot())
        out.push_back({std::move(segment), arena.stream->device, arena.stream->id, pool, small});
  };
  for (int device = 0; device < device_count(); ++device) {
    for (int64_t id = 0; Stream* stream = stream_or_null(device, id); ++id)
      add(stream->arena, PoolId{0, 0});
  }
  PrivatePool::for_each_arena(add);
  return out;
}

std::vector<LiveBlock> live_gpu_blocks(int device) {
  std::vector<LiveBlock> out;
  for (const GpuSegment& segment : gpu_memory_snapshot()) {
    if (segment.device != device) continue;
    for (const auto& block : segment.memory.blocks) {
      if (block.state != CachingPool::State::Live) continue;
      out.push_back({block.p, block.size, (block.label & kRecording) != 0, block.source, false,
                     DType::UInt8, Dims{}});
    }
  }
  Descriptions& d = descriptions();
  std::lock_guard lock(d.mutex);
  for (LiveBlock& block : out) {
    const auto found = d.all.find(block.p);
    if (found == d.all.end()) continue;
    block.described = true;
    block.dtype = found->second.dtype;
    block.sizes = found->second.sizes;
  }
  return out;
}

std::string size_text(double bytes) {
  const char* units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (bytes >= 1024 && unit < 4) bytes /= 1024, ++unit;
  char text[32];
  std::snprintf(text, sizeof text, unit ? "%.2f %s" : "%.0f %s", bytes, units[unit]);
  return text;
}

void fail_out_of_memory(const OutOfMemoryFacts& f) {
  // Here, for on the way up the call's own tensors are freed.
  std::vector<LiveBlock> live = live_gpu_blocks(f.device);
  {
    Descriptions& d = descriptions();
    std::lock_guard lock(d.mutex);
    d.last = std::move(live);
  }
  const auto [free, total] = memory_info(f.device);
  std::string limit;
  if (f.fraction < 1)
    limit = concat(" This process may use ", size_text(f.fraction * double(total)),
                   " (set_per_process_memory_fraction).");
  fail(ErrorKind::OutOfMemory, "", "CUDA out of memory. Tried to allocate ",
       size_text(double(f.nbytes)), " on cuda:", f.device, ", which has ", size_text(double(total)),
       ", of which ", size_text(double(free)), " are free.", limit, " This process holds ",
       size_text(double(f.allocated)), " in tensors, and ",
       size_text(double(f.reserved - f.allocated)), " reserved but not in use.");
}

std::vector<LiveBlock> take_last_out_of_memory() {
  Descriptions& d = descriptions();
  std::lock_guard lock(d.mutex);
  return std::exchange(d.last, {});
}

}  // namespace rush::cuda
