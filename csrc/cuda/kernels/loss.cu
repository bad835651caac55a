// loss.cu: losses of input and target, element by element; the blocks' sums are joined in order by
// a second launch (in compiled functions by the last block), unless there is one block only.
//
// T is the type of memory, C what is computed in; V elements at a time.
#include "cuda/kernels/fault.h"
#include "cuda/kernels/last_block.h"
#include "cuda/kernels/team.h"
#include "functors/loss.h"

namespace rush {

struct Noting {
  u64 launch;
  IndexFault* fault;
};

// W elements from i on; F is one of functors/loss.h.
template <class F, class C, class T, int W>
struct LossAt {
  const LossArgs& args;
  Pack<T, W> x, t;
  RUSH_FN LossAt(const LossArgs& a, i64 i)
      : args(a), x(load_pack<W>(typed<T>(a.x) + i)), t(load_pack<W>(typed<T>(a.target) + i)) {}
  // Inputs that the loss is not made for are noted, their bits as a double.
  RUSH_FN void check(i64 i, const Noting& to) const {
    if constexpr (requires(C x) { F::is_valid(x); }) {
#pragma unroll
      for (int j = 0; j < W; ++j) {
        const C v = convert<C>(x.v[j]);
        if (!F::is_valid(v)) report(to.fault, to.launch, i + j, bit_cast<i64>(double(v)));
      }
    }
  }
  RUSH_FN C value(int j) const {
    return F::value(convert<C>(x.v[j]), convert<C>(t.v[j]), C(args.parameter));
  }
  RUSH_FN C slope(int j) const {
    return F::slope(convert<C>(x.v[j]), convert<C>(t.v[j]), C(args.parameter));
  }
};

template <class F, class C, class T, int W>
RUSH_FN void write_losses(const LossArgs& args, i64 i, const Noting& to) {
  const LossAt<F, C, T, W> at(args, i);
  at.check(i, to);
  Pack<T, W> y;
#pragma unroll
  for (int j = 0; j < W; ++j) y.v[j] = convert<T>(at.value(j));
  store_pack(typed<T>(args.y) + i, y);
}

template <class F, class C, class T, int W>
RUSH_FN double sum_losses(const LossArgs& args, i64 i, const Noting& to) {
  const LossAt<F, C, T, W> at(args, i);
  at.check(i, to);
  C sum = 0;
#pragma unroll
  for (int j = 0; j < W; ++j) sum += at.value(j);
  return double(sum);
}

template <class F, class C, class T, int W>
RUSH_FN void write_slopes(const LossArgs& args, i64 i, C shared) {
  const LossAt<F, C, T, W> at(args, i);
  Pack<T, W> each{}, y;
  if (args.g_step) each = load_pack<W>(typed<T>(args.g) + i);
#pragma unroll
  for (int j = 0; j < W; ++j) {
    const C factor = args.g_step ? convert<C>(each.v[j]) * C(args.scale) : shared;
    y.v[j] = convert<T>(at.slope(j) * factor);
  }
  store_pack(typed<T>(args.y) + i, y);
}

// Packs first, and what is left one by one.

template <class F, class C, class T, int V>
__global__ void __launch_bounds__(kThreads) loss_each(LossArgs args, Noting to) {
  after_earlier();
  const i64 packs = args.n / V;
  for (i64 p = thread_number(); p < packs; p += thread_count())
    write_losses<F, C, T, V>(args, p * V, to);
  for (i64 i = packs * V + thread_number(); i < args.n; i += thread_count())
    write_losses<F, C, T, 1>(args, i, to);
}

// The sums of all blocks, by one. (Past its processor's own cache: they may be of this launch.)
template <class T>
RUSH_FN void join_blocks_of_loss(const LossArgs& args) {
  double all = 0;
  for (int b = threadIdx.x; b < args.blocks; b += kThreads) all += __ldcg(args.partial + b);
  all = join_team<kThreads>(all, JoinSum{});
  if (threadIdx.x == 0) *typed<T>(args.y) = convert<T>(all * args.scale);
}

template <class F, class C, class T, int V>
__global__ void __launch_bounds__(kThreads) loss_sum(LossArgs args, Noting to) {
  after_earlier();
  const i64 packs = args.n / V;
  double all = 0;
  for (i64 p = thread_number(); p < packs; p += thread_count())
    all += sum_losses<F, C, T, V>(args, p * V, to);
  for (i64 i = packs * V + thread_number(); i < args.n; i += thread_count())
    all += sum_losses<F, C, T, 1>(args, i, to);
  all = join_team<kThreads>(all, JoinSum{});
  if (threadIdx.x == 0) {
    if (gridDim.x == 1)
      *typed<T>(args.y) = convert<T>(all * args.scale);
    else
      args.partial[blockIdx.x] = all;
  }
  if (args.counter && gridDim.x > 1 && comes_last(args.counter, gridDim.x))
    join_blocks_of_loss<T>(args);
}

template <class T>
__global__ void __launch_bounds__(kThreads) loss_join(LossArgs args) {
  after_earlier();
  join_blocks_of_loss<T>(args);
}

// y: the gradient of x.
template <class F, class C, class T, int V>
__global__ void __launch_bounds__(kThreads) loss_slope(LossArgs args) {
  after_earlier();
  const C shared = args.g_step ? C(0) : convert<C>(*typed<T>(args.g)) * C(args.scale);
  const i64 packs = args.n / V;
  for (i64 p = thread_number(); p < packs; p += thread_count())
    write_slopes<F, C, T, V>(args, p * V, shared);
  for (i64 i = packs * V + thread_number(); i < args.n; i += thread_count())
    write_slopes<F, C, T, 1>(args, i, shared);
}

}  // namespace rush
