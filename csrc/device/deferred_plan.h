// deferred_plan.h: what waits in a queue (device/deferred.h), and how it is cut into passes.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/small_vector.h"
#include "core/source.h"
#include "device/fused.h"
#include "device/lists.h"

namespace rush::deferred {

struct Product;  // device/deferred.h

// As many steps wait at most: loops without a reader must not keep their inputs for good. Sets of
// groups fit into a word.
inline constexpr size_t kMostWaiting = 64;
// And as many sums longer than that.
inline constexpr size_t kMostLateSums = 128;

class Again;

struct Recipe {
  FusedStep::Kind kind;
  uint8_t params_count;
  uint16_t fn;
  DType compute;
  std::array<Scalar, 4> params;
  std::array<Tensor, 3> operands;
  Tensor out;  // the form
  SourcePoint source;
  std::shared_ptr<const RowStep> row{};  // of steps over rows; copies for other threads share it
  int dim = 0;                           // of joins
  // Of the last stage of sums, which is no step of a pass: Note [What waits longer].
  std::shared_ptr<const ColumnSums> sums{};
  // Neither is this: Note [Products that wait] in device/deferred.h.
  std::shared_ptr<const Product> product{};
  // Where its result is saved, or made again: Note [What is made again] in device/again.h.
  std::shared_ptr<Again> again{};
  bool held = false;  // when it last ran: the program held the result

  int operand_count() const { return FusedStep::operand_count(kind, row.get()); }
  ParamSpan params_span() const { return {params.data(), params_count}; }
  // Is `form` the result, or one beside it?
  bool gives(const TensorImpl* form) const;
  // Does somebody hold a result beside the main one?
  bool is_wanted_beside() const;
};

// Strides of dims of size 1 may be anything.
bool lie_alike(const Tensor& a, const Tensor& b);

// For reports: "mul", "gelu", "layer_norm".
std::string name_of(const Recipe& r);

// One step by itself, into memory; of steps over rows also what is beside the result. All operands
// have their memory.
void run_alone(const Recipe& r, std::span<const Tensor> operands, const Tensor& out,
               std::span<const Tensor> beside);

// What a group reads that no step of it gives.
struct GroupInput {
  const TensorImpl* form;
  uint8_t part;  // of the join that it is read for, see FusedJoin::part
  bool operator==(const GroupInput&) const = default;
};

// A group of steps, by their numbers in the queue. The last has the shape of them all, but for parts
// of a join.
struct Group {
  SmallVector<uint16_t, 16> steps;
  SmallVector<GroupInput, 8> inputs;
  uint64_t after = 0;     // the groups that have to run before it, directly or not
  bool has_rows = false;  // is there a step over rows?
  bool has_join = false;

  uint16_t last() const { return steps[steps.size() - 1]; }
};

struct Origin;  // device/origin.h

// The gradient of an activation behind a norm, whose backward step is `row`: the activation's result need
// not be read for it.
struct KnownInput {
  uint16_t row, gradient;
  std::shared_ptr<const Origin> origin;
};

// What is known about each step of a queue while it is run. It lies on the stack: a queue is planned
// anew each time it runs, which may be thousands of times per second.
template <class T>
using PerStep = std::array<T, kMostWaiting>;
struct Plan {
  std::array<int16_t, 3 * kMostWaiting>
      made_by;                 // of all operands in turn, three per step: the step, or -1
  PerStep<uint8_t> wanted;     // somebody outside of the queue holds the result
  PerStep<uint8_t> held;       // the same, but for those that recipes for backward pass by
  PerStep<uint8_t> again;      // its result is saved as a recipe
  PerStep<int16_t> join;       // the step is computed with this join, for an operand of it; or -1
  PerStep<uint8_t> part;       // which one, counted from 1; 0: of none
  PerStep<uint8_t> stays;      // it is wanted, but computed for another step only: it waits on
  PerStep<uint8_t> kept;       // it goes to memory
  PerStep<int16_t> group;      // -1: not computed
  PerStep<uint16_t> place;     // which step of its group it is
  bool leaves_recipes = true;  // for backward
  std::vector<Group> groups;
  SmallVector<uint8_t, 8> order;  // of the groups
  std::vector<KnownInput> known;

  // Of the step `row`, where its gradient is computed in this group, too; null: none.
  const KnownInput* known_of(size_t row, const Group& own) const;
  int maker(size_t step, int operand) const { return made_by[3 * step + size_t(operand)]; }
  GroupInput input_of(const Recipe& r, size_t step, int operand) const {
    const bool joins = r.kind == FusedStep::Kind::Join;
    return {r.operands[size_t(operand)].impl(), joins ? uint8_t(operand + 1) : part[step]};
  }
};

// Is its result saved, and does it pay to make it again? `held`: whose results will be in memory, and
// may be read there.
bool pays_again(const std::vector<Recipe>& steps, size_t s, std::span<uint8_t> held);
// Is one of the references to the result that of a saved tensor?
bool holds_form(const Recipe& r);

// Finds plan.known; `readers`: how many steps read each. See device/origin.h.
void find_known(const std::vector<Recipe>& steps, Plan& plan, const PerStep<uint32_t>& readers,
                const TensorImpl* asked);
// Puts the activation before all other steps of a work, and what it gives in place of its result in
// memory. None: that has to be read all the same.
std::optional<FusedNormal> put_known(const KnownInput& known, const Plan& plan, const Tensor& x,
                                     std::vector<FusedStep>& steps, std::span<Tensor> inputs,
                                     std::span<FusedOutput> outputs);

// See Note [What runs of a queue]. `plan` has made_by only; `asked` is the result that is asked for, null: all are.
void make_groups(const std::vector<Recipe>& steps, Plan& plan, const TensorImpl* asked);
}  // namespace rush::deferred
