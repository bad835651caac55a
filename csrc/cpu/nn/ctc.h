// ctc.h: connectionist temporal classification (Graves et al., 2006): the probability of a sequence
// of labels, summed over all its alignments with the time steps.
#pragma once

#include "core/tensor.h"

namespace rush {

// The labels of sample b are targets[first[b] .. first[b] + target_lengths[b]).
struct CtcLengths {
  IntList input, target;
  const int64_t* first;
  int64_t blank;
};

// log_probs (time, batch, classes) and targets (int64) contiguous. Writes loss (batch) and
// log_alpha (batch, time, 2 * longest target + 1). float32 or float64. Raises on a label out of
// range.
void ctc_loss_cpu(const Tensor& log_probs, const Tensor& targets, const CtcLengths& lengths,
                  const Tensor& loss, const Tensor& log_alpha);
// The gradient of each loss, as it passes through the log_softmax before it: probability minus
// posterior. zero_infinity: zeros where the loss is infinite, instead of NaN.
void ctc_loss_backward_cpu(const Tensor& log_probs, const Tensor& targets,
                           const CtcLengths& lengths, const Tensor& loss, const Tensor& log_alpha,
                           bool zero_infinity, const Tensor& gx);

}  // namespace rush
