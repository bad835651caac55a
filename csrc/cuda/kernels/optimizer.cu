// optimizer.cu: one step of an optimiser for many parameters in one launch.
//
// - The tensors' addresses and numbers lie in a table on the device, and a list of pieces says
//   which stretch of which tensor a block takes: many small parameters cost what one large one
//   does.
// - The rules are those of functors/optimizer.h, as on the CPU; half and bfloat16 compute in float.
#include "cuda/kernels/element.h"
#include "functors/optimizer.h"
#include "functors/optimizer_numbers.h"

namespace rush {

template <template <class> class Rule, class C, int... i>
RUSH_FN Rule<C> with_numbers(const double* n) {
  if constexpr (sizeof...(i) == Rule<C>::kNumbers)
    return Rule<C>{C(n[i])...};
  else
    return with_numbers<Rule, C, i..., int(sizeof...(i))>(n);
}

// The numbers of every tensor, from scalars that are on the device and move on by one step. One
// thread a tensor.
template <class Numbers>
__global__ void __launch_bounds__(kThreads) optimizer_numbers(OptimizerNumbersArgs args) {
  after_earlier();
  double options[Numbers::kOptions];
#pragma unroll
  for (int k = 0; k < Numbers::kOptions; ++k)
    options[k] = args.places[k] ? *args.places[k] : args.options[k];
  for (i64 i = thread_number(); i < args.n; i += thread_count()) {
    OptimizerTarget& t = args.tensors[i];
    double scalars[Numbers::kScalars + 1];
#pragma unroll
    for (int k = 0; k < Numbers::kScalars; ++k) {
      scalars[k] = args.wide ? *static_cast<const double*>(t.scalars[k])
                             : double(*static_cast<const float*>(t.scalars[k]));
    }
    double numbers[kOptimizerNumbers] = {};
    Numbers::prepare(options, scalars, !args.wide, numbers);
#pragma unroll
    for (int k = 0; k < Numbers::kScalars; ++k) {
      if (args.wide)
        *static_cast<double*>(t.scalars[k]) = scalars[k];
      else
        *static_cast<float*>(t.scalars[k]) = float(scalars[k]);
    }
#pragma unroll
    for (int k = 0; k < kOptimizerNumbers; ++k) t.numbers[k] = numbers[k];
  }
}

// T: the type of memory, C: what is computed in.
template <template <class> class Rule, class T, class C>
__global__ void __launch_bounds__(kThreads) optimizer_step(OptimizerArgs args) {
  after_earlier();
  const OptimizerPiece piece = args.pieces[blockIdx.x];
  const OptimizerTarget& t = args.tensors[piece.tensor];
  const Rule<C> rule = with_numbers<Rule, C>(t.numbers);
  const i64 begin = i64(piece.number) * kOptimizerPiece;
  const i64 end = begin + kOptimizerPiece < t.numel ? begin + kOptimizerPiece : t.numel;
  T* p = typed<T>(t.ptrs[0]);
  const T* g = typed<T>(t.ptrs[1]);
  for (i64 i = begin + threadIdx.x; i < end; i += kThreads) {
    C x = convert<C>(p[i]);
    const C gradient = convert<C>(g[i]);
    constexpr int states = Rule<C>::kStates;
    C s[states + 1];
#pragma unroll
    for (int k = 0; k < states; ++k) s[k] = convert<C>(typed<T>(t.ptrs[2 + k])[i]);
    if constexpr (states == 0)
      rule(x, gradient);
    else if constexpr (states == 1)
      rule(x, gradient, s[0]);
    else if constexpr (states == 2)
      rule(x, gradient, s[0], s[1]);
    else
      rule(x, gradient, s[0], s[1], s[2]);
    p[i] = convert<T>(x);
#pragma unroll
    for (int k = 0; k < states; ++k) typed<T>(t.ptrs[2 + k])[i] = convert<T>(s[k]);
  }
}

}  // namespace rush
