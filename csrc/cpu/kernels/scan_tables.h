// scan_tables.h: what the kernel files for scans export.
#pragma once

#include <cstdint>

#include "cpu/kernels/tables.h"
#include "device/fns.h"

namespace rush {

inline constexpr int kScans = 5;

// x, out and indices lie end to end; `indices` is null for scans without positions.
struct ScanKernel {
  int acc_size = 0;
  const void* blank = nullptr;
  // The next n elements of one line, the first at `position`.
  void (*row)(const char* x, char* out, int64_t* indices, int64_t n, char* acc,
              int64_t position) = nullptr;
  // The next element of each of n lines.
  void (*columns)(const char* x, char* out, int64_t* indices, int64_t n, char* accs,
                  int64_t position) = nullptr;
};
struct ScanTable {
  ScanKernel scans[kScans];
};

template <Isa isa, class T>
const ScanTable* scan_table();

}  // namespace rush
