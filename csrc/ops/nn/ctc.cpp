// The loss of connectionist temporal classification.
//
// The gradient is the one that reaches the scores in front of a log_softmax, as in PyTorch: the
// probabilities minus what the alignments make of them. It sums to zero over the classes, and
// log_softmax passes such a gradient on unchanged.
#include "device/nn/loss.h"

#include <algorithm>
#include <vector>

#include "ops/framework/data.h"
#include "ops/framework/op.h"
#include "ops/framework/operators.h"

namespace rush {

namespace {

int64_t longest(IntList lengths) {
  int64_t most = 0;
  for (int64_t n : lengths) most = std::max(most, n);
  return most;
}

// Where each sample's labels begin: end to end in one dim, padded rows in two.
std::vector<int64_t> beginnings(const Tensor& targets, IntList lengths) {
  std::vector<int64_t> first;
  int64_t at = 0;
  for (int64_t n : lengths) {
    first.push_back(at);
    at += targets.dim() == 1 ? n : targets.sizes()[1];
  }
  return first;
}

void check_lengths(const char* op, const char* what, IntList lengths, int64_t batch, int64_t most,
                   const char* of) {
  rush::check(int64_t(lengths.size()) == batch, ErrorKind::Runtime, op, what,
              " must have one number for each of the ", batch, " samples, got ", lengths.size());
  for (int64_t n : lengths)
    rush::check(n >= 0 && n <= most, ErrorKind::Runtime, op, what, " must be between 0 and ", of,
                ", ", most, "; got ", lengths);
}

}  // namespace

struct CtcLoss {
  static constexpr const char* name = "ctc_loss";
  static constexpr bool any_device = true;
  static constexpr uint32_t non_differentiable = 0b10;
  static constexpr bool may_fail = true;  // a label out of range
  static std::array<Spec, 2> check(const Tensor& x, const Tensor&, IntList, IntList target_lengths,
                                   int64_t, bool) {
    const int64_t steps = x.sizes()[0], batch = x.sizes()[1];
    return {Spec{Dims{batch}, x.dtype(), x.device()},
            Spec{Dims{batch, steps, 2 * longest(target_lengths) + 1}, x.dtype(), x.device()}};
  }
  static void run(const Tensor& x, const Tensor& targets, IntList input_lengths,
                  IntList target_lengths, int64_t blank, bool, const Tensor& loss,
                  const Tensor& log_alpha) {
    const std::vector<int64_t> first = beginnings(targets, target_lengths);
    ctc_loops(x).loss(contiguous_data(x), contiguous_data(placed(targets, x.device())),
                      {input_lengths, target_lengths, first.data(), blank}, loss, log_alpha);
  }
  static constexpr uint32_t needs[] = {in(0) | in(1) | kOut, 0};
  static Grads grad(const Ctx& c, GradSpan g, const Tensor& x, const Tensor& targets,
                    IntList input_lengths, IntList target_lengths, int64_t blank,
                    bool zero_infinity) {
    if (!g[0].defined()) return Grads(2);
    const Tensor each = _ctc_loss_backward(x, targets, input_lengths, target_lengths, blank,
                                           zero_infinity, c.out(0), c.out(1));
    // 0 * NaN would be NaN; the zeros of zero_infinity come out of the kernel.
    return {each * unsqueeze(g[0], 1), Tensor()};
  }
};

struct CtcLossBackward {
  static constexpr const char* name = "ctc_loss_backward";
  static constexpr bool any_device = true;
  static Spec check(const Tensor& x, const Tensor&, IntList, IntList, int64_t, bool, const Tensor&,
                    const Tensor&) {
    return {x.sizes(), x.dtype(), x.device()};
  }
  static void run(const Tensor& x, const Tensor& targets, IntList input_lengths,
                  IntList target_lengths, int64_t blank, bool zero_infinity, const Tensor& loss,
                  const Tensor& log_alpha, const Tensor& out) {
    const std::vector<int64_t> first = beginnings(targets, target_lengths);
    ctc_loops(x).backward(contiguous_data(x), contiguous_data(placed(targets, x.device())),
                          {input_lengths, target_lengths, first.data(), blank}, loss, log_alpha,
                          zero_infinity, out);
  }
};

namespace {

Tensor ctc(const Tensor& log_probs, const Tensor& given, IntList input_lengths,
           IntList target_lengths, int64_t blank, int64_t reduction, bool zero_infinity) {
  constexpr const char* name = "ctc_loss";
  check_dtype(log_probs.dtype() == DType::Float32 || log_probs.dtype() == DType::Float64, name,
              "log_probs must be float32 or float64, got ", log_probs.dtype());
  check_dtype(!given.is_complex(), name, "targets must be integers, got ", given.dtype());
  rush::check(log_probs.dim() == 2 || log_probs.dim() == 3, ErrorKind::Shape, name,
              "log_probs must be (T, N, C) or (T, C), got shape ", log_probs.sizes());
  const bool single = log_probs.dim() == 2;
  const Tensor x = single ? unsqueeze(log_probs, 1) : log_probs;
  rush::check(x.numel() > 0, ErrorKind::Runtime, name, "log_probs must not be empty, got shape ",
              log_probs.sizes());
  const int64_t steps = x.sizes()[0], batch = x.sizes()[1], classes = x.sizes()[2];
  rush::check(blank >= 0 && blank < classes, ErrorKind::Runtime, name, "blank ", blank,
              " is out of range for ", classes, " classes");
  rush::check(reduction >= 0 && reduction <= 2, ErrorKind::Value, name,
              "reduction must be 0 (none), 1 (mean) or 2 (sum), got ", reduction);
  rush::check(given.dim() == 1 || given.dim() == 2, ErrorKind::Shape, name,
              "targets must be (N, S) or the labels of all samples end to end, got shape ",
              given.sizes());
  check_lengths(name, "input_lengths", input_lengths, batch, steps, "the time steps");
  if (given.dim() == 2) {
    rush::check(given.sizes()[0] == batch, ErrorKind::Shape, name, "targets must have ", batch,
                " rows, got shape ", given.sizes());
    check_lengths(name, "target_lengths", target_lengths, batch, given.sizes()[1],
                  "the width of targets");
  } else {
    check_lengths(name, "target_lengths", target_lengths, batch, given.sizes()[0],
                  "the number of targets");
    int64_t total = 0;
    for (int64_t n : target_lengths) total += n;
    rush::check(total == given.sizes()[0], ErrorKind::Shape, name, "target_lengths add up to ",
                total, ", but targets has ", given.sizes()[0], " labels");
  }
  const Tensor targets = given.dtype() == DType::Int64 ? given : cast(given, DType::Int64);
  Tensor loss =
      std::get<0>(_ctc_loss(x, targets, input_lengths, target_lengths, blank, zero_infinity));
  if (zero_infinity) loss = masked_fill(loss, isposinf(loss), wrap_number(0));
  if (reduction == 1) {
    const Tensor lengths = make_tensor(Dims{batch}, x.dtype());
    for (int64_t b = 0; b < batch && !x.is_meta(); ++b) {
      const double n = double(std::max<int64_t>(target_lengths[size_t(b)], 1));
      store_scalar(static_cast<char*>(lengths.data()) + b * lengths.element_size(), lengths.dtype(),
                   Scalar(n));
    }
    return mean(x.is_meta() ? loss : loss / placed(lengths, x.device()), std::nullopt);
  }
  if (reduction == 2) return sum(loss, std::nullopt);
  return single ? squeeze(loss, IntList(Dims{0})) : loss;
}

std::vector<int64_t> as_list(const char* what, const Tensor& t) {
  check(is_integral(t.dtype()), ErrorKind::Runtime, "ctc_loss", what, " must be integers, got ",
        t.dtype());
  check(t.dim() <= 1 && !t.is_meta() && !t.is_batched(), ErrorKind::Runtime, "ctc_loss", what,
        " must be a vector, got shape ", t.sizes(), " on ", t.device());
  // The host needs them: on a GPU, they are waited for.
  const Tensor flat = contiguous_data(convert_data(host_data(t), DType::Int64));
  return {flat.data<int64_t>(), flat.data<int64_t>() + flat.numel()};
}

}  // namespace

struct CtcLossLists {
  static constexpr const char* name = "ctc_loss";
  static Tensor call(const Tensor& x, const Tensor& targets, IntList input_lengths,
                     IntList target_lengths, int64_t blank, int64_t reduction, bool zero_infinity) {
    return ctc(x, targets, input_lengths, target_lengths, blank, reduction, zero_infinity);
  }
};

struct CtcLossTensors {
  static constexpr const char* name = "ctc_loss";
  static Tensor call(const Tensor& x, const Tensor& targets, const Tensor& input_lengths,
                     const Tensor& target_lengths, int64_t blank, int64_t reduction,
                     bool zero_infinity) {
    return ctc(x, targets, as_list("input_lengths", input_lengths),
               as_list("target_lengths", target_lengths), blank, reduction, zero_infinity);
  }
};

}  // namespace rush

#include "ops/ctc.inc"
