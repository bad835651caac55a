#include "cuda/index/write_at.h"

#include "cuda/kernels/write_at_args.h"
#include "cuda/runtime/byte_range.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/nest.h"

namespace rush::cuda {

namespace {

std::string spell_write(uint64_t key) {
  return concat("rush::write_at<", kernel_bytes(int64_t(key)), ">");
}
const KernelFamily kWrite{"write_at.cu", spell_write};

// Keys and values of one cache: writes that are asked for one after the other share a launch, where
// neither touches what the other writes.
bool join_writes(void* kept, LaunchShape& shape, const void* next, const LaunchShape& more) {
  WriteAtArgs& all = *static_cast<WriteAtArgs*>(kept);
  const WriteAtArgs& one = *static_cast<const WriteAtArgs*>(next);
  const WriteAtArgs::Write &a = all.writes[0], &b = one.writes[0];
  if (all.count == kMostWrites || all.fault != one.fault) return false;
  const auto range = [](const void* p, int64_t bytes) { return ByteRange(p, bytes - 1, 1); };
  const ByteRange to_a = range(a.out, a.out_bytes), to_b = range(b.out, b.out_bytes);
  if (to_a.meets(to_b) || to_a.meets(range(b.source, b.source_bytes)) ||
      to_a.meets(range(b.index, sizeof(i64))) || to_b.meets(range(a.source, a.source_bytes)) ||
      to_b.meets(range(a.index, sizeof(i64))))
    return false;
  all.writes[1] = b;
  all.writes[1].first = shape.grid[0];
  all.count = 2;
  shape.grid[0] += more.grid[0];
  return true;
}

}  // namespace

bool write_at_one(const ScatterLines& lines) {
  const Walk<2> walk = walk_over<2>({lines.dst.impl(), lines.src.impl()});
  if (walk.numel == 0 || walk.dims > kNestDims || !walk.is_short()) return false;
  const int device = lines.dst.device().index;
  const int64_t item = lines.dst.element_size();
  const IndexRange& along = lines.range;
  const FaultSlot fault = next_fault_slot(device, along.op, along.dim, along.size);
  std::array<int64_t, 2> reach{};
  for (size_t d = 0; d < size_t(walk.dims); ++d)
    for (size_t o = 0; o < 2; ++o) reach[o] += (walk.sizes[d] - 1) * walk.strides[d][o];
  WriteAtArgs args{};
  args.count = 1;
  args.fault = static_cast<IndexFault*>(fault.record);
  WriteAtArgs::Write& w = args.writes[0];
  w.out = lines.dst.data();
  w.source = lines.src.data();
  w.index = lines.index.data<const i64>();
  w.lines = walk.numel;
  w.size = along.size;
  w.stride = along.stride;
  w.launch = fault.launch;
  w.wraps = along.wraps;
  w.nest = walk.nest<u32>();
  w.out_bytes = (reach[0] + (along.size - 1) * along.stride + 1) * item;
  w.source_bytes = (reach[1] + 1) * item;
  launch_joined(kWrite, uint64_t(item), device, blocks_for(walk.numel, device), {kThreads}, args,
                join_writes);
  return true;
}

}  // namespace rush::cuda
