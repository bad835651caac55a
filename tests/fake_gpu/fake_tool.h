// fake_tool.h: what the driver without a GPU tells the CUPTI without a GPU.
#pragma once

#include <cstddef>

#include "cuda/runtime/driver.h"

struct FakeWork {
  enum Kind { Kernel, Copy, Fill, Wait };
  unsigned call;  // the function's number in CUPTI
  Kind kind;
  int direction = 0;  // of a copy: CUPTI's number of its kind
  rush::cuda::CUstream stream = nullptr;
  int device = 0;
  size_t bytes = 0;
  const char* name = nullptr;
  unsigned grid = 1, block = 1, graph = 0, count = 1;
};
using FakeTool = void (*)(const FakeWork&);
extern "C" __attribute__((visibility("default"))) FakeTool fake_cuda_tool;
