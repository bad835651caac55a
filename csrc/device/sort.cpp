#include "device/sort.h"

namespace rush {

constinit DeviceTable<SortLoops> sort_loops;

}  // namespace rush
