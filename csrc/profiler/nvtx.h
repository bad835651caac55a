// nvtx.h: ranges and marks for NVIDIA's tools (Nsight Systems and the like).
//
// NVTX has no library: a program asks the environment which tool listens (NVTX_INJECTION64_PATH),
// opens it, and lets it put its functions into tables. Without a tool all of this does nothing.
#pragma once

#include <cstdint>
#include <memory>

#include "trace/stream.h"

namespace rush::nvtx {

RUSH_API bool has_tool();
RUSH_API void mark(const char* message);
// Depths of the thread's nested ranges, counted by the tool; negative without one, as in NVTX.
RUSH_API int range_push(const char* message);
RUSH_API int range_pop();
// A range that may end on another thread.
RUSH_API uint64_t range_start(const char* message);
RUSH_API void range_end(uint64_t range);

// A listener that puts a range around every op, node of backward and named range.
RUSH_API std::shared_ptr<StreamListener> make_emitter(bool shapes);

}  // namespace rush::nvtx
