// Steps of optimisers on GPUs: one launch for all parameters of a type.
#include "device/optim.h"

#include <cstring>
#include <vector>

#include "cuda/runtime/graph.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/loops.h"

namespace rush::cuda {
namespace {

static_assert(kOptimizerPointers == 2 + kMaxOptimizerStates &&
              kOptimizerNumbers == kMaxOptimizerNumbers &&
              kOptimizerScalars == kMaxOptimizerScalars &&
              kOptimizerOptions == kMaxOptimizerOptions);

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
const KernelFamily kStep{"optimizer.cu", spell};

std::string spell_numbers(uint64_t key) {
  constexpr const char* names[] = {"Sgd",     "Adam",     "NAdam",   "RAdam", "Adamax",
                                   "Adagrad", "Adadelta", "RmsProp", "Rprop", "Asgd"};
  return concat("rush::optimizer_numbers<rush::optimizers::", names[key], "Numbers>");
}
const KernelFamily kNumbers{"optimizer.cu", spell_numbers};

// Bytes on the device, beside whatever is queued. Inside a captured graph they stay as they are.
struct Table {
  Tensor held;
  char* data;

  Table(const std::vector<char>& bytes, Device device) {
    Stream* stream = current_stream(device.index);
    if (Graph* graph = capture_of(stream)) [[unlikely]] {
      data = static_cast<char*>(graph->constant(bytes.data(), bytes.size()));
      return;
    }
    held = make_tensor(Dims{int64_t(bytes.size())}, DType::UInt8, device);
    data = held.data<char>();
    bind(device.index);
    // The driver has copied it aside when the call returns.
    must(driver().MemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(data), bytes.data(), bytes.size(),
                                  stream->handle()),
         "optimizer_step");
  }
};

void work_out_numbers(const OptimizerFormula& formula, OptimizerTarget* targets, int64_t n,
                      int device) {
  OptimizerNumbersArgs args{};
  args.tensors = targets;
  args.n = n;
  args.wide = formula.wide;
  for (int k = 0; k < kOptimizerOptions; ++k) {
    args.options[k] = formula.options[k];
    args.places[k] = formula.places[k];
  }
  launch_each(kNumbers, uint64_t(formula.numbers), device, n, args);
}

void step_of_type(OptimizerRule rule, std::span<const OptimizerTensor> tensors,
                  const OptimizerFormula* formula, DType type, Device device) {
  std::vector<OptimizerTarget> entries;
  std::vector<OptimizerPiece> pieces;
  for (const OptimizerTensor& t : tensors) {
    if (t.dtype != type || (t.numel == 0 && !formula)) continue;
    OptimizerTarget e{};
    for (int k = 0; k < kOptimizerPointers; ++k) e.ptrs[k] = t.ptrs[k];
    e.numel = t.numel;
    std::memcpy(e.numbers, t.numbers, sizeof e.numbers);
    for (int k = 0; k < kOptimizerScalars; ++k) e.scalars[k] = t.scalars[k];
    const int64_t count = (t.numel + kOptimizerPiece - 1) / kOptimizerPiece;
    for (int64_t k = 0; k < count; ++k) pieces.push_back({uint32_t(entries.size()), uint32_t(k)});
    entries.push_back(e);
  }
  if (entries.empty()) return;
  // One upload for both lists.
  const size_t first = entries.size() * sizeof(OptimizerTarget);
  std::vector<char> both(first + pieces.size() * sizeof(OptimizerPiece));
  std::memcpy(both.data(), entries.data(), first);
  if (!pieces.empty()) std::memcpy(both.data() + first, pieces.data(), both.size() - first);
  const Table table(both, device);
  auto* targets = reinterpret_cast<OptimizerTarget*>(table.data);
  if (formula) work_out_numbers(*formula, targets, int64_t(entries.size()), device.index);
  if (pieces.empty()) return;
  const OptimizerArgs args{targets, reinterpret_cast<const OptimizerPiece*>(table.data + first)};
  launch(kStep, uint64_t(rule) << 4 | uint64_t(type), device.index, {unsigned(pieces.size())},
         {kThreads}, args);
}

void optimizer_step(OptimizerRule rule, std::span<const OptimizerTensor> tensors,
                    const OptimizerFormula* formula, Device device) {
  for (const DType type : {DType::Float32, DType::Float16, DType::BFloat16, DType::Float64})
    step_of_type(rule, tensors, formula, type, device);
}

const bool registered = [] {
  optim_loops(DeviceType::CUDA) = {optimizer_step, true};
  return true;
}();

}  // namespace
}  // namespace rush::cuda
