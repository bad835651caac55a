// Boxes in images on GPUs, through kernels/roi.cu and kernels/nms.cu.
#include "cuda/kernels/roi_args.h"
#include "cuda/nn/sums.h"
#include "device/nn/vision.h"

namespace rush::cuda {
namespace {

enum Kernel : uint64_t { kAlign, kAlignBackward, kPool, kMean, kMeanBackward };

// Key: kernel, by position, type.
std::string spell(uint64_t key) {
  constexpr const char* names[] = {"roi_align<", "roi_align_backward<", "roi_pool<", "roi_mean<",
                                   "roi_mean_backward<"};
  const uint64_t kernel = key >> 5;
  return concat("rush::", names[kernel], type_pair(DType(key & 15)),
                kernel > kAlignBackward ? ">"
                : key >> 4 & 1          ? ", true>"
                                        : ", false>");
}
const KernelFamily kFamily{"roi.cu", spell};

// x: what is read; y: what has the bins.
void run(Kernel kernel, bool by_position, RoiArgs args, const Tensor& x, const Tensor& rois) {
  const int device = x.device().index;
  args.x = x.data();
  args.rois = rois.data();
  launch_each(kFamily, kernel << 5 | uint64_t(by_position) << 4 | uint64_t(x.dtype()), device,
              args.n, args);
}

RoiArgs forward_args(const char* op, const RoiShape& s, const Tensor& y) {
  RoiArgs args{};
  args.s = s;
  args.n = y.numel();
  args.y = y.data();
  const FaultSlot fault = next_fault_slot(y.device().index, op, 0, s.batch);
  args.launch = fault.launch;
  args.fault = fault.record;
  return args;
}
RoiArgs backward_args(const RoiShape& s, const Tensor& g, const AtomicSums& gx) {
  RoiArgs args{};
  args.s = s;
  args.n = g.numel();
  args.y = gx.data();
  return args;
}

void roi_align(const RoiShape& s, bool by_position, const Tensor& x, const Tensor& rois,
               const Tensor& y) {
  run(kAlign, by_position, forward_args(by_position ? "ps_roi_align" : "roi_align", s, y), x, rois);
}

void roi_align_backward(const RoiShape& s, bool by_position, const Tensor& g, const Tensor& rois,
                        const Tensor& gx) {
  const AtomicSums sums(gx);
  run(kAlignBackward, by_position, backward_args(s, g, sums), g, rois);
  sums.finish();
}

void roi_pool(const RoiShape& s, const Tensor& x, const Tensor& rois, const Tensor& y,
              const Tensor& argmax) {
  RoiArgs args = forward_args("roi_pool", s, y);
  args.argmax = argmax.data<i32>();
  run(kPool, false, args, x, rois);
}

void roi_mean(const RoiShape& s, const Tensor& x, const Tensor& rois, const Tensor& y) {
  run(kMean, true, forward_args("ps_roi_pool", s, y), x, rois);
}

void roi_mean_backward(const RoiShape& s, const Tensor& g, const Tensor& rois, const Tensor& gx) {
  const AtomicSums sums(gx);
  run(kMeanBackward, true, backward_args(s, g, sums), g, rois);
  sums.finish();
}

// ---- non-maximum suppression ----

// Key: a type for the overlaps, or kKeep and whether the table is long.
constexpr uint64_t kKeep = 16;
std::string spell_nms(uint64_t key) {
  if (key >= kKeep) return key == kKeep ? "rush::nms_keep<rush::u32>" : "rush::nms_keep<rush::u64>";
  return concat("rush::nms_overlaps<", type_pair(DType(key)), ">");
}
const KernelFamily kNmsFamily{"nms.cu", spell_nms};

void nms(const Tensor& boxes, double threshold, const Tensor& keep) {
  const int device = boxes.device().index;
  NmsArgs args{};
  args.n = keep.numel();
  args.words = (args.n + 63) / 64;
  const Tensor bits = make_tensor(Dims{args.n, args.words}, DType::Int64, boxes.device());
  const Tensor gone = make_tensor(Dims{args.words}, DType::Int64, boxes.device());
  fill(gone, 0);
  args.boxes = boxes.data();
  args.bits = static_cast<u64*>(bits.data());
  args.gone = static_cast<u64*>(gone.data());
  args.keep = keep.data<bool>();
  args.limit = compute_dtype(boxes.dtype()) == DType::Float64 ? threshold
                                                              : double(at_most<float>(threshold));
  launch_each(kNmsFamily, uint64_t(boxes.dtype()), device, bits.numel(), args);
  const bool is_long = bits.numel() >= int64_t(1) << 31;
  launch(kNmsFamily, kKeep + is_long, device, {1}, {kThreads}, args);
}

const bool registered = [] {
  VisionLoops& loops = vision_loops(DeviceType::CUDA);
  loops.roi_align = roi_align;
  loops.roi_align_backward = roi_align_backward;
  loops.roi_pool = roi_pool;
  loops.roi_mean = roi_mean;
  loops.roi_mean_backward = roi_mean_backward;
  loops.nms = nms;
  return true;
}();

}  // namespace
}  // namespace rush::cuda
