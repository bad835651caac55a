// programs.h: the recordings of a frozen function, finding the one that fits a call, and running it.
#pragma once

#include <bit>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "bindings/frozen/guards.h"
#include "core/modes.h"
#include "jit/captured.h"
#include "ops/autocast/autocast.h"

namespace rush::py {

inline constexpr int64_t kFirstCalls = 3;  // of a recording, that run Python

// The modes that decide what a function does.
struct ModeKey {
  uint32_t modes = 0;
  DType dtype{};
  Device device;
  std::array<std::pair<bool, DType>, kDeviceTypeCount> autocast;
  bool operator==(const ModeKey&) const = default;

  static ModeKey now() {
    constexpr uint32_t mask = kNoGrad | kInferenceMode | kForward | kSavedTensorHooks;
    ModeKey key{t_modes & mask, default_dtype(), default_device(), {}};
    for (int i = 0; i < kDeviceTypeCount; ++i) {
      const bool on = autocast_enabled(DeviceType(i));
      key.autocast[size_t(i)] = {on, on ? autocast_dtype(DeviceType(i)) : DType{}};
    }
    return key;
  }
};

// A number of the recording that follows one that the guards see.
struct FloatUse {
  jit::FloatPlace place;
  std::vector<uint32_t> from;  // which of the guards' floats; several: all of them had its value
};

struct Program {
  ModeKey modes;
  Guards guards;
  jit::Recording recording;
  std::shared_ptr<jit::Graph> graph;  // the recording's, with the numbers of the last call
  std::vector<FloatUse> uses;
  std::vector<double> numbers;  // in `graph`, one per use
  std::unordered_set<const TensorImpl*> state;
  std::vector<std::optional<jit::TensorFacts>> first_look;  // of the positional arguments
  Handle leaves, rebuild;  // the outputs: None stands for the next tensor; how to pack them
  std::string refused;     // why it cannot be replayed
  int64_t calls = 0, replays = 0, audits = 0;
  bool defers = false;
  std::shared_ptr<jit::Captured> captured;  // made at the first replay

  bool audit_is_next() const {
    return calls < kFirstCalls || std::has_single_bit(uint64_t(calls + 1));
  }
};
using ProgramPointer = std::shared_ptr<Program>;

struct Cache {
  std::vector<ProgramPointer> programs;  // the last used one first
  ExecutedCode known;                    // what ran in any recorded call
  std::string miss;                      // why the last one that was looked at did not fit
  std::shared_ptr<jit::CaptureMemory> memory = std::make_shared<jit::CaptureMemory>();
};

// What a call looks like to the guards.
struct Call {
  PyObject *function, *also, *args, *kwargs;
  bool fits(Guards& g, std::vector<Tensor>& inputs, std::vector<double>& floats,
            Guards::Leniency leniency = Guards::Leniency::None) const {
    return g.check(function, also, args, kwargs, inputs, floats, leniency);
  }
};

inline bool same_bits(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

// Of the tensors that the program uses from outside: are they as they were, and none an input?
bool state_fits(const Program& p, const std::vector<Tensor>& inputs, std::string& miss);
// What can be seen of arguments without the whole walk.
std::vector<std::optional<jit::TensorFacts>> first_look(PyObject* args);

struct Found {
  ProgramPointer program;
  std::vector<Tensor> inputs;
  std::vector<double> floats;
};
Found find(Cache& cache, const Call& call, const ModeKey& modes);

// Gives the program's graph the numbers of a call.
void set_numbers(Program& p, const std::vector<double>& floats);
// What the function would return.
PyObject* replay(const Cache& cache, const ProgramPointer& p, const Found& found);

}  // namespace rush::py
