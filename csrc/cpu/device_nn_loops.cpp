#include "cpu/device_nn_loops.h"

namespace rush {

constinit NnLoops detail::g_device_nn_loops[kDeviceTypeCount] = {};

}  // namespace rush
