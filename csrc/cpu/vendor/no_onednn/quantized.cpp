#include "cpu/vendor/onednn_quantized.h"

namespace rush::onednn {

bool adds_bytes_exactly() { return false; }
bool multiply_integers(const IntegerProduct&) { return false; }
bool convolve_integers(ConvKind, const ConvShape&, const Tensor&, Steps, const IntegerWeight&, bool,
                       const Tensor&, Steps) {
  return false;
}

}  // namespace rush::onednn
