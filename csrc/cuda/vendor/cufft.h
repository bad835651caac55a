// cufft.h: cuFFT, as far as we use it, opened at first use.
#pragma once

#include <cstddef>
#include <string>

#include "core/export.h"
#include "cuda/runtime/driver.h"

namespace rush::cuda::fft {

using Handle = int;
enum DataType : int { kR32F = 0, kR64F = 1, kC32F = 4, kC64F = 5 };
enum Direction : int { kForward = -1, kInverse = 1 };

// X(symbol, name here, parameters); all return a status, 0 is success.
#define RUSH_CUFFT(X)                                                                        \
  X(cufftCreate, Create, (Handle * plan))                                                    \
  X(cufftDestroy, Destroy, (Handle plan))                                                    \
  X(cufftSetAutoAllocation, SetAutoAllocation, (Handle plan, int on))                        \
  X(cufftSetWorkArea, SetWorkArea, (Handle plan, void* memory))                              \
  X(cufftSetStream, SetStream, (Handle plan, CUstream stream))                               \
  X(cufftXtMakePlanMany, MakePlan,                                                           \
    (Handle plan, int rank, long long* n, long long* in_sizes, long long in_stride,          \
     long long in_step, DataType in_type, long long* out_sizes, long long out_stride,        \
     long long out_step, DataType out_type, long long batch, size_t* memory, DataType type)) \
  X(cufftXtExec, Run, (Handle plan, void* in, void* out, int direction))

struct Library {
#define RUSH_MEMBER(symbol, name, params) int(*name) params = nullptr;
  RUSH_CUFFT(RUSH_MEMBER)
#undef RUSH_MEMBER
  std::string missing;
};

// Opened when first asked for; look at `missing` before use.
const Library& library();

}  // namespace rush::cuda::fft

namespace rush::cuda {

// Plans that are kept, of each device: see backends.cuda.cufft_plan_cache.
struct FftPlanCounts {
  int64_t plans, most;
};
RUSH_API FftPlanCounts fft_plan_counts(int device);
RUSH_API void set_most_fft_plans(int device, int64_t most);
RUSH_API void clear_fft_plans(int device);

}  // namespace rush::cuda
