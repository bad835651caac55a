// cudnn_graph.h: cuDNN's graph interface, as far as convolutions and attention need it.
//
// The older calls build such a graph, ask the heuristics and look up the kernel at every call: that
// was 60% of the host's time in a small step. A plan is made once, and running it is a launch.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "cuda/runtime/library_call.h"
#include "cuda/vendor/cudnn.h"

namespace rush::cuda::dnn {

// What a descriptor is, which of its attributes is meant, and what type the values have.
enum DescriptorKind : int {
  kPointwise = 0,
  kConvolution = 1,
  kEngine = 2,
  kEngineConfig = 3,
  kEngineHeuristics = 4,
  kExecutionPlan = 5,
  kConvolutionForward = 10,
  kConvolutionBackwardFilter = 11,
  kConvolutionBackwardData = 12,
  kPointwiseOperation = 13,
  kOperationGraph = 15,
  kVariantPack = 16,
  kTensor = 17,
  kMatmul = 18,
  kMatmulOperation = 19,
  kReduction = 21,
  kReductionOperation = 22,
  kReshapeOperation = 31,
};
enum Attribute : int {
  kPointwiseMode = 0,
  kPointwiseCompute = 1,
  kPointwiseAxis = 9,
  kConvCompute = 100,
  kConvMode = 101,
  kConvDilations = 102,
  kConvStrides = 103,
  kConvPostPadding = 104,
  kConvPrePadding = 105,
  kConvSpatialDims = 106,
  kHeuristicsMode = 200,
  kHeuristicsGraph = 201,
  kHeuristicsResults = 202,
  kConfigEngine = 300,
  kPlanHandle = 400,
  kPlanConfig = 401,
  kPlanWorkspace = 402,
  kForwardFirst = 700,         // alpha, beta, convolution, w, x, y
  kBackwardDataFirst = 706,    // alpha, beta, convolution, w, dx, dy
  kBackwardFilterFirst = 712,  // alpha, beta, convolution, dw, x, dy
  kPointwiseConfig = 750,
  kPointwiseX = 751,
  kPointwiseB = 752,
  kPointwiseY = 753,
  kPointwiseT = 758,
  kGraphHandle = 800,
  kGraphOps = 801,
  kTensorAlignment = 900,
  kTensorType = 901,
  kTensorSizes = 902,
  kTensorStrides = 903,
  kTensorId = 906,
  kTensorIsVirtual = 907,
  kTensorIsByValue = 908,
  kPackIds = 1000,
  kPackPointers = 1001,
  kPackWorkspace = 1003,
  kEngineNumericalNotes = 1303,
  kEngineBehaviorNotes = 1305,
  kMatmulCompute = 1500,
  kMatmulA = 1520,
  kMatmulB = 1521,
  kMatmulC = 1522,
  kMatmulConfig = 1523,
  kReductionOperator = 1600,
  kReductionCompute = 1601,
  kReductionX = 1610,
  kReductionY = 1611,
  kReductionConfig = 1612,
  kReshapeX = 2200,
  kReshapeY = 2201,
};
enum ValueType : int {
  kHandleValue = 0,
  kDataTypeValue = 1,
  kBoolValue = 2,
  kInt64Value = 3,
  kFloatValue = 4,
  kDoubleValue = 5,
  kPointerValue = 6,
  kConvModeValue = 7,
  kHeuristicsModeValue = 8,
  kNumericalNoteValue = 11,
  kPointwiseModeValue = 14,
  kDescriptorValue = 15,
  kReductionOperatorValue = 18,
  kBehaviorNoteValue = 19,
};
enum HeuristicsMode : int { kHeuristicsFallback = 2, kHeuristicsA = 3 };
enum NumericalNote : int { kUsesTensorCores = 0, kNondeterministic = 4 };
enum BehaviorNote : int { kCompilesAtRunTime = 0 };

// One descriptor of a graph, owned.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(DescriptorKind kind);
  Descriptor(Descriptor&& other) noexcept : raw_(other.raw_) { other.raw_ = nullptr; }
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(raw_, other.raw_);
    return *this;
  }
  ~Descriptor();

  void set(Attribute name, ValueType type, int64_t count, const void* values);
  void set(Attribute name, std::span<const int64_t> values) {
    set(name, kInt64Value, int64_t(values.size()), values.data());
  }
  void set(Attribute name, int64_t value) { set(name, kInt64Value, 1, &value); }
  void set(Attribute name, const Descriptor& other) { set(name, kDescriptorValue, 1, &other.raw_); }
  void set(Attribute name, Handle handle) { set(name, kHandleValue, 1, &handle); }
  void finish();
  bool try_to_finish();  // false: cuDNN cannot do it
  // As many as there are, at most values.size().
  int64_t get(Attribute name, ValueType type, std::span<int> values) const;
  int64_t get_int(Attribute name) const;
  BackendDesc raw() const { return raw_; }
  bool defined() const { return raw_ != nullptr; }

 private:
  BackendDesc raw_ = nullptr;
};

// Where a tensor of a graph lies: in memory, nowhere (one operation passes it to the next), or on
// the host, as a number that is read when the graph runs.
enum class Place { Memory, Virtual, Host };

// A tensor of a graph: sizes and strides in elements, and the number it goes by.
Descriptor tensor_descriptor(int64_t id, DataType type, std::span<const int64_t> sizes,
                             std::span<const int64_t> strides, int64_t alignment,
                             Place place = Place::Memory);

// What an engine must not be.
struct Conditions {
  bool no_tensor_cores = false, deterministic = false;
  int64_t most_workspace = 0;
  // Engines that compile their kernels first cost seconds; by default they come last.
  bool compiling_is_fine = false;
};

// A graph, planned for one engine.
class Plan {
 public:
  Plan(Descriptor plan, int64_t workspace)
      : plan_(std::move(plan)), workspace_(workspace), number_(next_plan_number()) {}
  Plan(Plan&&) = default;
  Plan& operator=(Plan&&) = default;
  ~Plan();
  int64_t workspace() const { return workspace_; }
  uint64_t number() const { return number_; }
  void run(Handle handle, std::span<const int64_t> ids, std::span<void* const> data,
           void* workspace) const;

 private:
  Descriptor plan_;
  int64_t workspace_;
  uint64_t number_;
};

// The first engines of the heuristics that meet the conditions, best first; at most `wanted`, none
// when cuDNN cannot do it.
std::vector<Plan> find_plans(Handle handle, std::span<const Descriptor> operations,
                             const Conditions& conditions, size_t wanted);

}  // namespace rush::cuda::dnn
