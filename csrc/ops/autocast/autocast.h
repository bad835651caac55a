// autocast.h: mixed precision: the arguments of some ops change their dtype by the op's name.
//
// The state belongs to a thread. While it is on for a device, calls go through run_intercepted, and
// the policy of the op's row decides (`autocast:`; functions written in Python state theirs by the
// decorator of rushlight/_autocast.py). Inside an op that has a policy it is off; of a composite
// that has none, the ops inside are looked at.
#pragma once

#include <string_view>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"
#include "ops/framework/registry.h"

namespace rush {

// The policy of an op for a device, by its row; None where there is no op of this name.
RUSH_API AutocastPolicy autocast_policy(std::string_view op, DeviceType device);

RUSH_API bool autocast_enabled(DeviceType device);
RUSH_API bool autocast_enabled();  // for any device
RUSH_API void set_autocast_enabled(DeviceType device, bool on);
RUSH_API DType autocast_dtype(DeviceType device);
RUSH_API void set_autocast_dtype(DeviceType device, DType dtype);
// Weights that were cast are kept until the outermost region ends.
RUSH_API bool autocast_cache_enabled();
RUSH_API void set_autocast_cache_enabled(bool on);
RUSH_API void clear_autocast_cache();
RUSH_API int autocast_nesting(int change);  // the depth after the change

// Note [Weights cast ahead]
// In a compiled function casts wait, and one launch serves many (Note [What waits longer] in
// device/deferred_queue.h). So the first weight that a call casts brings those along that the call
// before has cast: all of them at once, instead of some before each product. The function keeps the
// weights from call to call; one that is not used this time is cast for nothing, once.
//
// begin: false where this thread is inside such a call already, whose end will tell all. end: the
// weights that were cast since, in their order.
RUSH_API bool begin_cast_weights(std::vector<Tensor> of_last_call);
RUSH_API std::vector<Tensor> end_cast_weights();

// Runs the op by its policy, with autocast off inside; false, and nothing done, when it has none.
bool run_autocast(const OpEntry& entry, Value* args, Value* results);
// Sends this thread's calls to run_autocast, or no longer; what it was before. (registry.cpp)
bool intercept_for_autocast(bool on);

}  // namespace rush
