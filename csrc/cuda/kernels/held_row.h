// held_row.h (NVRTC): rows that a team of threads keeps in its registers.
#pragma once

#include "cuda/kernels/element.h"

namespace rush {

// The row of this thread's team.
template <int Team>
RUSH_FN i64 team_row() {
  return i64(blockIdx.x) * (kThreads / Team) + threadIdx.x / Team;
}

// The same with what the team does there: a team beyond the last row has an empty one.
template <int Team>
struct TeamRow {
  int lane = threadIdx.x % Team;
  i64 row;    // its number
  i64 known;  // the number of a row that exists: 0 beyond the last
  i64 width, at;
  template <class Args>
  RUSH_FN explicit TeamRow(const Args& args) : row(team_row<Team>()) {
    const bool works = row < args.rows;
    known = works ? row : 0;
    width = works ? args.width : 0;
    at = known * args.width;
  }
};

// Some elements of a row.
struct RowPlace {
  i64 row, at, i;  // its number, where it begins, and the first element there
};

// x, g and y as they lie in memory.
template <class T, class Args>
struct RowsInMemory {
  const Args& args;
  template <int V>
  RUSH_FN KeptPack<T, V> x(const RowPlace& p) const {
    return KeptPack<T, V>(typed<T>(args.x) + p.at + p.i);
  }
  template <int V>
  RUSH_FN KeptPack<T, V> g(const RowPlace& p) const {
    return KeptPack<T, V>(typed<T>(args.g) + p.at + p.i);
  }
  template <int V>
  RUSH_FN void y(const RowPlace& p, const Pack<T, V>& pack) const {
    store_pack(typed<T>(args.y) + p.at + p.i, pack);
  }
};

// The part of a row that one thread keeps, as it lies in memory: half types take half the
// registers. All loads are under way before the first element is looked at.
template <class T, int Team, int V, int Held>
struct HeldPacks {
  KeptPack<T, V> p[Held];
  // Calls f(k, i): p[k] stands for the elements from i on.
  template <class F>
  static RUSH_FN void each(int lane, i64 width, F f) {
#pragma unroll
    for (int k = 0; k < Held; ++k) {
      const i64 i = i64(lane + k * Team) * V;
      if (i < width) f(k, i);
    }
  }
  RUSH_FN void load(const T* row, int lane, i64 width) {
    each(lane, width, [&](int k, i64 i) { p[k] = KeptPack<T, V>(row + i); });
  }
};

// The same as numbers to compute with.
template <class C, class T, int Team, int V, int Held>
struct HeldRow {
  C v[Held * V];
  // Calls f(k, i): v[k] .. v[k + V - 1] stand for the elements from i on.
  template <class F>
  static RUSH_FN void each(int lane, i64 width, F f) {
    HeldPacks<T, Team, V, Held>::each(lane, width, [&](int k, i64 i) { f(k * V, i); });
  }
  // pack_at(i): the elements from i on.
  // (Beyond the row they are zeros, and converted as well: under the condition of the loads each load
  // would be waited for before the next one.)
  template <class F>
  RUSH_FN void load(F pack_at, int lane, i64 width) {
    HeldPacks<T, Team, V, Held> packs;
    for (auto& p : packs.p) p = Pack<T, V>{};
    packs.each(lane, width, [&](int k, i64 i) { packs.p[k] = pack_at(i); });
#pragma unroll
    for (int k = 0; k < Held; ++k) {
      const Pack<C, V> own = widen<C>(packs.p[k]);
#pragma unroll
      for (int j = 0; j < V; ++j) v[k * V + j] = own.v[j];
    }
  }
  // Element i becomes f(v[k], k); put(i, pack) takes them.
  template <class F, class Put>
  RUSH_FN void store(int lane, i64 width, F f, Put put) const {
    each(lane, width, [&](int k, i64 i) {
      Pack<T, V> pack;
#pragma unroll
      for (int j = 0; j < V; ++j) pack.v[j] = convert<T>(f(v[k + j], k + j));
      put(i, pack);
    });
  }
};

}  // namespace rush
