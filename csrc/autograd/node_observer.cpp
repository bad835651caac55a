#include "autograd/node_observer.h"

namespace rush {
namespace {
constinit thread_local NodeObserver* t_observer = nullptr;
}  // namespace

void (*g_observe_thread)() = nullptr;

NodeObserver* node_observer() { return t_observer; }
void set_node_observer(NodeObserver* o) { t_observer = o; }

}  // namespace rush
