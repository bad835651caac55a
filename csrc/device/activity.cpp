#include "device/activity.h"

namespace rush {

constinit DeviceTable<ActivityRecorder> activity_recorders;
constinit std::atomic<WaitListener> g_wait_listener{nullptr};

}  // namespace rush
