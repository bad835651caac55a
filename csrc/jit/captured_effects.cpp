// What a call leaves on the host: versions, .grad, arguments that were written to.
#include <algorithm>

#include "autograd/meta.h"
#include "jit/captured.h"
#include "ops/framework/data.h"

namespace rush::jit {
namespace {

uint32_t version_of_grad(const Tensor& t) {
  const Tensor g = grad_of(t);
  return g.defined() ? g.version() : 0;
}

void bump(const Tensor& t, uint32_t times) {
  for (uint32_t i = 0; i < times; ++i) t.bump_version("a frozen function");
}

}  // namespace

Captured::HostState Captured::look() const {
  HostState s;
  for (const Tensor& t : recording_.state) {
    s.versions.push_back(t.version());
    s.grad_versions.push_back(grad_meta_or_null(t) ? version_of_grad(t) : 0);
    s.grads.push_back(grad_meta_or_null(t) ? grad_of(t) : Tensor());
  }
  for (const Tensor& t : inputs_) s.input_versions.push_back(t.version());
  return s;
}

void Captured::undo(const HostState& before) const {
  for (size_t i = 0; i < before.grads.size(); ++i) {
    const Tensor& t = recording_.state[i];
    if (grad_meta_or_null(t)) exchange_grad(t, before.grads[i]);
  }
}

void Captured::note_effects(Part& part, const HostState& before) {
  for (size_t i = 0; i < recording_.state.size(); ++i) {
    const Tensor& t = recording_.state[i];
    if (const uint32_t n = t.version() - before.versions[i])
      part.bumps.push_back({Bump::Of::State, i, n});
    if (!grad_meta_or_null(t)) continue;
    const Tensor grad = grad_of(t);
    if (!grad.is_same(before.grads[i]))
      part.grads.push_back({i, grad});
    else if (const uint32_t n = version_of_grad(t) - before.grad_versions[i])
      part.bumps.push_back({Bump::Of::Grad, i, n});
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (const uint32_t n = inputs_[i].version() - before.input_versions[i])
      part.bumps.push_back({Bump::Of::Input, i, n});
  }
}

void Captured::repeat_effects(const Part& part, const std::vector<Tensor>& inputs) const {
  for (const Bump& b : part.bumps) {
    if (b.of == Bump::Of::State) bump(recording_.state[b.index], b.times);
    if (b.of == Bump::Of::Input && !copied_[b.index]) bump(inputs[b.index], b.times);
    if (b.of != Bump::Of::Grad) continue;
    if (const Tensor g = grad_of(recording_.state[b.index]); g.defined()) bump(g, b.times);
  }
  for (const GradAfter& g : part.grads) exchange_grad(recording_.state[g.state], g.grad);
}

// Gives arguments that were copied what the function wrote to the copies.
void Captured::write_back(const std::vector<Tensor>& inputs) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!copied_[i] || !written_[i]) continue;
    copy_data(inputs[i], statics_[i]);
    bump(inputs[i], 1);
  }
}

// Our own references to the gradients, once the call is over.
void Captured::note_owned() {
  for (const Part& p : parts_) {
    for (const GradAfter& g : p.grads) {
      if (!g.grad.defined() ||
          std::ranges::any_of(owned_, [&](const Owned& o) { return o.grad.is_same(g.grad); }))
        continue;
      owned_.push_back({g.grad, g.state, 0, 0});
    }
  }
  for (Owned& o : owned_) {
    const bool in_place = grad_of(recording_.state[o.state]).is_same(o.grad);
    o.tensor_count = o.grad.impl()->use_count() - uint32_t(in_place);
    o.storage_count = o.grad.storage()->use_count();
  }
}

}  // namespace rush::jit
