#include "device/copy.h"

namespace rush {

constinit DeviceTable<CopyLoops> copy_loops;

}  // namespace rush
