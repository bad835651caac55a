#include "device/loops.h"

namespace rush {

constinit DeviceLoops detail::g_device_loops[kDeviceTypeCount] = {};

}  // namespace rush
