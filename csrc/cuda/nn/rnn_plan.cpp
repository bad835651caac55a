#include "cuda/nn/rnn_plan.h"

#include <algorithm>
#include <memory>
#include <unordered_map>

#include "core/error.h"
#include "cuda/runtime/settings.h"
#include "cuda/vendor/plan_cache.h"

namespace rush::cuda {
namespace {

dnn::RnnCell cell_of(RnnMode mode) {
  switch (mode) {
    case RnnMode::Tanh:
      return dnn::kRnnTanh;
    case RnnMode::Relu:
      return dnn::kRnnRelu;
    case RnnMode::Lstm:
      return dnn::kLstm;
    default:
      return dnn::kGru;
  }
}

void done(int status) { dnn::done(status, "rnn"); }

}  // namespace

RnnPlan::RnnPlan(const RnnKey& key) : key_(key) {
  const dnn::RnnLibrary& l = dnn::rnn_library();
  const dnn::Library& base = dnn::library();
  const dnn::Handle handle = dnn::handle(key.device);
  done(l.CreateDropout(&dropout_));
  done(l.SetDropout(dropout_, handle, 0, nullptr, 0, 0));
  done(l.CreateRnn(&rnn));
  done(l.CreateRnnData(&x));
  done(l.CreateRnnData(&y));
  done(base.CreateTensor(&h));
  done(base.CreateTensor(&c));
  const auto type = dnn::data_type(DType(key.dtype));
  const bool half = is_reduced_float(DType(key.dtype));
  const auto math = half                               ? dnn::kTensorOp
                    : type == dnn::kFloat && !key.tf32 ? dnn::kFma
                                                       : dnn::kDefaultMath;
  const int status = l.SetRnn(rnn, dnn::kStandardRnn, cell_of(RnnMode(key.mode)),
                              key.has_biases ? dnn::kDoubleBias : dnn::kNoBias,
                              key.bidirectional ? dnn::kBothWays : dnn::kOneWay, dnn::kLinearInput,
                              type, type == dnn::kDouble ? dnn::kDouble : dnn::kFloat, math,
                              key.inputs, key.hidden, key.outputs, key.layers, dropout_, 0);
  refused_ = status != 0 || l.RnnWeightRoom(handle, rnn, &weight_bytes_) != 0;
  if (!refused_) find_places();
}

RnnPlan::~RnnPlan() {
  const dnn::RnnLibrary& l = dnn::rnn_library();
  if (rnn) l.DestroyRnn(rnn);
  if (dropout_) l.DestroyDropout(dropout_);
  if (x) l.DestroyRnnData(x);
  if (y) l.DestroyRnnData(y);
  if (h) dnn::library().DestroyTensor(h);
  if (c) dnn::library().DestroyTensor(c);
}

// Where parameter rows x cols lies: cuDNN knows its gates one by one, and they must be neighbours,
// as they are in the parameter.
bool RnnPlan::place(int32_t layer, int first_id, int ids, int64_t rows, int64_t cols, bool bias) {
  const dnn::RnnLibrary& l = dnn::rnn_library();
  const dnn::Handle handle = dnn::handle(key_.device);
  // Only distances from the start are asked for, so that any address serves for it.
  char* const start = reinterpret_cast<char*>(uintptr_t(1) << 40);
  const size_t step = size_t(rows / ids * cols) * size_t(element_size(DType(key_.dtype)));
  for (int i = 0; i < ids; ++i) {
    void *matrix_at = nullptr, *bias_at = nullptr;
    // h and c serve as room for the shapes, which we know.
    done(l.RnnWeightPlace(handle, rnn, layer, weight_bytes_, start, first_id + i, h, &matrix_at, c,
                          &bias_at));
    char* const at = static_cast<char*>(bias ? bias_at : matrix_at);
    if (!at || at < start || at + step > start + weight_bytes_) return false;
    if (i == 0) places_.push_back(size_t(at - start));
    if (at != start + places_.back() + size_t(i) * step) return false;
  }
  return true;
}

void RnnPlan::find_places() {
  const int gates = int(rnn_gates(RnnMode(key_.mode)));
  const int64_t sums = int64_t(gates) * key_.hidden, directions = key_.bidirectional ? 2 : 1;
  bool found = true;
  for (int32_t i = 0; found && i < key_.layers * directions; ++i) {
    const int64_t inputs = i < directions ? key_.inputs : key_.outputs * directions;
    found = place(i, 0, gates, sums, inputs, false) &&
            place(i, gates, gates, sums, key_.outputs, false);
    if (found && key_.has_biases)
      found = place(i, 0, gates, sums, 1, true) && place(i, gates, gates, sums, 1, true);
    if (found && key_.projects) found = place(i, 2 * gates, 1, key_.outputs, key_.hidden, false);
  }
  refused_ = !found;
}

void RnnPlan::set_lengths(IntList batch_sizes) {
  if (equal(batch_sizes, IntList(sizes_))) return;
  const dnn::RnnLibrary& l = dnn::rnn_library();
  const dnn::Library& base = dnn::library();
  const auto type = dnn::data_type(DType(key_.dtype));
  const int longest = int(batch_sizes.size()), batch = int(batch_sizes[0]);
  const int directions = key_.bidirectional ? 2 : 1;
  // Sequences come longest first: the k-th has as many steps as there are more than k of them.
  std::vector<int> lengths(static_cast<size_t>(batch));
  for (int k = 0, steps = longest; k < batch; ++k) {
    while (steps > 0 && batch_sizes[size_t(steps - 1)] <= k) --steps;
    lengths[size_t(k)] = steps;
  }
  sizes_.clear();
  done(l.SetRnnData(x, type, dnn::kPackedRows, longest, batch, key_.inputs, lengths.data(),
                    nullptr));
  done(l.SetRnnData(y, type, dnn::kPackedRows, longest, batch, key_.outputs * directions,
                    lengths.data(), nullptr));
  const auto state = [&](dnn::TensorDesc desc, int width) {
    const int sizes[] = {key_.layers * directions, batch, width};
    const int strides[] = {batch * width, width, 1};
    done(base.SetTensor(desc, type, 3, sizes, strides));
  };
  state(h, key_.outputs);
  state(c, key_.hidden);
  const dnn::Handle handle = dnn::handle(key_.device);
  size_t none = 0;
  done(l.RnnRoom(handle, rnn, dnn::kTraining, x, &training_work_, &reserve_));
  done(l.RnnRoom(handle, rnn, dnn::kInference, x, &inference_work_, &none));
  sizes_.assign(batch_sizes.begin(), batch_sizes.end());
}

RnnPlan& rnn_plan(const RnnNetwork& n) {
  constexpr size_t kMostPlans = 256;
  using Plans = std::unordered_map<RnnKey, std::unique_ptr<RnnPlan>, PlanHash>;
  thread_local std::unique_ptr<Plans> plans;
  if (!plans) plans = std::make_unique<Plans>();
  const RnnKey key{.mode = int32_t(n.mode),
                   .dtype = int32_t(n.dtype),
                   .layers = int32_t(n.layers),
                   .bidirectional = n.bidirectional,
                   .has_biases = n.has_biases,
                   .projects = n.projects,
                   .inputs = int32_t(n.inputs),
                   .hidden = int32_t(n.hidden),
                   .outputs = int32_t(n.outputs),
                   .tf32 = settings().convolution_tf32.load(),
                   .device = n.device.index};
  auto found = plans->find(key);
  if (found == plans->end()) {
    auto fresh = std::make_unique<RnnPlan>(key);
    if (plans->size() >= kMostPlans) plans->clear();
    found = plans->emplace(key, std::move(fresh)).first;
  }
  if (!found->second->refused()) found->second->set_lengths(n.batch_sizes);
  return *found->second;
}

}  // namespace rush::cuda
