#include "device/nn.h"

namespace rush {

constinit NnLoops detail::g_device_nn_loops[kDeviceTypeCount] = {};

}  // namespace rush
