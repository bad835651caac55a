// Dropout on GPUs, through kernels/dropout_exact.cu.
#include "device/nn/dropout.h"
#include "cuda/nn/rows.h"
#include "cuda/runtime/graph.h"
#include "cuda/runtime/loops.h"
#include "cuda/runtime/nest.h"

namespace rush::cuda {
namespace {

enum Kernel : uint64_t { kDraw, kFlat, kStrided };

// Key: kernel, packs (kStrided: long indices), affine, type.
std::string spell(uint64_t key) {
  const auto type = DType(key & 15);
  const bool affine = key >> 4 & 1, flag = key >> 5 & 1;
  const std::string types = type_pair(type) + ", ";
  const char* last = affine ? ", true>" : ", false>";
  switch (Kernel(key >> 6)) {
    case kDraw:
      return concat("rush::dropout<", types, flag ? "true" : "false", last);
    case kFlat:
      return concat("rush::masked_flat<", types, flag ? pack_of(type) : 1, last);
    default:
      return concat("rush::masked_strided<", types, flag ? "rush::u64" : "rush::u32", last);
  }
}
const KernelFamily kFamily{"dropout_exact.cu", spell};

uint64_t key_of(Kernel kernel, bool flag, const DropoutRule& rule, DType type) {
  const bool affine = rule.shift != 0 || rule.floor != 0;
  return kernel << 6 | uint64_t(flag) << 5 | uint64_t(affine) << 4 | uint64_t(type);
}

DropoutArgs args_for(const Tensor& x, const Tensor& mask, const DropoutRule& rule,
                     const Tensor& y) {
  DropoutArgs args{};
  args.n = y.numel();
  args.x = x.data();
  args.y = y.data();
  args.mask = mask.data<truth>();
  args.keep = rule.keep;
  args.scale = rule.scale;
  args.shift = rule.shift;
  args.floor = rule.floor;
  return args;
}

void dropout(const Tensor& x, RandomCall call, const DropoutRule& rule, const Tensor& y,
             const Tensor& mask) {
  if (y.numel() == 0) return;
  DropoutArgs args = args_for(x, mask, rule, y);
  const int device = y.device().index;
  const RandomSource source = random_source(call, device);
  args.seed = source.seed;
  args.call = source.call;
  const bool packs = aligned({x.data(), y.data()}, std::min<int64_t>(16, 4 * y.element_size())) &&
                     aligned({mask.data()}, 4);
  launch_each(kFamily, key_of(kDraw, packs, rule, y.dtype()), device, (args.n + 3) / 4, args,
              source.state);
}

bool alike(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && a.strides() == b.strides();
}

void masked(const Tensor& x, const Tensor& mask, const DropoutRule& rule, const Tensor& y) {
  if (y.numel() == 0) return;
  DropoutArgs args = args_for(x, mask, rule, y);
  const int device = y.device().index;
  const int64_t width = pack_of(y.dtype());
  if (alike(x, y) && alike(mask, y) && is_dense(y.sizes(), y.strides())) {
    const bool packs = aligned({x.data(), y.data()}) && aligned({mask.data()}, width);
    launch_each(kFamily, key_of(kFlat, packs, rule, y.dtype()), device,
                args.n / (packs ? width : 1) + 1, args);
    return;
  }
  const Walk<3> walk = walk_over<3>({y.impl(), x.impl(), mask.impl()});
  with_nest(walk, [&]<class I>(const Nest<I, 3>& nest) {
    walk.peel([&](const std::array<int64_t, 3>& at, int64_t count) {
      args.n = count;
      args.y = y.data<char>() + at[0] * y.element_size();
      args.x = x.data<char>() + at[1] * x.element_size();
      args.mask = mask.data<truth>() + at[2];
      launch_each(kFamily, key_of(kStrided, sizeof(I) == 8, rule, y.dtype()), device, count, args,
                  nest);
    });
  });
}

const bool registered = [] {
  dropout_loops(DeviceType::CUDA) = {dropout, masked};
  return true;
}();

}  // namespace
}  // namespace rush::cuda
