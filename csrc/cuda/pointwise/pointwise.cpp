// Pointwise loops on GPUs: the functors of the op table through kernels/pointwise.cu.
#include <bit>

#include "core/layout.h"
#include "cuda/pointwise/divides.h"
#include "cuda/pointwise/spelling.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/loops.h"
#include "cuda/runtime/nest.h"
#include "device/deferred.h"
#include "functors/activation.h"
#include "functors/ternary.h"

namespace rush::cuda {
namespace {

// How the operands lie, in a key: below kShort they are flat, and it is the logarithm of the pack's
// width.
enum Mode : unsigned { kShort = 5, kLong, kRows };

template <class Fn, int Inputs>
std::string spell(uint64_t key) {
  const PointwiseKey<Inputs> k = read_pointwise_key<Inputs>(key);
  const FnInfo& fn = info(Fn(k.fn));
  if (k.mode < kShort) return spell_flat("pointwise_flat", fn, k);
  if (k.mode == kRows)
    return spell_pointwise("pointwise_rows", fn, k.compute,
                           std::to_string(pack_width(k.types, Inputs + 1)), k.types, Inputs + 1);
  return spell_pointwise("pointwise_strided", fn, k.compute,
                         k.mode == kShort ? "rush::u32" : "rush::u64", k.types, Inputs + 1);
}

template <class Fn, int Inputs>
const KernelFamily kFamily{"pointwise.cu", spell<Fn, Inputs>};

// Can all operands be taken in packs along the innermost dim? Each moves by one there, aligned, or
// not at all; the latter are marked in `single`. Then `walk` goes over packs.
template <int Inputs>
bool by_packs(Walk<Inputs + 1>& walk, PointwiseArgs<Inputs>& args, const DType* types) {
  const int width = pack_width(types, Inputs + 1);
  if (width == 1 || walk.dims > kNestDims || !walk.is_short() || walk.sizes[0] % width ||
      walk.strides[0][0] != 1)
    return false;
  unsigned single = 0;
  for (int i = 0; i <= Inputs; ++i) {
    if (i > 0 && (args.given >> (i - 1) & 1)) continue;
    const auto o = size_t(i);
    if (i > 0 && walk.strides[0][o] == 0) {
      single |= 1u << (i - 1);
      continue;
    }
    if (walk.strides[0][o] != 1) return false;
    if (!is_aligned(i ? args.in[i - 1] : args.out, width * element_size(types[i]))) return false;
    for (int d = 1; d < walk.dims; ++d)
      if (walk.strides[size_t(d)][o] % width) return false;
  }
  args.single = single;
  args.n /= width;
  walk.numel /= width;
  walk.sizes[0] /= width;
  for (int64_t& step : walk.strides[0]) step *= width;
  return true;
}

template <class Fn, int Inputs>
void run(Fn fn, const std::array<const Tensor*, Inputs>& in, const Tensor& out, ParamSpan params,
         DType compute) {
  const int64_t n = out.numel();
  if (n == 0) return;
  const FnInfo& facts = info(fn);
  internal_assert(params.size() == facts.params, "a functor got another number of parameters");
  if (is_unborn(out) &&
      deferred::queue_step(FusedStep::Kind(Inputs), unsigned(fn), in, out, params, compute))
    return;
  const int device = out.device().index;
  PointwiseArgs<Inputs> args{};
  args.n = n;
  args.out = out.data();
  for (size_t i = 0; i < params.size(); ++i) args.params[i] = to_number(params[i]);

  DType types[Inputs + 1] = {out.dtype()};
  std::array<const TensorImpl*, Inputs + 1> operands{out.impl()};
  int64_t widest = out.element_size();
  bool flat = out.is_contiguous();
  for (int i = 0; i < Inputs; ++i) {
    const Tensor& x = *in[size_t(i)];
    types[i + 1] = x.dtype();
    if (!x.is_cuda()) {  // a number: it travels with the launch
      args.numbers[i] = to_number(x.item());
      args.given |= 1u << i;
      types[i + 1] = compute;  // is not read: one kernel serves all
      continue;
    }
    args.in[i] = x.data();
    operands[size_t(i + 1)] = x.impl();
    widest = std::max(widest, x.element_size());
    if (x.numel() == 1 && n != 1)
      args.single |= 1u << i;
    else
      flat = flat && x.is_contiguous() && x.numel() == n;
  }

  Walk<Inputs + 1> walk;
  if (!flat) {
    walk = walk_over<Inputs + 1>(operands);
    // Dense operands with the dims in one order (channels-last) are flat as well.
    flat = walk.dims <= 1;
    for (int i = 0; flat && i <= Inputs; ++i) {
      const bool single = i > 0 && ((args.single | args.given) >> (i - 1) & 1);
      flat = single || walk.strides[0][size_t(i)] == 1;
    }
  }
  if (flat) {
    int width = int(16 / widest);
    bool aligned = is_aligned(args.out, width * out.element_size());
    for (int i = 0; i < Inputs; ++i) {
      if (!((args.single | args.given) >> i & 1))
        aligned = aligned && is_aligned(args.in[i], width * element_size(types[i + 1]));
    }
    if (!aligned) width = 1;
    const unsigned mode = unsigned(std::countr_zero(unsigned(width)));
    launch(kFamily<Fn, Inputs>, pointwise_key(unsigned(fn), compute, mode, types, Inputs + 1),
           device, blocks_for((n + width - 1) / width / packs_at_once(width), device), {kThreads},
           args);
    return;
  }
  if (by_packs<Inputs>(walk, args, types)) {
    launch(kFamily<Fn, Inputs>, pointwise_key(unsigned(fn), compute, kRows, types, Inputs + 1),
           device, blocks_for(args.n, device), {kThreads}, args, walk.template nest<u32>());
    return;
  }
  with_nest(walk, [&]<class I>(const Nest<I, Inputs + 1>& nest) {
    const uint64_t key =
        pointwise_key(unsigned(fn), compute, sizeof(I) == 4 ? kShort : kLong, types, Inputs + 1);
    walk.peel([&](const std::array<int64_t, Inputs + 1>& offsets, int64_t count) {
      PointwiseArgs<Inputs> part = args;
      part.n = count;
      part.out = static_cast<char*>(args.out) + offsets[0] * out.element_size();
      for (int i = 0; i < Inputs; ++i) {
        if (part.in[i])
          part.in[i] = static_cast<const char*>(args.in[i]) +
                       offsets[size_t(i + 1)] * element_size(types[i + 1]);
      }
      launch(kFamily<Fn, Inputs>, key, device, blocks_for(count, device), {kThreads}, part, nest);
    });
  });
}

// Functors with numbers of their own are templates.
template <class F>
constexpr bool is_division() {
  return std::is_base_of_v<functors::IntegerDivision, F>;
}
template <template <class> class F>
constexpr bool is_division() {
  return is_division<F<float>>();
}

void check_divisor(const Tensor& b, DType compute) {
  if (b.is_cuda())  // which is not waited for: it tells later
    return check_nonzero(b, "", "integers cannot be divided by zero (ZeroDivisionError)");
  dispatch_storage("", compute, [&]<typename T>() {
    if constexpr (std::is_integral_v<T>)  // 256 is a zero among the uint8
      check(b.item().to<T>() != T(0), ErrorKind::Runtime, "",
            "ZeroDivisionError: an integer is divided by zero");
  });
}

void unary(UnaryFn fn, const Tensor& x, const Tensor& out, ParamSpan params, DType compute) {
  run<UnaryFn, 1>(fn, {&x}, out, params, compute);
}
void binary(BinaryFn fn, const Tensor& a, const Tensor& b, const Tensor& out, ParamSpan params,
            DType compute) {
  if (divides_integers(fn, compute)) {
    out.storage();  // is not deferred: what it divides by has to be looked at
    check_divisor(b, compute);
  }
  run<BinaryFn, 2>(fn, {&a, &b}, out, params, compute);
}
void ternary(TernaryFn fn, const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& out,
             ParamSpan params, DType compute) {
  run<TernaryFn, 3>(fn, {&a, &b, &c}, out, params, compute);
}

const bool registered = [] {
  PointwiseLoops& loops = pointwise_loops(DeviceType::CUDA);
  loops.unary = unary;
  loops.binary = binary;
  loops.ternary = ternary;
  return true;
}();

}  // namespace

bool divides_integers(BinaryFn fn, DType compute) {
#define RUSH_BINARY(F) is_division<functors::F>(),
  static constexpr bool known[] = {
#include "functors/binary_fns.inc"
  };
#undef RUSH_BINARY
  return known[int(fn)] && category(compute) <= Category::Integer;
}

}  // namespace rush::cuda
