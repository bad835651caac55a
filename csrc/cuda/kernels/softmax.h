// softmax.h (NVRTC): softmax of rows that a team of threads keeps in its registers. Where the rows
// come from and where results go is the caller's: memory (softmax.cu), or pointwise steps
// (fused_rows.h).
#pragma once

#include "cuda/kernels/exponentials.h"
#include "cuda/kernels/held_row.h"
#include "cuda/kernels/team.h"

namespace rush {

// What a row's (column's) gradients share, and the gradient of one element.
template <class C, bool log>
RUSH_FN C softmax_term(C y, C g) {
  return log ? g : g * y;
}
template <class C, bool log>
RUSH_FN C softmax_slope(C y, C g, C sum) {
  return log ? g - math::exp(y) * sum : (g - sum) * y;
}

template <class C, class T, int Team, int V, int Held, bool log, class Rows>
RUSH_FN void softmax_of_held(const SoftmaxArgs& args, const Rows& rows) {
  const TeamRow<Team> team(args);
  HeldRow<C, T, Team, V, Held> x;
  const auto place = [&](i64 i) { return RowPlace{team.known, team.at, i}; };
  x.load([&](i64 i) { return rows.template x<V>(place(i)); }, team.lane, team.width);
  C top = -limits<C>::inf;
  x.each(team.lane, team.width, [&](int k, i64) {
#pragma unroll
    for (int j = 0; j < V; ++j) top = functors::Maximum{}(top, x.v[k + j]);
  });
  top = join_team<Team>(top, functors::Maximum{});
  C sum = 0;
  x.each(team.lane, team.width, [&](int k, i64) {
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const C e = math::exp(x.v[k + j] - top);
      sum += e;
      if (!log) x.v[k + j] = e;
    }
  });
  sum = join_team<Team>(sum, JoinSum{});
  const C shift = top + math::log(sum), scale = C(1) / sum;
  x.store(
      team.lane, team.width, [&](C v, int) { return log ? v - shift : v * scale; },
      [&](i64 i, const Pack<T, V>& pack) { rows.template y<V>(place(i), pack); });
}

// x: the forward pass's result, y: the gradient of its argument.
template <class C, class T, int Team, int V, int Held, bool log, class Rows>
RUSH_FN void softmax_backward_of_held(const SoftmaxArgs& args, const Rows& rows) {
  const TeamRow<Team> team(args);
  HeldRow<C, T, Team, V, Held> y, g;
  const auto place = [&](i64 i) { return RowPlace{team.known, team.at, i}; };
  y.load([&](i64 i) { return rows.template x<V>(place(i)); }, team.lane, team.width);
  g.load([&](i64 i) { return rows.template g<V>(place(i)); }, team.lane, team.width);
  C sum = 0;
  y.each(team.lane, team.width, [&](int k, i64) {
#pragma unroll
    for (int j = 0; j < V; ++j) sum += softmax_term<C, log>(y.v[k + j], g.v[k + j]);
  });
  sum = join_team<Team>(sum, JoinSum{});
  y.store(
      team.lane, team.width, [&](C v, int k) { return softmax_slope<C, log>(v, g.v[k], sum); },
      [&](i64 i, const Pack<T, V>& pack) { rows.template y<V>(place(i), pack); });
}

}  // namespace rush
