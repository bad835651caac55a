// pass_listener.h: who wants to know of the passes in which deferred ops run (device/deferred.h): they
// come when somebody asks for a value, and are no ops of their own.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "core/export.h"

namespace rush::deferred {

struct PassListener {
  uint64_t (*begin)(std::string_view name);
  void (*end)(uint64_t pass, bool failed);
};
// Null: nobody. Told on threads that are observed (kObserve in core/modes.h).
RUSH_API extern std::atomic<const PassListener*> g_pass_listener;

}  // namespace rush::deferred
