// vision.h: what detectors do with boxes and moved patches, on a device. Floating tensors of one
// dtype, contiguous; results are overwritten.
#pragma once

#include <cmath>
#include <limits>

#include "device/table.h"
#include "functors/deform.h"
#include "functors/roi.h"

namespace rush {

// The largest number of the type that is not above: x > at_most(y) means x > y.
template <class T>
T at_most(double y) {
  const T near = T(y);
  return double(near) > y ? std::nextafter(near, -std::numeric_limits<T>::infinity()) : near;
}

struct VisionLoops {
  // y (rois, channels, bins...): means of places. by_position: y has channels / bins channels, and
  // each bin reads an input channel of its own.
  void (*roi_align)(const RoiShape& s, bool by_position, const Tensor& x, const Tensor& rois,
                    const Tensor& y) = nullptr;
  void (*roi_align_backward)(const RoiShape& s, bool by_position, const Tensor& g,
                             const Tensor& rois, const Tensor& gx) = nullptr;
  // The largest element of each bin, and where it lies in its plane (int32), -1 where the bin is
  // empty.
  void (*roi_pool)(const RoiShape& s, const Tensor& x, const Tensor& rois, const Tensor& y,
                   const Tensor& argmax) = nullptr;
  // Means of elements, by position.
  void (*roi_mean)(const RoiShape& s, const Tensor& x, const Tensor& rois,
                   const Tensor& y) = nullptr;
  void (*roi_mean_backward)(const RoiShape& s, const Tensor& g, const Tensor& rois,
                            const Tensor& gx) = nullptr;

  // boxes (n, 4), the best first; keep (n) of bools: which overlap with none that is kept before
  // them, by more than the threshold.
  void (*nms)(const Tensor& boxes, double threshold, const Tensor& keep) = nullptr;
};
inline constinit DeviceTable<VisionLoops> vision_loops;

// The patches of a deformable convolution.
struct DeformLoops {
  // columns (batch, channels * points, places); mask may be undefined.
  void (*patches)(const DeformShape& s, const Tensor& x, const Tensor& offset, const Tensor& mask,
                  const Tensor& columns) = nullptr;
  // Any of the gradients may be undefined.
  void (*patches_backward)(const DeformShape& s, const Tensor& g, const Tensor& x,
                           const Tensor& offset, const Tensor& mask, const Tensor& gx,
                           const Tensor& goffset, const Tensor& gmask) = nullptr;
};
inline constinit DeviceTable<DeformLoops> deform_loops;

}  // namespace rush
