#include "autograd/saved_hooks.h"

#include <optional>
#include <vector>

#include "core/modes.h"

namespace rush {
namespace {

struct State {
  std::vector<Ref<SavedTensorHooks>> stack;
  std::optional<std::string> refusal;
};
thread_local State t_state;

void check_allowed() {
  if (t_state.refusal && !t_state.stack.empty()) {
    fail(ErrorKind::Runtime, "", *t_state.refusal);
  }
}

}  // namespace

void push_saved_tensor_hooks(Ref<SavedTensorHooks> hooks) {
  if (t_state.refusal) fail(ErrorKind::Runtime, "", *t_state.refusal);
  t_state.stack.push_back(std::move(hooks));
  set_mode(kSavedTensorHooks, true);
}

void pop_saved_tensor_hooks() {
  check(!t_state.stack.empty(), ErrorKind::Runtime, "saved_tensors_hooks", "none are active");
  const Ref<SavedTensorHooks> dies_last = std::move(t_state.stack.back());
  t_state.stack.pop_back();
  set_mode(kSavedTensorHooks, !t_state.stack.empty());
}

Ref<SavedTensorHooks> current_saved_tensor_hooks() {
  return t_state.stack.empty() ? nullptr : t_state.stack.back();
}

const std::string* saved_tensor_hooks_refusal() {
  return t_state.refusal ? &*t_state.refusal : nullptr;
}

void set_saved_tensor_hooks_refusal(const std::string* message) {
  if (message) {
    t_state.refusal = *message;
    check_allowed();
  } else {
    t_state.refusal.reset();
  }
}

}  // namespace rush
