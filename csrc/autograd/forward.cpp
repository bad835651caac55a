#include "autograd/forward.h"

#include <vector>

#include "autograd/meta.h"

namespace rush {
namespace {

struct Level {
  std::vector<Ref<TangentCell>> cells;
  size_t prune_at = 64;

  void add(const Ref<TangentCell>& cell) {
    if (cells.size() >= prune_at) {
      // Cells whose tensors are gone: a long loop inside one level must not collect them.
      std::erase_if(cells, [](const Ref<TangentCell>& c) { return c->use_count() == 1; });
      prune_at = std::max<size_t>(64, 2 * cells.size());
    }
    cells.push_back(cell);
  }
};

struct State {
  std::vector<Level> levels;
  int visible = 0;
  bool enabled = true;
};
State& state() {
  static thread_local State s;
  return s;
}

void show(State& s, int visible) {
  s.visible = visible;
  set_mode(kForward, s.enabled && visible > 0);
}

TangentCell* find(const Tensor& t, int level) {
  const GradMeta* meta = grad_meta_or_null(t);
  if (!meta || !meta->tangents) return nullptr;
  for (const Ref<TangentCell>& c : meta->tangents->cells) {
    if (c->level == level && c->tangent.defined()) return c.get();
  }
  return nullptr;
}

}  // namespace

Tangents::~Tangents() {
  for (const Ref<TangentCell>& c : cells) c->tangent = Tensor();
}

int forward_level() { return int(state().levels.size()); }
int visible_forward_level() { return forward_active() ? state().visible : 0; }

int enter_forward_level() {
  State& s = state();
  s.levels.emplace_back();
  show(s, int(s.levels.size()));
  return s.visible;
}

void exit_forward_level() {
  State& s = state();
  check(!s.levels.empty(), ErrorKind::Runtime, "exit_dual_level", "no dual level was entered");
  // Tangents may hold the last reference to others: none of them is freed while the list changes.
  const Level left = std::move(s.levels.back());
  s.levels.pop_back();
  show(s, int(s.levels.size()));
  for (const Ref<TangentCell>& c : left.cells) {
    const Tensor dropped = std::move(c->tangent);
    c->tangent = Tensor();
  }
}

bool forward_enabled() { return state().enabled; }
void set_forward_enabled(bool on) {
  State& s = state();
  s.enabled = on;
  show(s, s.visible);
}

Tensor own_tangent(const Tensor& t, int level) {
  const TangentCell* c = t.defined() ? find(t, level) : nullptr;
  return c ? c->tangent : Tensor();
}

Tensor tangent_at(const Tensor& t, int level) {
  if (!t.defined()) return {};
  if (const TangentCell* own = find(t, level)) return own->tangent;
  if (!t.impl()->base) return {};
  const Tensor base(t.impl()->base);
  TangentCell* c = find(base, level);
  if (!c || has_internal_overlap(base)) return {};
  const LevelsBelow below(level);
  if (!(c->tangent.strides() == base.strides()))
    c->tangent = forward_ops().lay_out(c->tangent, base);
  return forward_ops().read_view(c->tangent, base, t);
}

bool has_tangent(const Tensor& t) {
  if (!t.defined()) return false;
  for (int level = visible_forward_level(); level > 0; --level) {
    if (find(t, level)) return true;
    if (t.impl()->base && find(Tensor(t.impl()->base), level)) return true;
  }
  return false;
}

void set_own_tangent(const Tensor& t, int level, const Tensor& tangent) {
  GradMeta& meta = grad_meta(t);
  if (!meta.tangents) meta.tangents = std::make_unique<Tangents>();
  auto& cells = meta.tangents->cells;
  for (Ref<TangentCell>& c : cells) {
    if (c->level != level) continue;
    if (c->tangent.defined()) {
      c->tangent = tangent;
      return;
    }
    if (!tangent.defined()) return;
    // The cell of a level that was left; the new level must list its own.
    c = Ref<TangentCell>::adopt(new TangentCell);
    c->level = level;
    c->tangent = tangent;
    state().levels[size_t(level - 1)].add(c);
    return;
  }
  if (!tangent.defined()) return;
  auto c = Ref<TangentCell>::adopt(new TangentCell);
  c->level = level;
  c->tangent = tangent;
  cells.push_back(c);
  state().levels[size_t(level - 1)].add(c);
}

void set_tangent(const Tensor& t, int level, const Tensor& tangent) {
  if (!t.impl()->base || own_tangent(t, level).defined()) {
    set_own_tangent(t, level, tangent);
    return;
  }
  const Tensor base(t.impl()->base);
  const TangentCell* c = find(base, level);
  if (!c && !tangent.defined()) return;
  const LevelsBelow below(level);
  set_own_tangent(base, level,
                  forward_ops().write_view(c ? c->tangent : Tensor(), base, t, tangent));
}

void carry_tangents(const Tensor& from, const Tensor& to) {
  for (int level = visible_forward_level(); level > 0; --level) {
    if (Tensor tangent = tangent_at(from, level); tangent.defined())
      set_own_tangent(to, level, tangent);
  }
}

LevelsBelow::LevelsBelow(int level) : saved_(state().visible) {
  show(state(), std::min(saved_, level - 1));
}
LevelsBelow::~LevelsBelow() { show(state(), saved_); }

ForwardOps& forward_ops() {
  static ForwardOps ops{};
  return ops;
}

}  // namespace rush
