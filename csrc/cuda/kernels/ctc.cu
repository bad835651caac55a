// ctc.cu: connectionist temporal classification (Graves et al., 2006).
//
// A block takes a sample and goes through time, forward (alpha) or backward (beta), its threads
// side by side over the states; then a block for each step and sample writes the gradient. States
// with one label are added up in their order, by the thread of the first: nothing is atomic.
#include "cuda/kernels/ctc_args.h"
#include "cuda/kernels/fault.h"
#include "cuda/kernels/team.h"
#include "functors/math.h"

namespace rush {

template <class C>
RUSH_FN C log_of_sum(C a, C b, C c) {
  const C ab = a > b ? a : b, most = ab > c ? ab : c;
  if (most == -limits<C>::inf) return most;
  return most + math::log(math::exp(a - most) + math::exp(b - most) + math::exp(c - most));
}

template <class C>
struct CtcStates {
  const CtcArgs& args;
  i64 sample, count, time;
  const i64* labels;

  RUSH_FN CtcStates(const CtcArgs& a, i64 b)
      : args(a),
        sample(b),
        count(2 * a.lengths[b] + 1),
        time(a.inputs[b]),
        labels(a.targets + a.first[b]) {}
  // A label out of range, which has been noted, counts as blank.
  RUSH_FN i64 label(i64 s) const {
    const i64 l = s % 2 ? labels[s / 2] : args.blank;
    return l >= 0 && l < args.classes ? l : args.blank;
  }
  RUSH_FN C emit(i64 t, i64 s) const {
    return typed<C>(args.log_probs)[(t * args.batch + sample) * args.classes + label(s)];
  }
  // May a path jump from two states before to s?
  RUSH_FN bool skips(i64 s) const { return s % 2 && s >= 3 && labels[s / 2] != labels[s / 2 - 1]; }
  RUSH_FN i64 row(i64 t) const { return (sample * args.steps + t) * args.width; }
};

template <class C>
__global__ void __launch_bounds__(kThreads) ctc_alpha(CtcArgs args) {
  after_earlier();
  const CtcStates<C> states(args, blockIdx.x);
  const C never = -limits<C>::inf;
  for (i64 i = threadIdx.x; i < states.count / 2; i += kThreads)
    if (states.labels[i] < 0 || states.labels[i] >= args.classes)
      report(args.fault, args.launch, args.first[blockIdx.x] + i, states.labels[i]);
  for (i64 t = 0; t < states.time; ++t) {
    C* now = typed<C>(args.log_alpha) + states.row(t);
    const C* before = now - args.width;
    for (i64 s = threadIdx.x; s < states.count; s += kThreads) {
      C from = s < 2 ? C(0) : never;
      if (t > 0)
        from = log_of_sum(before[s], s > 0 ? before[s - 1] : never,
                          states.skips(s) ? before[s - 2] : never);
      now[s] = from == never ? never : from + states.emit(t, s);
    }
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  C total = states.count > 1 ? never : C(0);
  if (states.time > 0) {
    const C* last = typed<C>(args.log_alpha) + states.row(states.time - 1) + states.count - 1;
    total = states.count > 1 ? log_of_sum(last[0], last[-1], never) : last[0];
  }
  typed<C>(args.loss)[blockIdx.x] = -total;
}

template <class C>
__global__ void __launch_bounds__(kThreads) ctc_beta(CtcArgs args) {
  after_earlier();
  const CtcStates<C> states(args, blockIdx.x);
  const C never = -limits<C>::inf;
  const i64 n = states.count;
  i32* next = args.chains + i64(blockIdx.x) * 2 * args.longest;
  i32* is_first = next + args.longest;
  for (i64 i = threadIdx.x; i < n / 2; i += kThreads) {
    i64 after = i + 1, before = i - 1;
    while (after < n / 2 && states.labels[after] != states.labels[i]) ++after;
    while (before >= 0 && states.labels[before] != states.labels[i]) --before;
    next[i] = after < n / 2 ? i32(after) : -1;
    is_first[i] = before < 0;
  }
  for (i64 t = states.time - 1; t >= 0; --t) {
    C* now = typed<C>(args.log_beta) + states.row(t);
    const C* after = now + args.width;
    for (i64 s = threadIdx.x; s < n; s += kThreads) {
      C from = s >= n - 2 ? C(0) : never;
      if (t < states.time - 1)
        from = log_of_sum(after[s], s + 1 < n ? after[s + 1] : never,
                          s + 2 < n && states.skips(s + 2) ? after[s + 2] : never);
      now[s] = from == never ? never : from + states.emit(t, s);
    }
    __syncthreads();
  }
}

// A block for each step and sample.
template <class C>
__global__ void __launch_bounds__(kThreads) ctc_gradient(CtcArgs args) {
  after_earlier();
  const i64 t = i64(blockIdx.x) / args.batch, b = i64(blockIdx.x) - t * args.batch;
  const CtcStates<C> states(args, b);
  const C never = -limits<C>::inf, nll = typed<C>(args.loss)[b];
  C* g = typed<C>(args.gx) + (t * args.batch + b) * args.classes;
  const C* x = typed<C>(args.log_probs) + (t * args.batch + b) * args.classes;
  const bool infinite = nll == -never;
  if (infinite || t >= states.time) {
    const bool nan = infinite && !args.zero_infinity && t < states.time;
    for (i64 c = threadIdx.x; c < args.classes; c += kThreads) g[c] = nan ? limits<C>::nan : C(0);
    return;
  }
  const C *alpha = typed<C>(args.log_alpha) + states.row(t),
          *beta = typed<C>(args.log_beta) + states.row(t);
  // The share of all alignments that is in state s now.
  const auto share = [&](i64 s) {
    const C a = alpha[s], z = beta[s];
    return a == never || z == never ? C(0) : math::exp(a + z - states.emit(t, s) + nll);
  };
  for (i64 c = threadIdx.x; c < args.classes; c += kThreads) g[c] = math::exp(x[c]);
  C blanks = 0;
  for (i64 s = 2 * i64(threadIdx.x); s < states.count; s += 2 * kThreads) blanks += share(s);
  blanks = join_team<kThreads>(blanks, JoinSum{});
  if (threadIdx.x == 0) g[args.blank] -= blanks;
  __syncthreads();
  const i32* next = args.chains + b * 2 * args.longest;
  const i32* is_first = next + args.longest;
  for (i64 i = threadIdx.x; i < states.count / 2; i += kThreads) {
    if (!is_first[i]) continue;
    C sum = 0;
    for (i64 k = i; k >= 0; k = next[k]) sum += share(2 * k + 1);
    g[states.label(2 * i + 1)] -= sum;
  }
}

}  // namespace rush
