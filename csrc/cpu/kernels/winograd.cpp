// winograd.cpp: the loops of convolutions over tiles.
//
// Of the three transformations in Winograd's F(2 x 2, 3 x 3) each is applied to the columns of a
// small matrix of vectors, then to its rows; a vector holds neighbouring channels.
#include "cpu/kernels/winograd_tables.h"

#include <array>
#include <utility>

#include "cpu/kernels/gemm_vector.h"

namespace rush {
namespace RUSH_ISA {
namespace {

constexpr int kLanes = kVectorBytes / int(sizeof(float));
using Vec = VectorOf<float, kLanes>::type;

// Where a tile lies.
struct Place {
  int64_t image, row, column;
  Place(const TileRange& tiles, int64_t tile)
      : image(tile / (tiles.tile_rows * tiles.tile_columns)),
        row(tile / tiles.tile_columns % tiles.tile_rows),
        column(tile % tiles.tile_columns) {}
};

// ---- images to tiles -----------------------------------------------------------------------------

// out = B^T in, for four vectors `step` apart.
RUSH_FN void spread_input(const Vec* in, Vec* out, int step) {
  out[0] = in[0] - in[2 * step];
  out[step] = in[step] + in[2 * step];
  out[2 * step] = in[2 * step] - in[step];
  out[3 * step] = in[step] - in[3 * step];
}

// out = A in, from two vectors `step` apart to four `to` apart.
RUSH_FN void spread_grad(const Vec* in, int step, Vec* out, int to) {
  out[0] = in[0];
  out[to] = in[0] + in[step];
  out[2 * to] = in[0] - in[step];
  out[3 * to] = -in[step];
}

// f(pointers to the Size by Size points of a tile, the tile's row of matrices), tile by tile; null
// stands for a point outside of the image.
template <int Size, class F>
RUSH_FN void for_tiles(const TiledImages<const float>& from, const int64_t (&padding)[2],
                       const TileRange& tiles, const TileMatrices& to, F&& f) {
  for (int64_t tile = tiles.first; tile < tiles.last; ++tile) {
    const Place place(tiles, tile);
    const int64_t top = 2 * place.row - padding[0], left = 2 * place.column - padding[1];
    const float* image = from.data + place.image * from.image_step;
    const float* points[Size * Size];
    bool whole = true;
    for (int i = 0; i < Size; ++i) {
      for (int j = 0; j < Size; ++j) {
        const int64_t y = top + i, x = left + j;
        const bool inside = y >= 0 && y < from.rows && x >= 0 && x < from.columns;
        whole = whole && inside;
        points[i * Size + j] = inside ? image + y * from.row_step + x * from.column_step : nullptr;
      }
    }
    f(points, whole, to.data + (tile - tiles.first) * to.row);
  }
}

template <bool whole, int Count>
RUSH_FN void load_points(const float* const* points, int64_t channel, Vec* out) {
#pragma GCC unroll 16
  for (int i = 0; i < Count; ++i) {
    if (whole || points[i])
      load(out[i], points[i] + channel);
    else
      out[i] = Vec{};
  }
}

template <bool whole>
void read_tile(const float* const* points, int64_t channels, float* to, int64_t apart) {
  for (int64_t c = 0; c < channels; c += kLanes) {
    Vec in[16], out[16];
    load_points<whole, 16>(points, c, in);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) spread_input(in + j, out + j, 4);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) spread_input(out + 4 * i, in + 4 * i, 1);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) store(to + i * apart + c, in[i]);
  }
}

template <bool whole>
void read_grad_tile(const float* const* points, int64_t channels, float* to, int64_t apart) {
  for (int64_t c = 0; c < channels; c += kLanes) {
    Vec in[4], half[8], out[16];
    load_points<whole, 4>(points, c, in);
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) spread_grad(in + j, 2, half + j, 2);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) spread_grad(half + 2 * i, 1, out + 4 * i, 1);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) store(to + i * apart + c, out[i]);
  }
}

void read(const TiledImages<const float>& from, const int64_t (&padding)[2], const TileRange& tiles,
          const TileMatrices& to) {
  for_tiles<4>(from, padding, tiles, to, [&](const float* const* points, bool whole, float* row) {
    (whole ? read_tile<true> : read_tile<false>)(points, from.channels, row, to.apart);
  });
}

void read_grads(const TiledImages<const float>& from, const TileRange& tiles,
                const TileMatrices& to) {
  constexpr int64_t none[2] = {0, 0};
  for_tiles<2>(from, none, tiles, to, [&](const float* const* points, bool whole, float* row) {
    (whole ? read_grad_tile<true> : read_grad_tile<false>)(points, from.channels, row, to.apart);
  });
}

// ---- tiles to images -----------------------------------------------------------------------------

// x - x is 0 where x is finite, else NaN.
RUSH_FN void note_finite(Vec& seen, const Vec& x) { seen += x - x; }

RUSH_FN bool all_finite(const Vec& seen) {
  float lanes[kLanes];
  store(lanes, seen);
  bool finite = true;
  for (const float lane : lanes) finite = finite && lane == 0;
  return finite;
}

bool write(const TileMatrices& from, const float* bias, const TileRange& tiles,
           const TiledImages<float>& to) {
  Vec seen{};
  for (int64_t tile = tiles.first; tile < tiles.last; ++tile) {
    const Place place(tiles, tile);
    const float* row = from.data + (tile - tiles.first) * from.row;
    float* out = to.data + place.image * to.image_step + 2 * place.row * to.row_step +
                 2 * place.column * to.column_step;
    const bool below = 2 * place.row + 1 < to.rows, right = 2 * place.column + 1 < to.columns;
    for (int64_t c = 0; c < to.channels; c += kLanes) {
      Vec in[16], half[8], y[4], add{};
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) load(in[i], row + i * from.apart + c);
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        half[j] = in[j] + in[4 + j] + in[8 + j];
        half[4 + j] = in[4 + j] - in[8 + j] - in[12 + j];
      }
      if (bias) load(add, bias + c);
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        const Vec* h = half + 4 * i;
        y[2 * i] = h[0] + h[1] + h[2] + add;
        y[2 * i + 1] = h[1] - h[2] - h[3] + add;
      }
      store(out + c, y[0]);
      note_finite(seen, y[0]);
      if (right) {
        store(out + to.column_step + c, y[1]);
        note_finite(seen, y[1]);
      }
      if (!below) continue;
      store(out + to.row_step + c, y[2]);
      note_finite(seen, y[2]);
      if (right) {
        store(out + to.row_step + to.column_step + c, y[3]);
        note_finite(seen, y[3]);
      }
    }
  }
  return all_finite(seen);
}

// ---- kernels -------------------------------------------------------------------------------------

// out = G in, from three vectors `step` apart to four `to` apart.
RUSH_FN void spread_kernel(const Vec* in, int step, Vec* out, int to) {
  const Vec outer = (in[0] + in[2 * step]) * 0.5f, middle = in[step] * 0.5f;
  out[0] = in[0];
  out[to] = outer + middle;
  out[2 * to] = outer - middle;
  out[3 * to] = in[2 * step];
}

// out = G^T in, from four vectors `step` apart to three `to` apart.
RUSH_FN void gather_kernel(const Vec* in, int step, Vec* out, int to) {
  const Vec sum = (in[step] + in[2 * step]) * 0.5f;
  out[0] = in[0] + sum;
  out[to] = (in[step] - in[2 * step]) * 0.5f;
  out[2 * to] = sum + in[3 * step];
}

// Numbers are collected from some kernels of each lane at a time: lanes may lie whole pages apart.
void read_kernels(const SmallKernels<const float>& from, int64_t in, int64_t out, float* to,
                  int64_t apart) {
  constexpr int kSome = 16;
  float numbers[kSome * 9][kLanes];
  for (int64_t k = 0; k < out; k += kLanes) {
    for (int64_t start = 0; start < in; start += kSome) {
      const int64_t count = in - start < kSome ? in - start : kSome;
      for (int lane = 0; lane < kLanes; ++lane) {
        const float* first = from.data + start * from.in_step + (k + lane) * from.out_step;
        for (int64_t c = 0; c < count; ++c) {
#pragma GCC unroll 9
          for (int i = 0; i < 9; ++i)
            numbers[c * 9 + i][lane] =
                first[c * from.in_step + i / 3 * from.row_step + i % 3 * from.column_step];
        }
      }
      for (int64_t c = 0; c < count; ++c) {
        Vec g[9], half[12], u[16];
        for (int i = 0; i < 9; ++i) load(g[i], numbers[c * 9 + i]);
        for (int j = 0; j < 3; ++j) spread_kernel(g + j, 3, half + j, 3);
        for (int i = 0; i < 4; ++i) spread_kernel(half + 3 * i, 1, u + 4 * i, 1);
        float* row = to + (start + c) * 2 * kLanes + k;
        for (int i = 0; i < 16; ++i) store(row + i * apart, u[i]);
      }
    }
  }
}

bool write_kernels(const float* from, int64_t apart, int64_t parts, int64_t part, int64_t out,
                   const SmallKernels<float>& to) {
  Vec seen{};
  for (int64_t k = 0; k < out; k += kLanes) {
    Vec u[16], half[12], g[9];
    for (int i = 0; i < 16; ++i) {
      load(u[i], from + i * apart + k);
      for (int64_t p = 1; p < parts; ++p) {
        Vec more;
        load(more, from + p * part + i * apart + k);
        u[i] += more;
      }
    }
    for (int j = 0; j < 4; ++j) gather_kernel(u + j, 4, half + j, 4);
    for (int i = 0; i < 3; ++i) gather_kernel(half + 4 * i, 1, g + 3 * i, 1);
    for (int i = 0; i < 9; ++i) {
      note_finite(seen, g[i]);
      float lanes[kLanes];
      store(lanes, g[i]);
      float* first = to.data + k * to.out_step + i / 3 * to.row_step + i % 3 * to.column_step;
      for (int lane = 0; lane < kLanes; ++lane) first[lane * to.out_step] = lanes[lane];
    }
  }
  return all_finite(seen);
}

// ---- products ------------------------------------------------------------------------------------

// R rows by V vectors of c, in registers over all of the depth. Three rows of a share a pointer: one
// for each row would not stay in registers.
template <int R, int V, bool transposed, bool accumulate>
void multiply(const TileProduct& p, const float* a, const float* b, float* c) {
  constexpr int kPointers = (R + 2) / 3;
  const int64_t row = p.a_row, depth = p.depth, a_step = transposed ? p.a_depth : 1;
  const int64_t b_step = p.b_depth;
  const float* rows[kPointers];
#pragma GCC unroll 16
  for (int i = 0; i < kPointers; ++i) rows[i] = a + 3 * i * (transposed ? 1 : row);
  Vec sums[R][V];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) sums[r][v] = Vec{};
  }
  for (int64_t d = 0; d < depth; ++d) {
    Vec x[V];
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) load(x[v], b + v * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const float factor = rows[r / 3][r % 3 * (transposed ? 1 : row)];
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) sums[r][v] += factor * x[v];
    }
#pragma GCC unroll 16
    for (int i = 0; i < kPointers; ++i) rows[i] += a_step;
    b += b_step;
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      float* const to = c + r * p.c_row + v * kLanes;
      if constexpr (accumulate) {
        Vec before;
        load(before, to);
        sums[r][v] += before;
      }
      store(to, sums[r][v]);
    }
  }
}

constexpr int kMostRows = kVectorBytes == 64 ? 12 : 6;

using Multiply = void (*)(const TileProduct& p, const float* a, const float* b, float* c);
template <int V, bool transposed, bool accumulate, int... R>
constexpr auto by_rows(std::integer_sequence<int, R...>) {
  return std::array<Multiply, sizeof...(R)>{multiply<R + 1, V, transposed, accumulate>...};
}

// The rows are shared evenly: a few that were left over would not keep the adders busy.
template <int V, bool transposed, bool accumulate>
void multiply_panel(const TileProduct& p, const float* b, float* c) {
  static constexpr auto loops =
      by_rows<V, transposed, accumulate>(std::make_integer_sequence<int, kMostRows>());
  const int64_t shares = (p.rows + kMostRows - 1) / kMostRows;
  int64_t row = 0;
  for (int64_t i = 0; i < shares; ++i) {
    const int64_t rows = p.rows * (i + 1) / shares - row;
    loops[size_t(rows - 1)](p, p.a + row * (transposed ? 1 : p.a_row), b, c + row * p.c_row);
    row += rows;
  }
}

template <bool transposed, bool accumulate>
void multiply_panels(const TileProduct& p) {
  const float* b = p.b;
  for (int64_t k = 0; k < p.columns; k += 2 * kLanes, b += p.b_panel) {
    if (p.columns - k > kLanes)
      multiply_panel<2, transposed, accumulate>(p, b, p.c + k);
    else
      multiply_panel<1, transposed, accumulate>(p, b, p.c + k);
  }
}

void product(const TileProduct& p) {
  if (p.a_depth == 1)
    (p.accumulate ? multiply_panels<false, true> : multiply_panels<false, false>)(p);
  else
    (p.accumulate ? multiply_panels<true, true> : multiply_panels<true, false>)(p);
}

constexpr WinogradTable table = {kLanes,       read,          read_grads, write,
                                 read_kernels, write_kernels, product};

}  // namespace
}  // namespace RUSH_ISA

template <>
const WinogradTable* winograd_table<Isa::RUSH_ISA>() {
  return &RUSH_ISA::table;
}

}  // namespace rush
