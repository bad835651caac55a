#include "autograd/anomaly.h"

#include "autograd/accumulate_grad.h"
#include "autograd/engine.h"
#include "autograd/node_name.h"

namespace rush {
namespace {

bool holds_nan(const Tensor& t) {
  return t.defined() && is_differentiable(t.dtype()) && t.numel() > 0 && !t.is_meta() &&
         engine_ops().any_nan(t);
}

bool came_with_nan(const Node& node) {
  for (const Edge& e : node.edges()) {
    if (!e) continue;
    if (const NodeExtras* extras = e.node->extras(); extras && extras->made_nan) return true;
    if (AccumulateGrad* leaf = e.node->as_accumulator(); leaf && holds_nan(leaf->leaf()))
      return true;
  }
  return false;
}

}  // namespace

std::atomic<uint8_t> g_anomaly{0};

void set_anomaly(bool on, bool check_nan) {
  g_anomaly = uint8_t((on ? kAnomaly : 0) | (check_nan ? kAnomalyNan : 0));
}

AnomalyHost& anomaly_host() {
  static AnomalyHost host;
  return host;
}

void note_forward_call(Node& node) {
  if (const auto stack = anomaly_host().stack) node.make_extras().traceback = stack();
}

void note_forward_result(Node& node, const Tensor& result) {
  if (node.as_accumulator() || node.edges().empty() || !holds_nan(result)) return;
  NodeExtras& extras = node.make_extras();
  const bool known = extras.made_nan || came_with_nan(node);  // reported where it came up first
  extras.made_nan = true;
  if (!known && anomaly_host().warn_of_nan) anomaly_host().warn_of_nan(node_name(node));
}

void report_forward_call(const Node& node) {
  const NodeExtras* extras = node.extras();
  if (extras && extras->traceback && anomaly_host().warn_of_call)
    anomaly_host().warn_of_call(node, *extras->traceback);
}

void check_gradients_for_nan(const Node& node, GradSpan grads) {
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!holds_nan(grads[i])) continue;
    report_forward_call(node);
    const bool forward = node.extras() && node.extras()->made_nan;
    fail(ErrorKind::Runtime, "", "Function '", node_name(node), "' returned nan values in its ", i,
         "th output", forward ? "; its result in forward held NaN already" : "",
         ". The warning before this error shows the forward call that made the node");
  }
}

}  // namespace rush
