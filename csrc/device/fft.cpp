#include "device/fft.h"

namespace rush {

constinit DeviceTable<FourierLoops> fourier_loops;

}  // namespace rush
