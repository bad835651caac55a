// What it costs to set the arguments of a graph's kernels before each launch of it.
//
//   nvcc -O2 -std=c++17 -arch=sm_90 benchmarks/graph_arguments.cu -o graph_arguments && ./graph_arguments
//
// 2,048 dependent kernels over 4,096 floats, with 16 to 1,000 bytes of arguments each: singly, and as
// graphs of 2 to 32 whose nodes are all set each time, to the kernels they had ("same") or to others
// ("changed"). docs/decisions/segments_of_launches.md quotes it.
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                 \
  do {                                                                              \
    const cudaError_t error = (call);                                               \
    if (error != cudaSuccess) {                                                     \
      std::printf("%s, line %d: %s\n", #call, __LINE__, cudaGetErrorString(error)); \
      std::exit(1);                                                                 \
    }                                                                               \
  } while (0)

constexpr int kFloats = 4096, kKernels = 2048, kRounds = 5;

template <int N>
struct Args {
  float* x;
  int n;
  char rest[N];
};

template <int N, int K>
__global__ void step(Args<N> args) {
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < args.n) args.x[i] = args.x[i] * 0.5f + float(K);
}

template <int N>
void add_to(std::vector<void*>& all) {
  for (void* f : {(void*)step<N, 0>, (void*)step<N, 1>, (void*)step<N, 2>, (void*)step<N, 3>})
    all.push_back(f);
}

double now() {
  const auto t = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::micro>(t).count();
}

// The best of some rounds, microseconds per kernel by the wall's clock.
template <class F>
double timed(F run) {
  double best = 1e18;
  for (int r = 0; r < kRounds; ++r) {
    CHECK(cudaStreamSynchronize(nullptr));
    const double start = now();
    run();
    CHECK(cudaStreamSynchronize(nullptr));
    best = std::min(best, now() - start);
  }
  return best / kKernels;
}

int main() {
  std::vector<void*> kernels;
  add_to<16>(kernels), add_to<112>(kernels), add_to<368>(kernels), add_to<1000>(kernels);
  static char bytes[4096];
  CHECK(cudaMalloc(reinterpret_cast<void**>(bytes), kFloats * sizeof(float)));
  *reinterpret_cast<int*>(bytes + 8) = kFloats;
  void* args[] = {bytes};
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(kFloats / 256), config.blockDim = dim3(256);
  config.attrs = &early, config.numAttrs = 1;

  std::printf("singly: %.2f us per kernel\n", timed([&] {
                for (int i = 0; i < kKernels; ++i)
                  CHECK(cudaLaunchKernelExC(&config, kernels[size_t(i) % kernels.size()], args));
              }));
  for (const int length : {2, 4, 8, 16, 32}) {
    cudaStream_t side;
    CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    config.stream = side;
    std::vector<cudaGraphNode_t> nodes;
    CHECK(cudaStreamBeginCapture(side, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < length; ++i) {
      CHECK(cudaLaunchKernelExC(&config, kernels[size_t(i) % kernels.size()], args));
      cudaStreamCaptureStatus status;
      const cudaGraphNode_t* last = nullptr;
      const cudaGraphEdgeData* edges = nullptr;
      size_t count = 0;
      CHECK(cudaStreamGetCaptureInfo(side, &status, nullptr, nullptr, &last, &edges, &count));
      nodes.push_back(last[0]);
    }
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamEndCapture(side, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    cudaKernelNodeParams node{};
    node.gridDim = config.gridDim, node.blockDim = config.blockDim, node.kernelParams = args;
    for (const bool changed : {false, true}) {
      size_t turn = 0;
      const double each = timed([&] {
        for (int launched = 0; launched < kKernels; launched += length, turn += changed) {
          for (size_t i = 0; i < nodes.size(); ++i) {
            node.func = kernels[(i + turn) % kernels.size()];
            CHECK(cudaGraphExecKernelNodeSetParams(exec, nodes[i], &node));
          }
          CHECK(cudaGraphLaunch(exec, nullptr));
        }
      });
      std::printf("graphs of %d, %s: %.2f us per kernel\n", length, changed ? "changed" : "same",
                  each);
    }
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(side));
  }
}
