// rnn_plan.h: cuDNN's descriptors of one recurrent network, and where it keeps each parameter.
#pragma once

#include <vector>

#include "cuda/vendor/cudnn_rnn.h"
#include "device/nn/rnn.h"

namespace rush::cuda {

// What a plan depends on, without padding between the fields. The lengths of sequences are set for
// each call.
struct RnnKey {
  int32_t mode, dtype, layers, bidirectional, has_biases, projects, inputs, hidden, outputs, tf32,
      device;
  bool operator==(const RnnKey&) const = default;
};

class RnnPlan {
 public:
  explicit RnnPlan(const RnnKey& key);
  RnnPlan(const RnnPlan&) = delete;
  ~RnnPlan();

  // cuDNN says no to such networks; nothing else may be asked then.
  bool refused() const { return refused_; }
  void set_lengths(IntList batch_sizes);

  // After set_lengths.
  size_t reserve_bytes() const { return reserve_; }
  size_t work_bytes(bool training) const { return training ? training_work_ : inference_work_; }

  size_t weight_bytes() const { return weight_bytes_; }
  // Bytes from the start of the weights, by number of the parameter.
  const std::vector<size_t>& places() const { return places_; }

  dnn::RnnDesc rnn = nullptr;
  dnn::RnnDataDesc x = nullptr, y = nullptr;
  dnn::TensorDesc h = nullptr, c = nullptr;

 private:
  void find_places();
  bool place(int32_t layer, int first_id, int ids, int64_t rows, int64_t cols, bool bias);

  RnnKey key_;
  bool refused_ = false;
  dnn::DropoutDesc dropout_ = nullptr;
  std::vector<int64_t> sizes_;  // by time, those that are set
  size_t weight_bytes_ = 0, reserve_ = 0, training_work_ = 0, inference_work_ = 0;
  std::vector<size_t> places_;
};

// The thread's plan for a network, with its lengths set.
RnnPlan& rnn_plan(const RnnNetwork& network);

}  // namespace rush::cuda
