// stream.h: a queue of work on a device. A device derives its own class from it.
#pragma once

#include "core/device.h"

namespace rush {

struct DeviceStream {
  const Device place;
  const int64_t id;  // 0: the default one; unique on a device
};

}  // namespace rush
