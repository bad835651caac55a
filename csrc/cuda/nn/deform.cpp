// Patches whose points are moved, on GPUs, through kernels/deform.cu.
#include "cuda/kernels/deform_args.h"
#include "cuda/nn/sums.h"
#include "device/nn/vision.h"

namespace rush::cuda {
namespace {

// Key: backward, type.
std::string spell(uint64_t key) {
  return concat(key >> 4 ? "rush::deform_patches_backward<" : "rush::deform_patches<",
                type_pair(DType(key & 15)), ">");
}
const KernelFamily kFamily{"deform.cu", spell};

DeformArgs args_for(const DeformShape& s, const Tensor& x, const Tensor& offset,
                    const Tensor& mask) {
  DeformArgs args{};
  args.s = s;
  args.x = x.data();
  args.offset = offset.data();
  args.mask = data_or_null(mask);
  return args;
}

void deform_patches(const DeformShape& s, const Tensor& x, const Tensor& offset, const Tensor& mask,
                    const Tensor& columns) {
  DeformArgs args = args_for(s, x, offset, mask);
  args.columns = columns.data();
  const int device = x.device().index;
  launch_each(kFamily, uint64_t(x.dtype()), device, columns.numel(), args);
}

void deform_patches_backward(const DeformShape& s, const Tensor& g, const Tensor& x,
                             const Tensor& offset, const Tensor& mask, const Tensor& gx,
                             const Tensor& goffset, const Tensor& gmask) {
  const AtomicSums sums(gx);
  DeformArgs args = args_for(s, x, offset, mask);
  args.g = g.data();
  args.gx = sums.data();
  args.goffset = const_cast<void*>(data_or_null(goffset));
  args.gmask = const_cast<void*>(data_or_null(gmask));
  const int device = x.device().index;
  launch_each(kFamily, 1 << 4 | uint64_t(x.dtype()), device,
              s.batch * s.groups * s.points() * s.places(), args);
  sums.finish();
}

const bool registered = [] {
  deform_loops(DeviceType::CUDA) = {deform_patches, deform_patches_backward};
  return true;
}();

}  // namespace
}  // namespace rush::cuda
