// foreign_device.h: types of devices that PyTorch has a name for and Rushlight has nothing on.
//
// Programs ask `x.device == device("mps")`, so such devices are values: they compare, print and
// pickle. Their types come after those of DeviceType; nothing but rushlight.device holds one, and
// reading one as an argument is an error.
#pragma once

#include <optional>

#include "core/device.h"

namespace rush {

constexpr bool is_foreign(Device device) {
  return static_cast<int>(device.type) >= kDeviceTypeCount;
}

// "mps", "xpu:1", ...; nothing when the text names another device, or none.
RUSH_API std::optional<Device> find_foreign_device(std::string_view text);

}  // namespace rush
