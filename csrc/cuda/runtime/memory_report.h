// memory_report.h: what is in the GPU's memory, for snapshots and for the error when it is full.
#pragma once

#include <string>
#include <vector>

#include "core/caching_pool.h"
#include "core/dtype.h"
#include "core/export.h"
#include "core/shape.h"

namespace rush::cuda {

// Labels of blocks.
inline constexpr uint8_t kRecording = 1;  // made while operations were recorded for backward

// Of blocks from kDescribedBytes on, the tensor's shape and the line that made it are kept.
void describe_block(void* p, IntList sizes, DType dtype);
void forget_description(void* p) noexcept;

struct GpuSegment {
  CachingPool::SegmentInfo memory;
  int device;
  int64_t stream;
  std::pair<int64_t, int64_t> pool;  // (0, 0): the stream's own
  bool small;                        // of blocks up to Arena::kSmall
};
RUSH_API std::vector<GpuSegment> gpu_memory_snapshot();

// A live block with what is known about its tensor.
struct LiveBlock {
  const char* p;
  size_t size;
  bool recording;
  SourcePoint source;
  bool described;
  DType dtype;
  Dims sizes;
};
RUSH_API std::vector<LiveBlock> live_gpu_blocks(int device);

struct OutOfMemoryFacts {
  int device;
  size_t nbytes;
  int64_t allocated, reserved;
  double fraction;
};
[[noreturn]] void fail_out_of_memory(const OutOfMemoryFacts& facts);
// What was live when memory ran out last; taken once. For the error's text, which needs Python.
RUSH_API std::vector<LiveBlock> take_last_out_of_memory();

std::string size_text(double bytes);

}  // namespace rush::cuda
