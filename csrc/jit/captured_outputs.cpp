// What a call by graphs returns: tensors of the caller's, or copies in fresh memory.
#include <algorithm>
#include <unordered_set>

#include "autograd/meta.h"
#include "jit/captured.h"
#include "ops/framework/data.h"
#include "ops/framework/kept.h"

namespace rush::jit {
namespace {

const Storage* storage_of(const Tensor& t) { return t.impl()->storage.load(); }

// Does a node keep tensors for backward? Those of other kinds than ops' tell only by having run.
bool keeps_tensors(Node& node) {
  KeptCall call;
  if (!node.show_kept(call)) return !node.released_at();
  const auto holds = [](const SavedTensor& t) { return t.defined(); };
  return std::ranges::any_of(call.results, holds) ||
         std::ranges::any_of(call.arguments, [&](const KeptArgument& a) {
           return std::ranges::any_of(a.tensors, holds);
         });
}

// Has backward gone through all that leads to this node, so that it holds no memory any more?
bool is_released(const Ref<Node>& root) {
  std::vector<Node*> waiting{root.get()};
  std::unordered_set<const Node*> seen{root.get()};
  while (!waiting.empty()) {
    Node* node = waiting.back();
    waiting.pop_back();
    if (node->as_accumulator()) continue;
    if (keeps_tensors(*node)) return false;
    for (const Edge& e : node->edges())
      if (e && seen.insert(e.node.get()).second) waiting.push_back(e.node.get());
  }
  return true;
}

// The same geometry over `owner`'s memory, where `model` lies over that of `like`.
Tensor placed_in(const Tensor& owner, const Tensor& like, const Tensor& model) {
  return owner.alias(model.sizes(), model.strides(),
                     owner.offset() + model.offset() - like.offset());
}

}  // namespace

// Fills in how an output is made at each call. Returns why it cannot be; empty: it can.
std::string Captured::plan_output(const Place& place, Output& o) const {
  using Kind = Output::Kind;
  if (place.kind == Place::Kind::State) {
    o.kind = Kind::State;
    o.index = place.index;
    return "";
  }
  if (place.kind == Place::Kind::Constant) return "a constant is returned";
  const Tensor& t = o.model = values_[place.index];
  o.index = place.index;
  o.kind = Kind::Held;
  if (!t.defined()) return "";
  const auto find = [&](const std::vector<Tensor>& list, Kind same, Kind view) -> bool {
    for (const bool exactly : {true, false}) {
      for (size_t i = 0; i < list.size(); ++i) {
        const bool hit =
            exactly ? list[i].is_same(t) : storage_of(list[i]) == storage_of(t) && storage_of(t);
        if (!hit) continue;
        o.kind = exactly ? same : view;
        o.index = i;
        return true;
      }
    }
    return false;
  };
  if (find(inputs_, Kind::Input, Kind::OfInput) ||
      find(recording_.state, Kind::State, Kind::OfState)) {
    if (o.kind == Kind::Input || o.kind == Kind::State) return "";
    const Tensor& owner = o.kind == Kind::OfInput ? inputs_[o.index] : recording_.state[o.index];
    if (requires_grad(t)) return "gradients flow through its results";
    if (owner.dtype() != t.dtype()) return "a result is a view in another dtype";
    return "";
  }
  const auto over = [&](const auto& held) { return storage_of(held) == storage_of(t); };
  const bool kept =
      std::ranges::any_of(kept_, [&](const auto& k) { return over(k.second); }) ||
      std::ranges::any_of(parts_, [&](const Part& p) {
        return std::ranges::any_of(p.entering, [&](const auto& e) { return over(e.second); });
      });
  if (from_beside_[place.index] && !kept) {
    o.kind = Kind::Beside;
    return "";
  }
  for (const Part& part : parts_) {
    for (const GradAfter& g : part.grads) {
      if (!g.grad.defined() || !over(g.grad)) continue;
      return g.grad.is_same(t) ? "" : "a result is a view of a gradient";
    }
  }
  o.kind = Kind::Fresh;
  if (t.device() != *device_) return "a result lies in host memory";
  if (!requires_grad(t)) return "";
  o.node = grad_fn(t);
  if (!o.node) return "a result is a leaf that requires a gradient";
  o.slot = grad_meta(t).slot;
  return is_released(o.node) ? "" : "gradients flow through its results";
}

// False: there is an obstacle, and the recording is given up.
bool Captured::plan_outputs() {
  outputs_.clear();
  for (const Structure& s : recording_.graph.output.items) {
    Output& o = outputs_.emplace_back();
    std::string why = plan_output(s.place, o);
    if (!why.empty()) {
      give_up(std::move(why));
      return false;
    }
    if (o.kind != Output::Kind::Fresh) continue;
    for (size_t k = 0; k + 1 < outputs_.size(); ++k) {
      const Output& other = outputs_[k];
      if (other.kind != Output::Kind::Fresh || storage_of(other.model) != storage_of(o.model))
        continue;
      if (other.model.dtype() != o.model.dtype()) {
        give_up("two results share memory, in different dtypes");
        return false;
      }
      o.before = int64_t(k);
      break;
    }
  }
  for (Output& o : outputs_) {  // nothing of the caller's is kept
    using Kind = Output::Kind;
    const bool view = o.kind == Kind::OfInput || o.kind == Kind::OfState;
    if (view) {
      const Tensor& owner = o.kind == Kind::OfInput ? inputs_[o.index] : recording_.state[o.index];
      Tensor geometry = make_tensor(o.model.sizes(), o.model.strides(), o.model.dtype(),
                                    Device{DeviceType::Meta});
      geometry.impl()->offset = o.model.offset() - owner.offset();
      o.model = geometry;
    } else if (o.kind != Kind::Fresh && o.kind != Kind::Held) {
      o.model = {};
    }
  }
  return true;
}

Tensor Captured::fresh(const Output& o) const {
  const Tensor& from = o.model;
  // Others that share its memory are made over the whole of it.
  const bool shared = std::ranges::any_of(outputs_, [&](const Output& other) {
    return other.before >= 0 && &outputs_[size_t(other.before)] == &o;
  });
  Tensor out;
  if (shared) {
    const Storage& s = *from.storage();
    const Ref<Storage> copy = Storage::allocate(*device_, s.nbytes());
    const Dims all{int64_t(s.nbytes())};
    copy_data(make_tensor(copy, all, Dims{1}, 0, DType::UInt8),
              make_tensor(from.storage(), all, Dims{1}, 0, DType::UInt8));
    out = make_tensor(copy, from.sizes(), from.strides(), from.offset(), from.dtype());
  } else {
    out = make_tensor(from.sizes(), from.strides(), from.dtype(), *device_);
    copy_data(out, from);
  }
  finish(out, o);
  return out;
}

void Captured::finish(const Tensor& out, const Output& o) const {
  inherit_cut(out, o.model);
  if (o.node) set_history(out, o.node, o.slot);
}

// Results are read right behind the graphs that make them, before any other graph runs: their memory
// may serve the captures of others.
void Captured::let_outputs_go() {
  for (Output& o : outputs_) {
    if (o.kind != Output::Kind::Fresh) continue;
    const Tensor& t = o.model;
    const auto nothing = [](void*) noexcept {};
    const Ref<Storage> there =
        Storage::wrap(t.storage()->data(), t.storage()->nbytes(), *device_, nothing, nullptr);
    const Tensor window = make_tensor(there, t.sizes(), t.strides(), t.offset(), t.dtype());
    inherit_cut(window, t);
    o.model = window;
  }
}

std::vector<Tensor> Captured::outputs(const std::vector<Tensor>& inputs) const {
  using Kind = Output::Kind;
  std::vector<Tensor> given;
  given.reserve(outputs_.size());
  for (const Output& o : outputs_) {
    const auto view_of = [&](const Tensor& owner) {
      return owner.alias(o.model.sizes(), o.model.strides(), owner.offset() + o.model.offset());
    };
    switch (o.kind) {
      case Kind::Input:
        given.push_back(inputs[o.index]);
        break;
      case Kind::State:
        given.push_back(recording_.state[o.index]);
        break;
      case Kind::OfInput:
        given.push_back(view_of(inputs[o.index]));
        break;
      case Kind::OfState:
        given.push_back(view_of(recording_.state[o.index]));
        break;
      case Kind::Beside:
        given.push_back(values_[o.index]);
        break;
      case Kind::Held:
        given.push_back(o.model);
        break;
      case Kind::Fresh:
        if (o.before < 0) {
          given.push_back(fresh(o));
        } else {
          const auto k = size_t(o.before);
          given.push_back(placed_in(given[k], outputs_[k].model, o.model));
          finish(given.back(), o);
        }
        break;
    }
  }
  return given;
}

// Of a call that ran by the interpreter in the end; what it knows as copies of arguments are these.
std::vector<Tensor> Captured::plain_outputs(const std::vector<Tensor>& inputs) const {
  const auto callers = [&](const Tensor& t) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!t.defined() || !copied_[i]) continue;
      if (t.is_same(inputs_[i])) return inputs[i];
      if (storage_of(t) == storage_of(inputs_[i])) return placed_in(inputs[i], inputs_[i], t);
    }
    return t;
  };
  std::vector<Tensor> given;
  for (const Structure& s : recording_.graph.output.items) {
    const Place& p = s.place;
    given.push_back(p.kind == Place::Kind::State      ? recording_.state[p.index]
                    : p.kind == Place::Kind::Constant ? recording_.constants[p.index]
                                                      : callers(values_[p.index]));
  }
  return given;
}

}  // namespace rush::jit
