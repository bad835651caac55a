// fake_cufft.cpp: a libcufft.so.12 that transforms nothing and writes down what it is asked for, a
// line a call, into the file that FAKE_CUFFT_LOG names.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>

#include "cuda/vendor/cufft.h"

using namespace rush::cuda;
using namespace rush::cuda::fft;

namespace {

struct Plan {
  CUstream stream = nullptr;
  void* memory = nullptr;
  bool made = false;
};
std::mutex g_mutex;
std::map<Handle, Plan> g_plans;
int g_next = 1;

template <class... A>
void note(const char* format, A... args) {
  static std::FILE* log = std::fopen(std::getenv("FAKE_CUFFT_LOG"), "a");
  std::fprintf(log, format, args...);
  std::fflush(log);
}
// Like the real one: a plan that was destroyed is not known any more.
Plan* find(Handle h) {
  const auto it = g_plans.find(h);
  return it == g_plans.end() ? nullptr : &it->second;
}

}  // namespace

#define FAKE(name) extern "C" __attribute__((visibility("default"))) int name

FAKE(cufftCreate)(Handle* h) {
  const std::lock_guard lock(g_mutex);
  g_plans[*h = g_next++];
  return 0;
}
FAKE(cufftDestroy)(Handle h) {
  const std::lock_guard lock(g_mutex);
  note("destroy\n");
  return g_plans.erase(h) ? 0 : 1;
}
FAKE(cufftSetAutoAllocation)(Handle h, int on) {
  const std::lock_guard lock(g_mutex);
  return find(h) && on == 0 ? 0 : 1;
}
FAKE(cufftSetWorkArea)(Handle h, void* memory) {
  const std::lock_guard lock(g_mutex);
  if (!find(h)) return 1;
  find(h)->memory = memory;
  return 0;
}
FAKE(cufftSetStream)(Handle h, CUstream s) {
  const std::lock_guard lock(g_mutex);
  if (!find(h)) return 1;
  find(h)->stream = s;
  return 0;
}
FAKE(cufftXtMakePlanMany)(Handle h, int rank, long long* n, long long* in_sizes,
                          long long in_stride, long long in_step, DataType in_type,
                          long long* out_sizes, long long out_stride, long long out_step,
                          DataType out_type, long long batch, size_t* memory, DataType type) {
  const std::lock_guard lock(g_mutex);
  if (!find(h) || find(h)->made) return 1;
  find(h)->made = true;
  if (n[0] == 4099) return 8;  // a size that it does not take
  note("plan");
  for (int i = 0; i < rank; ++i) note(" %lld", n[i]);
  note(" | %lld %lld %lld %d | %lld %lld %lld %d | %lld %d\n", in_sizes[rank - 1], in_stride,
       in_step, in_type, out_sizes[rank - 1], out_stride, out_step, out_type, batch, type);
  *memory = 1 << 20;
  return 0;
}
FAKE(cufftXtExec)(Handle h, void* in, void* out, int direction) {
  const std::lock_guard lock(g_mutex);
  const Plan* plan = find(h);
  if (!plan || !plan->made || !plan->memory) return 1;
  note("run %d %s %s\n", direction, plan->stream ? "stream" : "default",
       in == out ? "in place" : "apart");
  return 0;
}
