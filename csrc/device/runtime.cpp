#include "device/runtime.h"

namespace rush {

constinit DeviceTable<DeviceTraits> device_traits;
constinit DeviceTable<DeviceRuntime> device_runtime;

}  // namespace rush
