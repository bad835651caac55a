#include "cpu/vendor/onednn_convolution.h"

namespace rush::onednn {

bool run_convolution(ConvKind, const ConvShape&, const ConvTensors&) { return false; }

}  // namespace rush::onednn
