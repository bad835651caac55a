// split_product_hopper.cu: products of float32 matrices by the tensor cores of Hopper, as precise as by the units for
// float32 and nearly twice as fast.
//
// Note [Split products]
// A float has 24 bits, a bfloat16 has 8, and both have the same exponents: x = high + middle + low, each a bfloat16,
// exactly. Of the nine products of such pieces six are computed; those left out (middle * low, low * middle, low * low)
// are below 2^-26 of the whole, where float32 itself rounds at 2^-24. Tensor cores cut off what does not fit instead of
// rounding, so that long sums would drift: the sum of 32 products starts from zero, small pieces first, and is added to
// the whole by a proper addition. What comes out is as near to the true result as what cuBLAS's kernels for float32
// give, mostly nearer (tests/cuda/test_cuda_split_product.py, docs/decisions/split_products.md).
// An infinity, a NaN or a number above 2^111 (kRaised) leaves NaN in its pieces, and so in every sum that it is part of: a
// warp that finds such a sum, or one above 2^96, computes its rows anew in float32.
//
// A block computes 128 x 128 of the result at a time (a unit), 32 deep in a turn; its two warpgroups have 64 rows each.
// Both matrices go from global memory into registers one turn ahead. The left one is split there into the fragments of
// tensor_core.h, the right one into three tiles of bfloat16 in shared memory (warpgroup.h), half of them by each group.
// Products whose left factor lies in registers keep their warps busy; so the groups take turns: while one multiplies,
// the other adds, splits and reads. The second group is half a turn behind, and therefore writes its half of the tiles
// a turn earlier than the first:
//
//   first group:   multiply 5 | tiles of 6 | multiply 6 | tiles of 7 | ...
//   second group:  tiles of 6 | multiply 5 | tiles of 7 | multiply 6 | ...
//
// k has an order of its own, the same in both matrices: thread t of a row's four has 4t to 4t + 3 of every sixteen,
// which it reads at once, as the elements 2t, 2t + 1, 2t + 8, 2t + 9 of its fragment (place_of).
#include "cuda/kernels/early.h"
#include "cuda/kernels/element.h"
#include "cuda/kernels/split_product_args.h"
#include "cuda/kernels/warpgroup.h"
#include "functors/activation.h"

namespace rush {

inline constexpr int kDeep = 32;   // of k, at a time
inline constexpr int kPieces = 3;  // high, middle, low
inline constexpr int kSixteens = kDeep / 16;
inline constexpr int kStage = 24 << 10;  // bytes of the right matrix's pieces, of one turn

// A float may be so small that its pieces are none any more; times this, the smallest still has them.
inline constexpr float kRaised = 0x1p16f;

// Two neighbours, raised, in pieces.
RUSH_FN void pieces_of(u32 (&pieces)[kPieces], float x, float y) {
  x *= kRaised;
  y *= kRaised;
#pragma unroll
  for (int p = 0; p < kPieces; ++p) {
    pieces[p] = pair_of(bfloat16(0.0f), x, y);
    x -= bit_cast<float>(pieces[p] << 16);
    y -= bit_cast<float>(pieces[p] & 0xffff0000u);
  }
}

// Where k % 16 lies among sixteen.
RUSH_FN int place_of(int k) { return k / 4 * 2 + k % 2 + k % 4 / 2 * 8; }

// ---- units ----

// What a block computes at a time: a tile of the result, or a part of its sum.
struct Unit {
  i64 batch;
  int part, first_row, first_column, begin, end;  // begin, end: of k

  RUSH_FN Unit(const SplitProductArgs& args, int number) {
    const int tiles = args.row_tiles * args.column_tiles, rest = number / tiles;
    batch = rest / args.parts_of_k;
    part = rest % args.parts_of_k;
    begin = part * args.part;
    end = args.k - begin < args.part ? args.k : begin + args.part;
    // Blocks that run together share rows and columns: groups of eight rows of tiles, column by column.
    constexpr int kGroup = 8;
    const int in_group = kGroup * args.column_tiles, tile = number % tiles, group = tile / in_group;
    const int left = args.row_tiles - group * kGroup, rows = left < kGroup ? left : kGroup;
    first_row = (group * kGroup + tile % in_group % rows) * kSplitRows;
    first_column = tile % in_group / rows * kSplitColumns;
  }
};

// The turns of all units of a block, one after the other. Behind the last one, k is `end`, and nothing is read.
template <class Place>
struct Cursor {
  const SplitProductArgs& args;
  int number, k = 0, end = 0;
  Place place;

  RUSH_FN explicit Cursor(const SplitProductArgs& all) : args(all), number(int(blockIdx.x)) {
    begin();
  }
  RUSH_FN void begin() {
    const Unit unit(args, number);
    k = unit.begin;
    end = unit.end;
    place.find(args, unit);
  }
  template <class Turn>
  RUSH_FN void read(Turn& to) {
    place.read(to, args, k, end);
    k += kDeep;
    if (k < end) return;
    k = end;
    if (number + int(gridDim.x) >= args.units) return;
    number += int(gridDim.x);
    begin();
  }
};

// ---- the left matrix: rows 2g and 2g + 1 of a warp's sixteen, in registers ----

struct LeftTurn {
  float x[2][kSixteens][4];  // row, sixteen, one of the thread's four
};

RUSH_FN int row_of_thread() { return int(threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 * 2); }

template <bool by_rows>
struct LeftPlace;

template <>
struct LeftPlace<true> {  // rows end to end: k is the inner dim
  const float* rows[2];

  RUSH_FN void find(const SplitProductArgs& args, const Unit& unit) {
    const int row = unit.first_row + row_of_thread();
    const float* const a = args.a + unit.batch * args.a_batch + threadIdx.x % 4 * 4;
    rows[0] = a + (row < args.m ? row : args.m - 1) * args.a_step;
    rows[1] = a + (row + 1 < args.m ? row + 1 : args.m - 1) * args.a_step;
  }
  RUSH_FN void read(LeftTurn& to, const SplitProductArgs&, int k0, int end) const {
#pragma unroll
    for (int s = 0; s < kSixteens; ++s) {
      const int k = k0 + 16 * s;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        Pack<float, 4> four{};
        if (k + int(threadIdx.x % 4 * 4) < end)
          four = *reinterpret_cast<const Pack<float, 4>*>(rows[r] + k);
#pragma unroll
        for (int j = 0; j < 4; ++j) to.x[r][s][j] = four.v[j];
      }
    }
  }
};

template <>
struct LeftPlace<false> {  // columns end to end
  const float* rows;       // two of them, at k = 0

  RUSH_FN void find(const SplitProductArgs& args, const Unit& unit) {
    const int row = unit.first_row + row_of_thread();
    rows = args.a + unit.batch * args.a_batch + (row < args.m ? row : args.m - 2);
  }
  RUSH_FN void read(LeftTurn& to, const SplitProductArgs& args, int k0, int end) const {
#pragma unroll
    for (int s = 0; s < kSixteens; ++s) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int k = k0 + 16 * s + int(threadIdx.x % 4 * 4) + j;
        Pack<float, 2> two{};
        if (k < end) two = *reinterpret_cast<const Pack<float, 2>*>(rows + k * args.a_step);
        to.x[0][s][j] = two.v[0];
        to.x[1][s][j] = two.v[1];
      }
    }
  }
};

struct Fragments {
  u32 v[kSixteens][kPieces][4];
};

RUSH_FN void left_in_pieces(Fragments& to, const LeftTurn& from) {
#pragma unroll
  for (int s = 0; s < kSixteens; ++s)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      u32 pieces[kPieces];
      pieces_of(pieces, from.x[i % 2][s][i / 2 * 2], from.x[i % 2][s][i / 2 * 2 + 1]);
#pragma unroll
      for (int p = 0; p < kPieces; ++p) to.v[s][p][i] = pieces[p];
    }
}

// The products read these by themselves: they stay what they are until here.
RUSH_FN void keep_until_here([[maybe_unused]] Fragments& f) {
#ifdef RUSH_DEVICE
#pragma unroll
  for (int s = 0; s < kSixteens; ++s)
#pragma unroll
    for (int p = 0; p < kPieces; ++p)
#pragma unroll
      for (int i = 0; i < 4; ++i) asm volatile("" : "+r"(f.v[s][p][i])::"memory");
#endif
}

// ---- the right matrix, in shared memory ----

// Of a turn, what a thread brings: four times four numbers in a row.
struct RightTurn {
  Pack<float, 4> x[4];
};

// Columns end to end (k is the inner dim): a tile has a row per column of b, with the high pieces of 32 k and then the
// middle ones; the low ones of both stages lie side by side in another.
struct RightByColumns {
  static constexpr bool kAcross = false;
  const float* columns;  // at k = 0
  int first;

  // The column of the thread's i-th four. Those that a warp writes at once lie in banks of their own.
  RUSH_FN static int column(int i) {
    const int r = threadIdx.x % 32 / 8;
    return int(threadIdx.x / 32 * 16) + i / 2 * 8 + i % 2 * 2 + r % 2 + r / 2 * 4;
  }
  RUSH_FN void find(const SplitProductArgs& args, const Unit& unit) {
    columns = args.b + unit.batch * args.b_batch + threadIdx.x % 8 * 4;
    first = unit.first_column;
  }
  RUSH_FN void read(RightTurn& to, const SplitProductArgs& args, int k, int end) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int c = first + column(i);
      to.x[i] = {};
      if (k + int(threadIdx.x % 8 * 4) < end)
        to.x[i] = *reinterpret_cast<const Pack<float, 4>*>(
            columns + (c < args.n ? c : args.n - 1) * args.b_step + k);
    }
  }
  RUSH_FN static char* at(char* tiles, int stage, int piece) {
    return piece < 2 ? tiles + stage * (16 << 10) : tiles + (32 << 10);
  }
  RUSH_FN static int unit(int stage, int piece) {
    return piece < 2 ? piece * 4 : stage * 4;
  }  // the first 16 bytes
  RUSH_FN static void write(char* tiles, int stage, const RightTurn& from) {
    const int q = threadIdx.x % 8, s = q / 4, t = q % 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = column(i);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        u32 pieces[kPieces];
        pieces_of(pieces, from.x[i].v[2 * half], from.x[i].v[2 * half + 1]);
#pragma unroll
        for (int p = 0; p < kPieces; ++p) {
          const int u = unit(stage, p) + 2 * s + half;
          *reinterpret_cast<u32*>(at(tiles, stage, p) + row * 128 + (u ^ row % 8) * 16 + 4 * t) =
              pieces[p];
        }
      }
    }
  }
  RUSH_FN static auto tile(char* tiles, int stage, int piece, int s) {
    return tile_descriptor(at(tiles, stage, piece) + (unit(stage, piece) + 2 * s) * 16, 16);
  }
};

// Rows end to end: a tile has a row per k, of 64 columns; two of them lie behind each other, for each piece.
struct RightByRows {
  static constexpr bool kAcross = true;
  static constexpr int kHalf = kDeep * 128;  // bytes of 64 columns
  const float* column;                       // four of them, at k = 0

  RUSH_FN static int first_k() { return int(threadIdx.x / 32 * 4); }
  RUSH_FN void find(const SplitProductArgs& args, const Unit& unit) {
    const int wanted = unit.first_column + int(threadIdx.x % 32 * 4);
    column = args.b + unit.batch * args.b_batch + (wanted < args.n ? wanted : args.n - 4);
  }
  RUSH_FN void read(RightTurn& to, const SplitProductArgs& args, int k0, int end) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int k = k0 + first_k() + i;
      to.x[i] = {};
      if (k < end) to.x[i] = *reinterpret_cast<const Pack<float, 4>*>(column + k * args.b_step);
    }
  }
  RUSH_FN static void write(char* tiles, int stage, const RightTurn& from) {
    const int lane = threadIdx.x % 32, bytes = lane % 16 * 8;  // in the row
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = first_k() / 16 * 16 + place_of(first_k() % 16 + i);
      u32 low[kPieces], high[kPieces];
      pieces_of(low, from.x[i].v[0], from.x[i].v[1]);
      pieces_of(high, from.x[i].v[2], from.x[i].v[3]);
      char* const at = tiles + stage * kStage + lane / 16 * kHalf + row * 128 +
                       (bytes / 16 ^ row % 8) * 16 + bytes % 16;
#pragma unroll
      for (int p = 0; p < kPieces; ++p)
        *reinterpret_cast<Pack<u32, 2>*>(at + p * 2 * kHalf) = {low[p], high[p]};
    }
  }
  RUSH_FN static auto tile(char* tiles, int stage, int piece, int s) {
    return tile_descriptor(tiles + stage * kStage + piece * 2 * kHalf + s * 16 * 128, kHalf);
  }
};

// ---- the result ----

// What becomes of a sum.
RUSH_FN float finished(const SplitProductArgs& args, float sum, const float* out, float bias) {
  float x = args.alpha * sum;
  if (args.beta != 0) x += args.beta * *out;
  if (args.bias) x += bias;
  return args.relu ? functors::Relu{}(x) : x;
}

// Two neighbours of a row; `step` leads from row to row of out.
RUSH_FN void write_sums(const SplitProductArgs& args, float* out, i64 step, int row, int column,
                        const float* sums) {
  if (row >= args.m) return;
#pragma unroll
  for (int c = 0; c < 2; ++c) {
    if (column + c >= args.n) return;
    float* const to = out + row * step + column + c;
    *to = args.parts ? sums[c]
                     : finished(args, sums[c], to, args.bias ? args.bias[column + c] : 0.0f);
  }
}

// The same for a whole tile, where pairs can be written at once.
RUSH_FN void write_tile(const SplitProductArgs& args, float* out, i64 step, int row, int column,
                        const float (&sums)[kSplitColumns / 8][4]) {
  using Two = Pack<float, 2>;
  float* const to = out + row * step + column;
  const bool plain = args.parts || (args.alpha == 1 && args.beta == 0 && !args.bias && !args.relu);
  if (plain) {
#pragma unroll
    for (int n = 0; n < kSplitColumns / 8; ++n) {
      *reinterpret_cast<Two*>(to + 8 * n) = {sums[n][0], sums[n][1]};
      *reinterpret_cast<Two*>(to + step + 8 * n) = {sums[n][2], sums[n][3]};
    }
    return;
  }
  Two bias[kSplitColumns / 8] = {};
  if (args.bias) {
#pragma unroll
    for (int n = 0; n < kSplitColumns / 8; ++n)
      bias[n] = *reinterpret_cast<const Two*>(args.bias + column + 8 * n);
  }
#pragma unroll
  for (int n = 0; n < kSplitColumns / 8; ++n)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float* const at = to + r * step + 8 * n;
      *reinterpret_cast<Two*>(at) = {finished(args, sums[n][2 * r], at, bias[n].v[0]),
                                     finished(args, sums[n][2 * r + 1], at + 1, bias[n].v[1])};
    }
}

// The sums of a thread in float32, for what has no pieces: slow, and rare.
template <bool left_by_rows, class Right>
RUSH_FN void add_up_plainly(float (&sums)[kSplitColumns / 8][4], const SplitProductArgs& args,
                            const Unit& unit, int row, int column) {
  const auto inside = [](int i, int size) { return i64(i < size ? i : size - 1); };
  const i64 a_inner = left_by_rows ? 1 : args.a_step, a_outer = left_by_rows ? args.a_step : 1;
  const i64 b_inner = Right::kAcross ? args.b_step : 1, b_outer = Right::kAcross ? 1 : args.b_step;
  const float* const a = args.a + unit.batch * args.a_batch;
  const float* const b = args.b + unit.batch * args.b_batch;
#pragma unroll
  for (int n = 0; n < kSplitColumns / 8; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) sums[n][e] = 0;
#pragma unroll 1
  for (i64 k = unit.begin; k < unit.end; ++k) {
    const float upper = a[inside(row, args.m) * a_outer + k * a_inner];
    const float lower = a[inside(row + 1, args.m) * a_outer + k * a_inner];
#pragma unroll
    for (int n = 0; n < kSplitColumns / 8; ++n)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const float y = b[inside(column + 8 * n + c, args.n) * b_outer + k * b_inner];
        sums[n][c] = math::fma(upper, y, sums[n][c]);
        sums[n][2 + c] = math::fma(lower, y, sums[n][2 + c]);
      }
  }
}

template <bool left_by_rows, class Right>
RUSH_FN void write_unit(const SplitProductArgs& args, int number,
                        float (&sums)[kSplitColumns / 8][4]) {
  const Unit unit(args, number);
  float* out = args.out + unit.batch * args.out_batch;
  i64 step = args.out_row;
  if (args.parts) {
    out = args.parts + (i64(unit.part) * args.batches + unit.batch) * args.m * args.n;
    step = args.n;
  }
  const int row = unit.first_row + row_of_thread(),
            column = unit.first_column + int(threadIdx.x % 4 * 2);
  float nothing = 0;  // NaN where a sum is infinite or NaN
#pragma unroll
  for (int n = 0; n < kSplitColumns / 8; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) nothing = math::fma(sums[n][e], 0.0f, nothing);
  if (__ballot_sync(0xffffffffu, nothing != 0.0f)) {
    add_up_plainly<left_by_rows, Right>(sums, args, unit, row, column);
  } else {
#pragma unroll
    for (int n = 0; n < kSplitColumns / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[n][e] *= 1 / (kRaised * kRaised);
  }
  const bool whole =
      unit.first_row + kSplitRows <= args.m && unit.first_column + kSplitColumns <= args.n;
  if (whole && (reinterpret_cast<u64>(out) | u64(step) * 4) % 8 == 0)
    return write_tile(args, out, step, row, column, sums);
#pragma unroll
  for (int n = 0; n < kSplitColumns / 8; ++n) {
    write_sums(args, out, step, row, column + 8 * n, sums[n]);
    write_sums(args, out, step, row + 1, column + 8 * n, sums[n] + 2);
  }
}

// Where the warpgroups meet (0 is __syncthreads'). A group may be a turn ahead when it says what it has multiplied, so
// that even and odd turns have places of their own: two announcements at one would be taken for a meeting.
RUSH_FN int may_multiply(int group) { return 1 + group; }
RUSH_FN int has_multiplied(int group, int stage) { return 3 + 2 * group + stage; }

template <bool left_by_rows, class Right>
__global__ void __launch_bounds__(kThreads, 1)
    piece_product(const __grid_constant__ SplitProductArgs args) {
  after_earlier();
  alignas(1024) __shared__ char tiles[2 * kStage];
  const int group = threadIdx.x / 128;
  float sums[kSplitColumns / 8][4] = {}, fresh[kSplitColumns / 8][4];
  LeftTurn left;
  RightTurn right;
  Fragments fragments;
  Cursor<LeftPlace<left_by_rows>> left_at(args);
  Cursor<Right> right_at(args);

  right_at.read(right);
  left_at.read(left);
  Right::write(tiles, 0, right);
  left_in_pieces(fragments, left);
  right_at.read(right);
  left_at.read(left);
  if (group == 1) {
    Right::write(tiles, 1, right);
    right_at.read(right);
  }
  show_to_products();
  __syncthreads();
  if (group == 1) announce_at(may_multiply(0));

  int stage = 0;
  bool first = true;
  for (int number = int(blockIdx.x); number < args.units; number += int(gridDim.x)) {
    const Unit unit(args, number);
    const bool last_unit = number + int(gridDim.x) >= args.units;
    for (int k = unit.begin; k < unit.end; k += kDeep) {
      const bool last_of_unit = k + kDeep >= unit.end, last = last_of_unit && last_unit;
      meet_at(may_multiply(group));
      // fresh = the products of this turn: left, right; small ones first.
      constexpr int kPairs[6][2] = {{2, 0}, {0, 2}, {1, 1}, {1, 0}, {0, 1}, {0, 0}};
      begin_products();
#pragma unroll
      for (int pair = 0; pair < 6; ++pair)
#pragma unroll
        for (int s = 0; s < kSixteens; ++s)
          multiply_tile<Right::kAcross>(bfloat16(0.0f), fresh, fragments.v[s][kPairs[pair][0]],
                                        Right::tile(tiles, stage, kPairs[pair][1], s),
                                        pair > 0 || s > 0);
      commit_products();
      if (group == 0 || !last) announce_at(may_multiply(1 - group));
      wait_for_products();
      keep_until_here(fragments);
      if (group == 0 || !last) announce_at(has_multiplied(group, stage));
#pragma unroll
      for (int n = 0; n < kSplitColumns / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[n][e] += fresh[n][e];
      // The first group writes where both have multiplied the turn before, the second where both have this one.
      const int free = group == 0 ? 1 - stage : stage;
      if (group == 1 || !first) meet_at(has_multiplied(1 - group, free));
      first = false;
      Right::write(tiles, free, right);
      left_in_pieces(fragments, left);
      show_to_products();
      right_at.read(right);
      left_at.read(left);
      stage = 1 - stage;
      if (!last_of_unit) continue;
      write_unit<left_by_rows, Right>(args, number, sums);
#pragma unroll
      for (int n = 0; n < kSplitColumns / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[n][e] = 0;
    }
  }
}

// The sums over the parts of k, in their order, and what becomes of them.
__global__ void __launch_bounds__(kThreads) join_parts(SplitProductArgs args) {
  after_earlier();
  const i64 each = i64(args.m) * args.n, all = each * args.batches;
  for (i64 i = thread_number(); i < all; i += thread_count()) {
    const i64 batch = i / each, row = i % each / args.n;
    const int column = int(i % args.n);
    float sum = args.parts[i];
    for (int part = 1; part < args.parts_of_k; ++part) sum += args.parts[part * all + i];
    float* const to = args.out + batch * args.out_batch + row * args.out_row + column;
    *to = finished(args, sum, to, args.bias ? args.bias[column] : 0.0f);
  }
}

}  // namespace rush
