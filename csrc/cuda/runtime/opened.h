// opened.h: the devices that this process has a context on.
#pragma once

namespace rush::cuda {

// Waits for them all; errors are left to whoever uses the device next. Nothing is waited for while
// a graph is captured.
void synchronize_opened() noexcept;

}  // namespace rush::cuda
