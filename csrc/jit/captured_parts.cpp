// Which instructions of a recording can be in a graph of its device, and what speaks against any.
#include <algorithm>
#include <mutex>

#include "autograd/accumulate_grad.h"
#include "jit/captured.h"
#include "jit/captured_places.h"

namespace rush::jit {
namespace {

bool has_graphs(Device device) { return device_graphs(device).make != nullptr; }

bool any_hook(const OwnedHooks& hooks) { return hooks.get() && !hooks.get()->empty(); }

}  // namespace

bool has_backward_hooks(const Tensor& leaf) {
  const GradMeta* meta = grad_meta_or_null(leaf);
  if (!meta) return false;
  if (meta->hooks && (any_hook(meta->hooks->gradient) || any_hook(meta->hooks->accumulated)))
    return true;
  Ref<Node> accumulator;
  {
    std::lock_guard lock(meta->lock);
    if (meta->grad_fn || !meta->accumulator || !meta->accumulator->try_retain()) return false;
    accumulator = Ref<Node>::adopt(meta->accumulator);
  }
  const NodeExtras* extras = accumulator->extras();
  return extras &&
         (any_hook(extras->before) || any_hook(extras->after) ||
          std::ranges::any_of(extras->gradient, [](const auto& of) { return any_hook(of.hooks); }));
}

bool Captured::runs_beside(size_t instruction) const {
  if (std::ranges::binary_search(varying_, instruction)) return true;
  const Instruction& i = recording_.graph.body[instruction];
  bool beside = false;
  for_each_place(i, [&](const Place& p) {
    const std::optional<Device> device =
        p.kind == Place::Kind::State      ? std::optional(recording_.state[p.index].device())
        : p.kind == Place::Kind::Constant ? std::optional(recording_.constants[p.index].device())
                                          : recording_.devices[p.index];
    beside |= device && *device != *device_;
  });
  for_each_result(i, [&](uint32_t value) {
    beside |= recording_.devices[value] && *recording_.devices[value] != *device_;
  });
  return beside;
}

void Captured::plan() {
  const auto see = [&](Device device) {
    if (!has_graphs(device)) return;
    if (device_ && *device_ != device) refused_ = "it works on several devices";
    device_ = device;
  };
  for (const Tensor& t : recording_.state) see(t.device());
  for (const auto& device : recording_.devices)
    if (device) see(*device);
  if (!device_) return;
  from_beside_.assign(recording_.graph.num_values, false);
  for (size_t i = 0; i < recording_.graph.body.size(); ++i) {
    const bool beside = runs_beside(i);
    if (parts_.empty() || parts_.back().beside != beside)
      parts_.push_back({i, i, beside, {}, {}, {}, {}});
    parts_.back().last = i + 1;
    const std::string_view op = recording_.graph.body[i].op->name;
    const Place* first = recording_.graph.body[i].args.empty()
                             ? nullptr
                             : std::get_if<Place>(&recording_.graph.body[i].args[0]);
    const bool of_value = first && first->kind == Place::Kind::Value;
    const bool of_input = of_value && first->index < recording_.graph.inputs.size();
    if (op == "_want_grad" && (!of_value || of_input))
      refused_ = "it changes requires_grad of a tensor that it did not make";
    if (op == "_put_grad" && of_input) refused_ = "it changes the gradient of an argument";
    if (!beside) continue;
    for_each_result(recording_.graph.body[i], [&](uint32_t v) { from_beside_[v] = true; });
    if (op == "_run_backward" || op == "_run_grad")
      refused_ = "a backward pass goes through tensors on several devices";
  }
}

// Of which state is a .grad read that was there before the call?
std::vector<bool> Captured::grads_read() const {
  const size_t n = recording_.state.size();
  std::vector<bool> cleared(n, false), read(n, false);
  for (const Instruction& i : recording_.graph.body) {
    const std::string_view op = i.op->name;
    if (op == "_run_backward") {
      for (size_t k = 0; k < n; ++k) read[k] = read[k] || !cleared[k];
    }
    if (op != "_put_grad" && op != "_read_grad") continue;
    const Place* of = std::get_if<Place>(&i.args[0]);
    if (!of || of->kind != Place::Kind::State) continue;
    if (op == "_put_grad")
      cleared[of->index] = true;
    else if (!cleared[of->index])
      read[of->index] = true;
  }
  return read;
}

// What speaks against graphs for calls like this one; empty: nothing.
std::string Captured::obstacle(const std::vector<Tensor>& inputs) const {
  const auto share = [](const Tensor& a, const Tensor& b) {
    return &a != &b && a.storage().get() == b.storage().get();
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto with = [&](const Tensor& t) { return share(inputs[i], t); };
    if (copied_[i] &&
        (std::ranges::any_of(inputs, with) || std::ranges::any_of(recording_.state, with)))
      return "an argument shares memory with another tensor, and lies elsewhere at each call";
  }
  for (const Tensor& t : inputs) {
    if (t.device() == *device_ && requires_grad(t)) return "an argument requires a gradient";
    if (t.is_batched()) return "vmap is under way";
  }
  for (const Tensor& t : recording_.state)
    if (has_backward_hooks(t)) return "a hook in Python sees the gradient of a parameter";
  return "";
}

}  // namespace rush::jit
