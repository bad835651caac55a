// outside_fault.h: results that are wrong because of what happened outside of this device.
#pragma once

#include <exception>

namespace rush::cuda {

// The next time the host waits for the device, this is raised: a collective was given up, and what
// was computed behind it means nothing.
void note_outside_fault(int device, std::exception_ptr fault);

}  // namespace rush::cuda
