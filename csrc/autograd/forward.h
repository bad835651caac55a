// forward.h: forward mode: derivatives that travel with values.
//
// Note [Levels]
// A level is one run of forward mode; levels nest (the derivative of a derivative). A tensor may
// carry one tangent per level, and the tangent of level k may itself carry tangents of levels below
// k. So an op computes its tangents from the outermost level in, and while it computes those of
// level k only the levels below k are visible: two runs never mistake each other's tangents.
//
// Note [Tangents of views]
// A view reads its tangent out of its base's, by geometry, so a write through either is seen by
// both. Only where several indices share an address (a dual of an expanded tensor) does a view
// keep a tangent of its own; nobody may write there.
#pragma once

#include "core/modes.h"
#include "core/small_vector.h"
#include "core/tensor.h"

namespace rush {

// One tangent of one tensor. The level lists its cells, to empty them when it is left.
struct TangentCell : Counted<TangentCell> {
  Tensor tangent;
  int level = 0;
  static void destroy(TangentCell* c) noexcept { delete c; }
};

// The tangents of one tensor, as its GradMeta keeps them.
struct RUSH_API Tangents {
  SmallVector<Ref<TangentCell>, 1> cells;
  Tangents() = default;
  Tangents(const Tangents&) = delete;
  Tangents& operator=(const Tangents&) = delete;
  ~Tangents();  // the bytes go at once, though the level still lists the cells
};

// Is there a level whose tangents an op on this thread must look after?
inline bool forward_active() { return t_modes & kForward; }

RUSH_API int forward_level();          // the innermost level, 0 when there is none
RUSH_API int visible_forward_level();  // the innermost one that ops see now
RUSH_API int enter_forward_level();
RUSH_API void exit_forward_level();  // its tangents disappear
RUSH_API bool forward_enabled();
RUSH_API void set_forward_enabled(bool on);

// The tangent of t at a level, undefined when it has none; a view's comes from its base.
RUSH_API Tensor tangent_at(const Tensor& t, int level);
RUSH_API bool has_tangent(const Tensor& t);  // at any visible level
// Gives t a tangent of its own sizes and dtype; through a view this changes the base's. An
// undefined tangent takes t's away.
RUSH_API void set_tangent(const Tensor& t, int level, const Tensor& tangent);
// A tangent of t itself, whatever t is a view of.
RUSH_API void set_own_tangent(const Tensor& t, int level, const Tensor& tangent);
RUSH_API Tensor own_tangent(const Tensor& t, int level);
// Gives `to`, an alias of `from` without a base, the visible tangents of `from`.
RUSH_API void carry_tangents(const Tensor& from, const Tensor& to);

// In its scope only the levels below one are visible.
class RUSH_API LevelsBelow {
 public:
  explicit LevelsBelow(int level);
  ~LevelsBelow();
  LevelsBelow(const LevelsBelow&) = delete;
  LevelsBelow& operator=(const LevelsBelow&) = delete;

 private:
  int saved_;
};

// What views need of the ops; filled by csrc/ops, which this folder may not include.
struct ForwardOps {
  // `tangent` of `base`, in the base's strides.
  Tensor (*lay_out)(const Tensor& tangent, const Tensor& base);
  // The part of a laid out tangent that `view` of `base` looks at.
  Tensor (*read_view)(const Tensor& tangent, const Tensor& base, const Tensor& view);
  // The base's tangent (undefined: zero) with that part replaced.
  Tensor (*write_view)(const Tensor& tangent, const Tensor& base, const Tensor& view,
                       const Tensor& part);
};
RUSH_API ForwardOps& forward_ops();

}  // namespace rush
