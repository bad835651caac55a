#include "cuda/vendor/cudnn_graph.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "cuda/runtime/launch_batch.h"

namespace rush::cuda::dnn {
namespace {

constexpr const char* kWhat = "cudnn";

bool has_note(const Descriptor& engine, Attribute name, ValueType type, int note) {
  std::array<int, 16> notes;
  const int64_t count = engine.get(name, type, notes);
  return std::find(notes.begin(), notes.begin() + count, note) != notes.begin() + count;
}

}  // namespace

Descriptor::Descriptor(DescriptorKind kind) {
  done(library().CreateDescriptor(kind, &raw_), kWhat);
}
Descriptor::~Descriptor() {
  if (raw_) library().DestroyDescriptor(raw_);
}
void Descriptor::set(Attribute name, ValueType type, int64_t count, const void* values) {
  done(library().SetAttribute(raw_, name, type, count, values), kWhat);
}
void Descriptor::finish() { done(library().FinalizeDescriptor(raw_), kWhat); }
bool Descriptor::try_to_finish() { return library().FinalizeDescriptor(raw_) == 0; }
int64_t Descriptor::get(Attribute name, ValueType type, std::span<int> values) const {
  int64_t count = 0;
  done(library().GetAttribute(raw_, name, type, int64_t(values.size()), &count, values.data()),
       kWhat);
  return std::min(count, int64_t(values.size()));
}
int64_t Descriptor::get_int(Attribute name) const {
  int64_t value = 0, count = 0;
  done(library().GetAttribute(raw_, name, kInt64Value, 1, &count, &value), kWhat);
  return value;
}

Descriptor tensor_descriptor(int64_t id, DataType type, std::span<const int64_t> sizes,
                             std::span<const int64_t> strides, int64_t alignment, Place place) {
  Descriptor t(kTensor);
  t.set(kTensorType, kDataTypeValue, 1, &type);
  t.set(kTensorSizes, sizes);
  t.set(kTensorStrides, strides);
  t.set(kTensorId, id);
  t.set(kTensorAlignment, alignment);
  const bool yes = true;
  if (place == Place::Virtual) t.set(kTensorIsVirtual, kBoolValue, 1, &yes);
  if (place == Place::Host) t.set(kTensorIsByValue, kBoolValue, 1, &yes);
  t.finish();
  return t;
}

namespace {

void add_plans(Handle handle, const Descriptor& graph, HeuristicsMode mode,
               const Conditions& conditions, bool may_compile, size_t wanted,
               std::vector<Plan>& found) {
  Descriptor heuristics(kEngineHeuristics);
  heuristics.set(kHeuristicsGraph, graph);
  heuristics.set(kHeuristicsMode, kHeuristicsModeValue, 1, &mode);
  if (!heuristics.try_to_finish()) return;
  constexpr int64_t kMostConfigs = 16;
  std::vector<Descriptor> configs;
  std::vector<BackendDesc> raw;
  for (int64_t i = 0; i < kMostConfigs; ++i) {
    configs.emplace_back(kEngineConfig);
    raw.push_back(configs.back().raw());
  }
  int64_t count = 0;
  if (library().GetAttribute(heuristics.raw(), kHeuristicsResults, kDescriptorValue, kMostConfigs,
                             &count, raw.data()) != 0)
    return;
  for (size_t i = 0; i < size_t(std::min(count, kMostConfigs)) && found.size() < wanted; ++i) {
    Descriptor engine(kEngine);
    BackendDesc its = engine.raw();
    int64_t one = 0;
    if (library().GetAttribute(configs[i].raw(), kConfigEngine, kDescriptorValue, 1, &one, &its))
      continue;
    const auto numerical = [&](int note) {
      return has_note(engine, kEngineNumericalNotes, kNumericalNoteValue, note);
    };
    if (conditions.no_tensor_cores && numerical(kUsesTensorCores)) continue;
    if (conditions.deterministic && numerical(kNondeterministic)) continue;
    if (!may_compile &&
        has_note(engine, kEngineBehaviorNotes, kBehaviorNoteValue, kCompilesAtRunTime))
      continue;
    Descriptor plan(kExecutionPlan);
    plan.set(kPlanHandle, handle);
    plan.set(kPlanConfig, configs[i]);
    if (!plan.try_to_finish()) continue;
    const int64_t room = plan.get_int(kPlanWorkspace);
    if (room <= conditions.most_workspace) found.emplace_back(std::move(plan), room);
  }
}

}  // namespace

std::vector<Plan> find_plans(Handle handle, std::span<const Descriptor> operations,
                             const Conditions& conditions, size_t wanted) {
  std::vector<Plan> found;
  Descriptor graph(kOperationGraph);
  graph.set(kGraphHandle, handle);
  std::vector<BackendDesc> raw;
  for (const Descriptor& op : operations) raw.push_back(op.raw());
  graph.set(kGraphOps, kDescriptorValue, int64_t(raw.size()), raw.data());
  if (!graph.try_to_finish()) return found;
  for (const bool may_compile : {conditions.compiling_is_fine, true}) {
    for (const HeuristicsMode mode : {kHeuristicsA, kHeuristicsFallback}) {
      add_plans(handle, graph, mode, conditions, may_compile, wanted, found);
      if (!found.empty()) return found;
    }
  }
  return found;
}

// A call that is kept back may launch what the plan has loaded.
Plan::~Plan() {
  if (plan_.defined()) queue_batch();
}

void Plan::run(Handle handle, std::span<const int64_t> ids, std::span<void* const> data,
               void* workspace) const {
  Descriptor pack(kVariantPack);
  pack.set(kPackIds, ids);
  pack.set(kPackPointers, kPointerValue, int64_t(data.size()), data.data());
  pack.set(kPackWorkspace, kPointerValue, 1, &workspace);
  pack.finish();
  done(library().Execute(handle, plan_.raw(), pack.raw()), kWhat);
}

}  // namespace rush::cuda::dnn
