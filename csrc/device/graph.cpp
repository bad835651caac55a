#include "device/graph.h"

namespace rush {

constinit DeviceTable<DeviceGraphs> device_graphs;

}  // namespace rush
