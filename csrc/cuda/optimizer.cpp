// Steps of optimisers on GPUs: one launch for all parameters of a type.
#include "cpu/optimizer.h"

#include <cstring>
#include <vector>

#include "cpu/device_loops.h"
#include "cuda/launch.h"
#include "cuda/loops.h"

namespace rush::cuda {
namespace {

static_assert(kOptimizerPointers == 2 + kMaxOptimizerStates &&
              kOptimizerNumbers == kMaxOptimizerNumbers);

// Key: the rule, then the type of memory.
std::string spell(uint64_t key) {
  constexpr const char* rules[kOptimizerRules] = {"Sgd",
                                                  "SgdMomentum",
                                                  "Adam",
                                                  "AdamMax",
                                                  "NAdam",
                                                  "RAdam",
                                                  "Adamax",
                                                  "Adagrad",
                                                  "Adadelta",
                                                  "RmsProp",
                                                  "RmsPropMomentum",
                                                  "RmsPropCentered",
                                                  "RmsPropCenteredMomentum",
                                                  "Rprop",
                                                  "Asgd"};
  const DType type = DType(key & 15);
  return concat("rush::optimizer_step<rush::optimizers::", rules[key >> 4], ", ", kernel_type(type),
                ", ", type == DType::Float64 ? "double" : "float", ">");
}
constexpr KernelFamily kStep{kOptimizerFamily, "optimizer.cu", spell};

void step_of_type(OptimizerRule rule, std::span<const OptimizerTensor> tensors, DType type,
                  Device device) {
  std::vector<OptimizerTarget> entries;
  std::vector<OptimizerPiece> pieces;
  for (const OptimizerTensor& t : tensors) {
    if (t.dtype != type || t.numel == 0) continue;
    OptimizerTarget e;
    for (int k = 0; k < kOptimizerPointers; ++k) e.ptrs[k] = t.ptrs[k];
    e.numel = t.numel;
    std::memcpy(e.numbers, t.numbers, sizeof e.numbers);
    const int64_t count = (t.numel + kOptimizerPiece - 1) / kOptimizerPiece;
    for (int64_t k = 0; k < count; ++k) pieces.push_back({uint32_t(entries.size()), uint32_t(k)});
    entries.push_back(e);
  }
  if (pieces.empty()) return;
  // One upload for both lists. The driver has copied it aside when the call returns.
  const size_t first = entries.size() * sizeof(OptimizerTarget);
  std::vector<char> both(first + pieces.size() * sizeof(OptimizerPiece));
  std::memcpy(both.data(), entries.data(), first);
  std::memcpy(both.data() + first, pieces.data(), both.size() - first);
  const Tensor table = make_tensor(Dims{int64_t(both.size())}, DType::UInt8, device);
  bind(device.index);
  must(driver().MemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(table.data()), both.data(),
                                both.size(), current_stream(device.index)->handle),
       "optimizer_step");
  const OptimizerArgs args{reinterpret_cast<const OptimizerTarget*>(table.data()),
                           reinterpret_cast<const OptimizerPiece*>(table.data<char>() + first)};
  launch(kStep, uint64_t(rule) << 4 | uint64_t(type), device.index, {unsigned(pieces.size())},
         {kThreads}, args);
}

void optimizer_step(OptimizerRule rule, std::span<const OptimizerTensor> tensors, Device device) {
  for (const DType type : {DType::Float32, DType::Float16, DType::BFloat16, DType::Float64})
    step_of_type(rule, tensors, type, device);
}

const bool registered = [] {
  device_loops(DeviceType::CUDA).optimizer_step = optimizer_step;
  return true;
}();

}  // namespace
}  // namespace rush::cuda
