// row_choice.h: which kernel takes rows of a width, and how its threads share them. What comes out
// depends on it to the bit, so works of several steps (cuda/pointwise/fused_rows.cpp) ask here too.
#pragma once

#include "cuda/nn/rows.h"

namespace rush::cuda {

inline int64_t processors_of(const Tensor& x) { return device_info(x.device().index).processors; }

// What a thread keeps of a row, in elements.
inline int64_t held_elements(DType t) { return t == DType::Float64 ? 8 : 16; }

// Threads per row by the number of their team; and what each of them keeps of it, in elements. 0:
// the row is too long for that.
struct RowChoice {
  int team;
  int64_t held;
};

inline RowChoice row_norm_choice(DType type, int64_t rows, int64_t width, int64_t processors) {
  const int64_t most = held_elements(type);
  // A warp holds twice as much rather than that most threads of a block have nothing to do.
  const bool short_rows = width <= kTeams[1] * most * 2 && rows >= processors * 8;
  const int team = width <= kTeams[0] * most ? 0 : width <= kTeams[1] * most || short_rows ? 1 : 2;
  const int64_t times = width <= kTeams[team] * most ? 1 : width <= kTeams[team] * most * 2 ? 2 : 0;
  return {team, times * most};
}

inline RowChoice softmax_choice(DType type, int64_t width) {
  const int64_t most = held_elements(type);
  const int team = width <= kTeams[0] * most ? 0 : width <= kTeams[1] * most ? 1 : 2;
  const int64_t times = width <= kThreads * most ? 1 : width <= kThreads * most * 2 ? 2 : 0;
  return {team, times * most};
}

// The backward pass of row norm in one kernel, with the sums down the columns. `held` 0: by several.
struct WholeChoice {
  int64_t blocks;
  int team;
  int64_t held;
};
// Where a team is a part of the block: for rows that are long for a warp, and would leave the threads of
// a block one pack each (halves), or less than that.
inline RowChoice part_of_block(DType type) {
  return is_reduced_float(type) ? RowChoice{3, 16} : RowChoice{4, 12};
}
inline WholeChoice row_norm_whole_choice(DType type, int64_t rows, int64_t width,
                                         int64_t processors) {
  const auto held_by = [&](int team) { return (team == 2 ? 1 : 2) * held_elements(type); };
  const int64_t blocks = std::min(rows, processors * kRowNormBlocks);
  const auto [part, held] = part_of_block(type);
  const int64_t most = kTeams[part] * held,
                least = is_reduced_float(type) ? most / 2 : most * 5 / 8;
  if (type != DType::Float64 && width > least && width <= most && rows >= blocks * 8)
    return {blocks, part, held};
  // Rows that a warp holds, where there are enough to keep the GPU busy that way; or a block.
  const bool short_rows =
      width <= kTeams[1] * held_by(1) && rows >= blocks * (kThreads / kTeams[1]);
  const int team = short_rows ? 1 : 2;
  const bool fits = width > (short_rows ? 128 : 512) && width <= kTeams[team] * held_by(team);
  return {blocks, team, fits ? held_by(team) : 0};
}

// gw and gb of row norm from the sums of blocks, [segments][2][channels]; either may be undefined.
void join_row_sums(const Tensor& partial, int64_t segments, int64_t channels, DType type,
                   const Tensor& gw, const Tensor& gb, int device);

}  // namespace rush::cuda
