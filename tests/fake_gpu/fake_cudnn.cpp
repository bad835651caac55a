// fake_cudnn.cpp: a libcudnn.so.9 that has a plan for everything and computes nothing. What a plan launches
// is told to the CUPTI without a GPU (fake_cupti.cpp), one kernel per call. With FAKE_KEEPS_NAN, the first number of a
// convolution with a bias is nan.
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "cuda/vendor/cudnn.h"
#include "cuda/vendor/cudnn_graph.h"
#include "fake_tool.h"

using namespace rush::cuda;
using namespace rush::cuda::dnn;

namespace {

int g_relu;  // its address is the descriptor

constexpr unsigned kLaunch = 307;  // cuLaunchKernel's number in CUPTI

int launch(const char* name) {
  if (fake_cuda_tool) fake_cuda_tool({.call = kLaunch, .kind = FakeWork::Kernel, .name = name});
  return 0;
}
template <class Desc>
int make(Desc* desc) {
  static int anything;
  *desc = reinterpret_cast<Desc>(&anything);
  return 0;
}

}  // namespace

#define FAKE(name) extern "C" __attribute__((visibility("default"))) int name

FAKE(cudnnCreate)(Handle* h) { return make(h); }
FAKE(cudnnDestroy)(Handle) { return 0; }
FAKE(cudnnSetStream)(Handle, CUstream) { return 0; }
FAKE(cudnnCreateTensorDescriptor)(TensorDesc* d) { return make(d); }
FAKE(cudnnDestroyTensorDescriptor)(TensorDesc) { return 0; }
FAKE(cudnnSetTensorNdDescriptor)(TensorDesc, DataType, int, const int*, const int*) { return 0; }
FAKE(cudnnCreateFilterDescriptor)(FilterDesc* d) { return make(d); }
FAKE(cudnnDestroyFilterDescriptor)(FilterDesc) { return 0; }
FAKE(cudnnSetFilterNdDescriptor)(FilterDesc, DataType, Format, int, const int*) { return 0; }
FAKE(cudnnCreateConvolutionDescriptor)(ConvDesc* d) { return make(d); }
FAKE(cudnnDestroyConvolutionDescriptor)(ConvDesc) { return 0; }
FAKE(cudnnSetConvolutionNdDescriptor)(ConvDesc, int, const int*, const int*, const int*, int,
                                      DataType) {
  return 0;
}
FAKE(cudnnSetConvolutionGroupCount)(ConvDesc, int) { return 0; }
FAKE(cudnnSetConvolutionMathType)(ConvDesc, MathType) { return 0; }
FAKE(cudnnGetConvolutionForwardAlgorithm_v7)(Handle, TensorDesc, FilterDesc, ConvDesc, TensorDesc,
                                             int, int* found, AlgorithmPerf* perf) {
  std::memset(perf, 0, sizeof *perf);
  perf->algorithm = kImplicitPrecomputedGemm;
  *found = 1;
  return 0;
}
FAKE(cudnnBackendCreateDescriptor)(int, BackendDesc* d) { return make(d); }
FAKE(cudnnBackendDestroyDescriptor)(BackendDesc) { return 0; }
FAKE(cudnnBackendFinalize)(BackendDesc) { return 0; }
FAKE(cudnnBackendSetAttribute)(BackendDesc, int, int, int64_t, const void*) { return 0; }
// One engine, without notes or workspace.
FAKE(cudnnBackendGetAttribute)(BackendDesc, int, int type, int64_t, int64_t* count, void*) {
  *count = type == kDescriptorValue;
  return 0;
}
FAKE(cudnnBackendExecute)(Handle, BackendDesc, BackendDesc) { return launch("cudnn_plan"); }
// The first that is made is none, the second relu.
FAKE(cudnnCreateActivationDescriptor)(ActivationDesc* d) {
  static int made = 0;
  if (made++ == 0) return make(d);
  *d = reinterpret_cast<ActivationDesc>(&g_relu);
  return 0;
}
FAKE(cudnnSetActivationDescriptor)(ActivationDesc d, int kind, int, double) {
  return (kind == kRelu) == (d == reinterpret_cast<ActivationDesc>(&g_relu)) ? 0 : 3;
}
FAKE(cudnnConvolutionBiasActivationForward)(Handle, const void*, TensorDesc, const void*,
                                            FilterDesc, const void*, ConvDesc, int, void*, size_t,
                                            const void*, TensorDesc, const void*, TensorDesc,
                                            const void*, ActivationDesc activation, TensorDesc,
                                            void* y) {
  if (std::getenv("FAKE_KEEPS_NAN")) *static_cast<float*>(y) = NAN;
  const bool relu = activation == reinterpret_cast<ActivationDesc>(&g_relu);
  return launch(relu ? "cudnn_with_bias_and_relu" : "cudnn_with_bias");
}
extern "C" const char* cudnnGetErrorString(int) { return "none"; }
extern "C" size_t cudnnGetVersion() { return 91000; }
