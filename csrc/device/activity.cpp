#include "device/activity.h"

namespace rush {

constinit DeviceTable<ActivityRecorder> activity_recorders;

}  // namespace rush
