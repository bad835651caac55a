// Connectionist temporal classification on the CPU, through kernels/ctc.cpp.
#include "device/nn/loss.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/interrupt.h"
#include "core/threads.h"
#include "cpu/isa_table.h"
#include "cpu/kernels/ctc_tables.h"

namespace rush {

namespace {

template <class T>
const CtcTable<T>& kernels() {
  return kernels_in_use([]<Isa isa>() { return ctc_table<isa, T>(); });
}

constexpr int64_t kPerLook = 1 << 16;  // states between looks for an interrupt

template <class T>
constexpr T kImpossible = -std::numeric_limits<T>::infinity();

// The states of one sample: blank, label, blank, label, ..., blank.
template <class T>
struct States {
  int64_t count, time, classes, batch, sample;
  const T* log_probs;
  std::vector<int64_t> label;
  std::vector<T> skip;  // 0 where the state two before may lead here; two more at the end
  std::vector<T> emit;

  States(const Tensor& x, const int64_t* labels, const CtcLengths& lengths, int64_t b)
      : count(2 * lengths.target[size_t(b)] + 1),
        time(lengths.input[size_t(b)]),
        classes(x.sizes()[2]),
        batch(x.sizes()[1]),
        sample(b),
        log_probs(x.data<T>()),
        label(size_t(count), lengths.blank),
        skip(size_t(count) + 2, kImpossible<T>),
        emit(size_t(count)) {
    for (int64_t i = 0; i < lengths.target[size_t(b)]; ++i) {
      const size_t s = size_t(2 * i + 1);
      label[s] = labels[lengths.first[b] + i];
      if (i > 0 && label[s] != label[s - 2]) skip[s] = 0;
    }
  }
  const T* row(int64_t t) const { return log_probs + (t * batch + sample) * classes; }
  const T* emitted(int64_t t) {
    const T* from = row(t);
    for (int64_t s = 0; s < count; ++s) emit[size_t(s)] = from[label[size_t(s)]];
    return emit.data();
  }
};

template <class T>
T log_add(T a, T b) {
  const T most = std::max(a, b);
  return most == kImpossible<T> ? most : most + std::log(std::exp(a - most) + std::exp(b - most));
}

template <class F>
void for_type(const Tensor& x, F&& f) {
  dispatch<DType::Float32, DType::Float64>("ctc_loss", x.dtype(), std::forward<F>(f));
}

void ctc_loss_cpu(const Tensor& x, const Tensor& targets, const CtcLengths& lengths,
                  const Tensor& loss, const Tensor& log_alpha) {
  const int64_t batch = x.sizes()[1], classes = x.sizes()[2];
  const int64_t steps = log_alpha.sizes()[1], width = log_alpha.sizes()[2];
  const int64_t* labels = targets.data<int64_t>();
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < lengths.target[size_t(b)]; ++i) {
      const int64_t found = labels[lengths.first[b] + i];
      check(found >= 0 && found < classes, ErrorKind::Range, "ctc_loss", "target ", found,
            " of sample ", b, " is out of range for ", classes, " classes");
    }
  }
  for_type(x, [&]<class T>() {
    parallel_for(batch, 1, [&](int64_t b, int64_t end) {
      for (; b < end; ++b) {
        States<T> states(x, labels, lengths, b);
        T* out = log_alpha.data<T>() + b * steps * width;
        const int64_t n = states.count;
        // Before the first step the path stands in front of the first blank and label.
        std::vector<T> row(size_t(n) + 2, kImpossible<T>);
        T* before = row.data() + 2;
        InterruptCounter interrupts(kPerLook);
        for (int64_t t = 0; t < states.time; ++t) {
          interrupts.add(n);
          T* now = out + t * width;
          const T* emit = states.emitted(t);
          if (t == 0) {
            std::fill_n(now, n, kImpossible<T>);
            for (int64_t s = 0; s < std::min<int64_t>(n, 2); ++s) now[s] = emit[s];
          } else {
            kernels<T>().forward(before, states.skip.data(), emit, now, n);
          }
          std::copy_n(now, n, before);
        }
        T total = n > 1 ? log_add(before[n - 1], before[n - 2]) : before[0];
        if (states.time == 0) total = n > 1 ? kImpossible<T> : T(0);
        loss.data<T>()[b] = -total;
      }
    });
  });
}

void ctc_loss_backward_cpu(const Tensor& x, const Tensor& targets, const CtcLengths& lengths,
                           const Tensor& loss, const Tensor& log_alpha, bool zero_infinity,
                           const Tensor& gx) {
  const int64_t steps = x.sizes()[0], batch = x.sizes()[1], classes = x.sizes()[2];
  const int64_t rows = log_alpha.sizes()[1], width = log_alpha.sizes()[2];
  const int64_t* labels = targets.data<int64_t>();
  for_type(x, [&]<class T>() {
    parallel_for(batch, 1, [&](int64_t b, int64_t end) {
      for (; b < end; ++b) {
        States<T> states(x, labels, lengths, b);
        const T nll = loss.data<T>()[b];
        const bool infinite = nll == -kImpossible<T>;
        auto gradient = [&](int64_t t) { return gx.data<T>() + (t * batch + b) * classes; };
        for (int64_t t = infinite ? 0 : states.time; t < steps; ++t) {
          const bool nan = infinite && !zero_infinity && t < states.time;
          std::fill_n(gradient(t), classes, nan ? std::numeric_limits<T>::quiet_NaN() : T(0));
        }
        if (infinite) continue;
        const int64_t n = states.count;
        const size_t size = size_t(n);
        std::vector<T> row(size + 2, kImpossible<T>), now(size), share(size);
        T* after = row.data();
        InterruptCounter interrupts(kPerLook);
        for (int64_t t = states.time - 1; t >= 0; --t) {
          interrupts.add(n + classes);
          const T* emit = states.emitted(t);
          if (t == states.time - 1) {
            std::fill_n(now.data(), n, kImpossible<T>);
            for (int64_t s = std::max<int64_t>(n - 2, 0); s < n; ++s) now[size_t(s)] = emit[s];
          } else {
            kernels<T>().backward(after, states.skip.data(), emit, now.data(), n);
          }
          std::copy_n(now.data(), n, after);
          const T* alpha = log_alpha.data<T>() + (b * rows + t) * width;
          kernels<T>().posterior(alpha, after, emit, nll, share.data(), n);
          T* g = gradient(t);
          kernels<T>().exponentials(states.row(t), g, classes);
          for (int64_t s = 0; s < n; ++s) g[states.label[size_t(s)]] -= share[size_t(s)];
        }
      }
    });
  });
}

const bool registered = [] {
  ctc_loops(DeviceType::CPU) = {ctc_loss_cpu, ctc_loss_backward_cpu};
  return true;
}();

}  // namespace
}  // namespace rush
