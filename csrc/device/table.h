// table.h: one entry per device type; how ops reach what a device does for them.
//
// Each family of ops has a struct of function pointers and one such table:
//
//   extern DeviceTable<SortLoops> sort_loops;          device/sort.h, defined in device/sort.cpp; or
//   inline constinit DeviceTable<PoolLoops> pool_loops;    device/nn/pool.h
//   sort_loops(DeviceType::CPU).sort = sort;           cpu/sort/sort.cpp, as the program starts
//   sort_loops(x).sort(x, descending, values, order);  an op, whatever device x is on
//
// What a device does not fill in stays null: it has none.
#pragma once

#include "core/tensor.h"

namespace rush {

template <class Entry>
struct DeviceTable {
  Entry entries[kDeviceTypeCount] = {};

  // To fill it in.
  Entry& operator()(DeviceType type) { return entries[static_cast<int>(type)]; }

  const Entry& operator()(Device device) const { return entries[static_cast<int>(device.type)]; }
  const Entry& operator()(const Tensor& t) const { return (*this)(t.device()); }
};

}  // namespace rush
