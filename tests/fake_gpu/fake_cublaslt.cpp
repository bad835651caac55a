// fake_cublaslt.cpp: a libcublasLt.so.13 that multiplies nothing. A product is a kernel of the fake
// driver's, in the stream that it is given, by the name of "product" and with a number as its grid:
// that of its first factor's address, in the order of their first use. So products can be captured,
// and a driver's log tells them apart. FAKE_CUBLASLT_LOG names a file that gets a line per call. With
// FAKE_KEEPS_NAN, the first number of a result is nan.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>

#include "cuda/vendor/cublas.h"

using namespace rush::cuda;
using namespace rush::cuda::lt;

#define FAKE(name) extern "C" __attribute__((visibility("default"))) int name

extern "C" {
CUresult cuModuleLoadData(CUmodule* m, const void* image);
CUresult cuModuleGetFunction(CUfunction* f, CUmodule m, const char* name);
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** params, void** extra);
}

namespace {

std::mutex g_mutex;
std::map<const void*, unsigned> g_numbers;

CUfunction product() {
  static const CUfunction made = [] {
    CUmodule m = nullptr;
    CUfunction f = nullptr;
    cuModuleLoadData(&m, nullptr);
    cuModuleGetFunction(&f, m, "product");
    return f;
  }();
  return made;
}

template <class T>
int make(T* to) {
  static char something;
  *to = reinterpret_cast<T>(&something);
  return 0;
}

}  // namespace

FAKE(cublasLtCreate)(Handle* h) { return make(h); }
FAKE(cublasLtMatmulDescCreate)(MatmulDesc* d, ComputeType, DataType) { return make(d); }
FAKE(cublasLtMatmulDescDestroy)(MatmulDesc) { return 0; }
FAKE(cublasLtMatmulDescSetAttribute)(MatmulDesc, DescAttribute, const void*, size_t) { return 0; }
FAKE(cublasLtMatrixLayoutCreate)(Layout* l, DataType, uint64_t, uint64_t, int64_t) {
  return make(l);
}
FAKE(cublasLtMatrixLayoutDestroy)(Layout) { return 0; }
FAKE(cublasLtMatrixLayoutSetAttribute)(Layout, LayoutAttribute, const void*, size_t) { return 0; }
FAKE(cublasLtMatmulPreferenceCreate)(Preference* p) { return make(p); }
FAKE(cublasLtMatmulPreferenceDestroy)(Preference) { return 0; }
FAKE(cublasLtMatmulPreferenceSetAttribute)(Preference, PreferenceAttribute, const void*, size_t) {
  return 0;
}
FAKE(cublasLtMatmulAlgoGetHeuristic)(Handle, MatmulDesc, Layout, Layout, Layout, Layout, Preference,
                                     int, Heuristic* results, int* found) {
  *results = Heuristic{};
  results->workspace = 4096;
  *found = 1;
  return 0;
}
FAKE(cublasLtMatmul)(Handle, MatmulDesc, const void*, const void* a, Layout, const void*, Layout,
                     const void*, const void*, Layout, void* result, Layout, const Algorithm*,
                     void*, size_t, CUstream stream) {
  const std::lock_guard lock(g_mutex);
  if (const char* path = std::getenv("FAKE_CUBLASLT_LOG")) {
    std::FILE* log = std::fopen(path, "a");
    std::fputs(stream ? "product in a stream\n" : "product\n", log);
    std::fclose(log);
  }
  if (std::getenv("FAKE_KEEPS_NAN")) *static_cast<float*>(result) = NAN;
  // FAKE_CUBLASLT_REFUSES: nothing can be captured.
  if (stream && std::getenv("FAKE_CUBLASLT_REFUSES")) return 15;
  const auto number = g_numbers.emplace(a, unsigned(g_numbers.size() + 1)).first->second;
  const CUlaunchConfig config{number, 1, 1, 1, 1, 1, 0, stream, nullptr, 0};
  return cuLaunchKernelEx(&config, product(), nullptr, nullptr) == kSuccess ? 0 : 13;
}
