// memory.cpp: the GPU allocator's counters, snapshots and settings.
#include "bindings/cuda/memory.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include "bindings/python.h"
#include "core/source.h"
#include "cuda/runtime/memory.h"
#include "cuda/runtime/memory_report.h"

namespace rush::py {
namespace {

namespace nb = nanobind;
using namespace rush::cuda;

nb::tuple as_tuple(const MemoryStat& s) {
  return nb::make_tuple(s.current, s.peak, s.gained, s.lost);
}

// name -> number, or ((current, peak, gained, lost) of all, large and small blocks).
nb::dict memory_counters(int device) {
  const GpuMemoryStats s = gpu_memory_stats(device);
  nb::dict d;
  const std::pair<const char*, const PoolStat&> pools[] = {
      {"blocks", s.blocks}, {"allocated", s.allocated}, {"requested", s.requested}};
  for (const auto& [name, stat] : pools)
    d[name] = nb::make_tuple(as_tuple(stat[0]), as_tuple(stat[1]), as_tuple(stat[2]));
  const std::pair<const char*, int64_t> rows[] = {
      {"reserved", s.reserved},
      {"peak_reserved", s.peak_reserved},
      {"driver_allocations", s.driver_allocations},
      {"driver_frees", s.driver_frees},
      {"retries", s.retries},
      {"out_of_memory", s.out_of_memory},
  };
  for (const auto& [name, value] : rows) d[name] = value;
  return d;
}

nb::object source_text(SourcePoint p) {
  if (!p || !g_source_host.describe) return nb::none();
  const std::string text = g_source_host.describe(p);
  return nb::str(text.c_str(), text.size());
}

uintptr_t number(const void* p) { return reinterpret_cast<uintptr_t>(p); }

nb::list snapshot() {
  constexpr const char* states[] = {"inactive", "active_allocated", "active_pending_free"};
  nb::list out;
  for (const GpuSegment& segment : gpu_memory_snapshot()) {
    nb::list blocks;
    for (const auto& block : segment.memory.blocks) {
      nb::dict b;
      b["address"] = number(block.p);
      b["size"] = block.size;
      b["requested_size"] = block.requested;
      b["state"] = states[int(block.state)];
      b["source"] = source_text(block.source);
      blocks.append(b);
    }
    nb::dict s;
    s["device"] = segment.device;
    s["address"] = number(segment.memory.p);
    s["total_size"] = segment.memory.size;
    s["stream"] = segment.stream;
    s["is_expandable"] = segment.memory.expandable;
    s["segment_pool_id"] = nb::make_tuple(segment.pool.first, segment.pool.second);
    s["segment_type"] = segment.small ? "small" : "large";
    s["blocks"] = blocks;
    out.append(s);
  }
  return out;
}

// (address, bytes, made while recording, shape or None, dtype or None, source line or None)
nb::list blocks_as_list(const std::vector<LiveBlock>& blocks) {
  nb::list out;
  for (const LiveBlock& b : blocks) {
    nb::object shape = nb::none(), dtype = nb::none();
    if (b.described) {
      nb::list sizes;
      for (const int64_t n : b.sizes) sizes.append(n);
      shape = nb::tuple(sizes);
      dtype = nb::str(std::string(name(b.dtype)).c_str());
    }
    out.append(
        nb::make_tuple(number(b.p), b.size, b.recording, shape, dtype, source_text(b.source)));
  }
  return out;
}

}  // namespace

void add_cuda_memory(nb::module_& m) {
  m.def("memory_counters", memory_counters);
  m.def("reset_peaks", reset_gpu_peaks);
  m.def("reset_totals", reset_gpu_totals);
  m.def("empty_cache", empty_gpu_cache);
  nb::class_<LastingMemory>(m, "LastingMemory")
      .def(nb::init<std::vector<std::pair<int, size_t>>>())
      .def("__enter__", &LastingMemory::enter)
      .def("__exit__", [](LastingMemory& m, nb::args) { m.leave(); });
  m.def("set_memory_fraction", set_memory_fraction);
  m.def("memory_fraction", memory_fraction);
  m.def("set_caching", set_gpu_caching);
  m.def("is_caching", gpu_caching);
  m.def("set_user_allocator", [](uintptr_t allocate, uintptr_t free) {
    UserGpuAllocator functions;
    functions.allocate = reinterpret_cast<decltype(functions.allocate)>(allocate);
    functions.free = reinterpret_cast<decltype(functions.free)>(free);
    set_user_gpu_allocator(functions);
  });
  m.def("set_expandable_segments", set_expandable_segments);
  m.def("expandable_segments", expandable_segments);
  m.def("snapshot", snapshot);
  m.def("live_blocks", [](int device) { return blocks_as_list(live_gpu_blocks(device)); });
  m.def("last_out_of_memory", [] { return blocks_as_list(take_last_out_of_memory()); });
  m.def("host_counters", [] {
    const PinnedMemoryStats s = pinned_memory_stats();
    return nb::make_tuple(s.reserved, s.peak_reserved, s.reserves, s.releases);
  });
}

}  // namespace rush::py
