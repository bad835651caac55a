#include "device/random.h"

namespace rush {

constinit DeviceTable<RandomLoops> random_loops;

}  // namespace rush
