#include "device/optim.h"

namespace rush {

constinit DeviceTable<OptimLoops> optim_loops;

}  // namespace rush
