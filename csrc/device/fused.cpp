#include "device/fused.h"

namespace rush {

constinit DeviceTable<FusedLoops> fused_loops;

}  // namespace rush
