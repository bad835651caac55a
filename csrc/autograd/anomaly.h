// anomaly.h: a mode that looks for NaN and remembers where each node was made. For the whole
// process, as in PyTorch: a backward on another thread is watched as well.
#pragma once

#include <atomic>

#include "autograd/hooks.h"

namespace rush {

enum AnomalyBits : uint8_t { kAnomaly = 1, kAnomalyNan = 2 };
extern RUSH_API std::atomic<uint8_t> g_anomaly;

inline bool anomaly_enabled() { return g_anomaly.load(std::memory_order_relaxed) & kAnomaly; }
inline bool anomaly_checks_nan() {
  return (g_anomaly.load(std::memory_order_relaxed) & (kAnomaly | kAnomalyNan)) ==
         (kAnomaly | kAnomalyNan);
}
RUSH_API void set_anomaly(bool on, bool check_nan);

// What the program that embeds us can tell about its own stack. Any of them may be null.
struct AnomalyHost {
  Ref<HostObject> (*stack)() = nullptr;                                 // of the call that runs now
  void (*warn_of_call)(const Node& node, HostObject& stack) = nullptr;  // "... was called here"
  void (*warn_of_nan)(const std::string& node_name) = nullptr;  // made in forward, right now
};
RUSH_API AnomalyHost& anomaly_host();

// Node's constructor and add_result call these while the mode is on.
void note_forward_call(Node& node);
void note_forward_result(Node& node, const Tensor& result);
// The engine's: reports where a node that fails, or whose gradients hold a NaN, was made.
RUSH_API void report_forward_call(const Node& node);
RUSH_API void check_gradients_for_nan(const Node& node, GradSpan grads);

}  // namespace rush
