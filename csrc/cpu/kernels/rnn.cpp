// rnn.cpp: products with packed weights, and the gates of recurrent cells.
//
// - A tile of the product is some rows by one or two vectors, held in registers over all of k. Few
//   rows take several panels at once, so that there are always enough sums under way.
// - A sum's order depends on k alone: neither the grouping of rows nor the number of threads shows.
#include "cpu/kernels/rnn_tables.h"

#include "cpu/kernels/gemm_vector.h"
#include "functors/rnn.h"

namespace rush {
namespace RUSH_ISA {
namespace {

constexpr int kMostRows = kVectorBytes == 64 ? 12 : 6;

// R rows by P panels of V vectors.
template <int R, int V, int P, bool accumulate, class T>
void tile(int64_t depth, const T* a, int64_t a_row, const T* panels, T* c, int64_t c_row,
          int64_t c_panel) {
  constexpr int W = kVectorBytes / int(sizeof(T));
  using Vec = typename VectorOf<T, W>::type;
  const int64_t apart = depth * V * W;
  Vec sums[R][P * V];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < P * V; ++v) sums[r][v] = Vec{};
  for (int64_t k = 0; k < depth; ++k) {
    Vec b[P * V];
#pragma GCC unroll 16
    for (int v = 0; v < P * V; ++v) load(b[v], panels + (v / V) * apart + (v % V) * W);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 16
      for (int v = 0; v < P * V; ++v) sums[r][v] += a[r * a_row] * b[v];
    }
    ++a;
    panels += V * W;
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < P * V; ++v) {
      T* const to = c + r * c_row + (v / V) * c_panel + (v % V) * W;
      if constexpr (accumulate) {
        Vec before;
        load(before, to);
        sums[r][v] += before;
      }
      store(to, sums[r][v]);
    }
  }
}

template <int R, int V, class T>
void tile_rows(const PanelProduct<T>& p, int64_t panel, int64_t panels, int64_t row) {
  constexpr int W = kVectorBytes / int(sizeof(T));
  const T* a = p.a + row * p.a_row;
  for (int64_t i = 0; i < panels;) {
    const T* b = p.panels + (panel + i) * p.depth * V * W;
    T* c = p.c + row * p.c_row + (panel + i) * p.c_panel;
    constexpr int P = R == 1 ? 4 : R == 2 ? 2 : 1;
    const auto run = [&]<int count>() {
      const auto f = p.accumulate ? tile<R, V, count, true, T> : tile<R, V, count, false, T>;
      f(p.depth, a, p.a_row, b, c, p.c_row, p.c_panel);
      i += count;
    };
    if (P > 1 && panels - i >= P)
      run.template operator()<P>();
    else
      run.template operator()<1>();
  }
}

template <int V, class T>
void some_rows(const PanelProduct<T>& p, int64_t panel, int64_t panels, int64_t row, int64_t rows) {
  switch (rows) {
    case 1:
      return tile_rows<1, V>(p, panel, panels, row);
    case 2:
      return tile_rows<2, V>(p, panel, panels, row);
    case 3:
      return tile_rows<3, V>(p, panel, panels, row);
    case 4:
      return tile_rows<4, V>(p, panel, panels, row);
    case 5:
      return tile_rows<5, V>(p, panel, panels, row);
    case 6:
      return tile_rows<6, V>(p, panel, panels, row);
    default:
      if constexpr (kMostRows > 6) {
        switch (rows) {
          case 7:
            return tile_rows<7, V>(p, panel, panels, row);
          case 8:
            return tile_rows<8, V>(p, panel, panels, row);
          case 9:
            return tile_rows<9, V>(p, panel, panels, row);
          case 10:
            return tile_rows<10, V>(p, panel, panels, row);
          case 11:
            return tile_rows<11, V>(p, panel, panels, row);
          default:
            return tile_rows<12, V>(p, panel, panels, row);
        }
      }
  }
}

// Rows in groups of nearly the same size; a panel serves all of them while it is in the cache.
template <int V, class T>
void multiply(const PanelProduct<T>& p) {
  const int64_t groups = (p.rows + kMostRows - 1) / kMostRows;
  const int64_t together = p.rows <= 2 ? p.count : 1;
  for (int64_t panel = 0; panel < p.count; panel += together) {
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t row = g * p.rows / groups, end = (g + 1) * p.rows / groups;
      some_rows<V>(p, panel, together, row, end - row);
    }
  }
}

template <class T>
struct Rnn {
  static void product(const PanelProduct<T>& p) {
    if (p.vectors == 1)
      multiply<1>(p);
    else
      multiply<2>(p);
  }

  static void pack(int64_t units, int64_t depth, const T* from, int64_t unit_stride,
                   int64_t depth_stride, int64_t width, T* to) {
    if (depth_stride == 1) {  // a transpose, in pieces that stay in the cache
      constexpr int64_t kPiece = 16;
      for (int64_t k = 0; k < depth; k += kPiece) {
        const int64_t n = depth - k < kPiece ? depth - k : kPiece;
        for (int64_t u = 0; u < units; ++u) {
          const T* row = from + u * unit_stride + k;
          for (int64_t i = 0; i < n; ++i) to[(k + i) * width + u] = row[i];
        }
      }
    } else {
      for (int64_t k = 0; k < depth; ++k) {
        const T* row = from + k * depth_stride;
        for (int64_t u = 0; u < units; ++u) to[k * width + u] = row[u * unit_stride];
      }
    }
    for (int64_t k = 0; units < width && k < depth; ++k)
      for (int64_t u = units; u < width; ++u) to[k * width + u] = T(0);
  }

  template <bool keep>
  static void lstm_rows(const CellForward<T>& p) {
    for (int64_t r = 0; r < p.rows; ++r) {
      const T *si = p.sums + r * p.sums_row, *sf = si + p.sums_gate, *sg = sf + p.sums_gate;
      const T *so = sg + p.sums_gate, *bi = p.bias, *bf = bi + p.gate, *bg = bf + p.gate;
      const T* bo = bg + p.gate;
      T *c = p.c + r * p.c_row, *h = p.h + r * p.h_row, *out = p.out + r * p.out_row;
      T *ki = nullptr, *kf = nullptr, *kg = nullptr, *ko = nullptr, *cells = nullptr;
      if constexpr (keep) {
        ki = p.kept + r * p.kept_row, kf = ki + p.gate, kg = kf + p.gate, ko = kg + p.gate;
        cells = p.cells + r * p.cells_row;
      }
#pragma omp simd
      for (int64_t u = 0; u < p.units; ++u) {
        const auto unit =
            functors::lstm_unit(si[u] + bi[u], sf[u] + bf[u], sg[u] + bg[u], so[u] + bo[u], c[u]);
        c[u] = unit.c;
        h[u] = unit.h;
        out[u] = unit.h;
        if constexpr (keep) {
          ki[u] = unit.i;
          kf[u] = unit.f;
          kg[u] = unit.g;
          ko[u] = unit.o;
          cells[u] = unit.c;
        }
      }
    }
  }
  static void lstm(const CellForward<T>& p) { p.kept ? lstm_rows<true>(p) : lstm_rows<false>(p); }

  template <bool keep>
  static void gru_rows(const CellForward<T>& p) {
    for (int64_t r = 0; r < p.rows; ++r) {
      const T *sr = p.sums + r * p.sums_row, *sz = sr + p.sums_gate, *sn = sz + p.sums_gate;
      const T *sq = p.state_sums + r * p.state_sums_row, *before = p.h_before + r * p.h_before_row;
      const T *br = p.bias, *bz = br + p.gate, *bn = bz + p.gate, *bq = bn + p.gate;
      T *h = p.h + r * p.h_row, *out = p.out + r * p.out_row;
      T *kr = nullptr, *kz = nullptr, *kn = nullptr, *kq = nullptr;
      if constexpr (keep)
        kr = p.kept + r * p.kept_row, kz = kr + p.gate, kn = kz + p.gate, kq = kn + p.gate;
#pragma omp simd
      for (int64_t u = 0; u < p.units; ++u) {
        const T q = sq[u] + bq[u];
        const auto unit =
            functors::gru_unit(sr[u] + br[u], sz[u] + bz[u], sn[u] + bn[u], q, before[u]);
        h[u] = unit.h;
        out[u] = unit.h;
        if constexpr (keep) {
          kr[u] = unit.r;
          kz[u] = unit.z;
          kn[u] = unit.n;
          kq[u] = q;
        }
      }
    }
  }
  static void gru(const CellForward<T>& p) { p.kept ? gru_rows<true>(p) : gru_rows<false>(p); }

  template <bool relu>
  static void simple(const CellForward<T>& p) {
    for (int64_t r = 0; r < p.rows; ++r) {
      const T *sums = p.sums + r * p.sums_row, *bias = p.bias;
      T *h = p.h + r * p.h_row, *out = p.out + r * p.out_row;
#pragma omp simd
      for (int64_t u = 0; u < p.units; ++u) {
        const T x = sums[u] + bias[u];
        T y;
        if constexpr (relu)
          y = x < T(0) ? T(0) : x;
        else
          y = functors::cell_tanh(x);
        h[u] = y;
        out[u] = y;
      }
    }
  }

  static void lstm_backward(const CellBackward<T>& p) {
    for (int64_t r = 0; r < p.rows; ++r) {
      const T *flow = p.flow + r * p.flow_row, *grad = p.grad + r * p.grad_row;
      const T *i = p.kept + r * p.kept_row, *f = i + p.gate, *g = f + p.gate, *o = g + p.gate;
      const T *before = p.before + r * p.before_row, *c = p.c + r * p.c_row;
      T *carry = p.carry + r * p.carry_row, *c_grad = p.c_grad + r * p.c_grad_row;
      T *di = p.sums_grad + r * p.sums_grad_row, *df = di + p.gate, *dg = df + p.gate;
      T* d_o = dg + p.gate;
#pragma omp simd
      for (int64_t u = 0; u < p.units; ++u) {
        const auto d = functors::lstm_grads(i[u], f[u], g[u], o[u], before[u], c[u],
                                            flow[u] + grad[u] + carry[u], c_grad[u]);
        di[u] = d.i;
        df[u] = d.f;
        dg[u] = d.g;
        d_o[u] = d.o;
        c_grad[u] = d.c_before;
        carry[u] = T(0);
      }
    }
  }

  static void gru_backward(const CellBackward<T>& p) {
    for (int64_t r = 0; r < p.rows; ++r) {
      const T *flow = p.flow + r * p.flow_row, *grad = p.grad + r * p.grad_row;
      const T *kr = p.kept + r * p.kept_row, *kz = kr + p.gate, *kn = kz + p.gate;
      const T *kq = kn + p.gate, *before = p.before + r * p.before_row;
      T* carry = p.carry + r * p.carry_row;
      T *dr = p.sums_grad + r * p.sums_grad_row, *dz = dr + p.gate, *dq = dz + p.gate;
      T* dn = dq + p.gate;
#pragma omp simd
      for (int64_t u = 0; u < p.units; ++u) {
        const auto d = functors::gru_grads(kr[u], kz[u], kn[u], kq[u], before[u],
                                           flow[u] + grad[u] + carry[u]);
        dr[u] = d.r;
        dz[u] = d.z;
        dq[u] = d.q;
        dn[u] = d.n;
        carry[u] = d.h_before;
      }
    }
  }

  template <bool relu>
  static void simple_backward(const CellBackward<T>& p) {
    for (int64_t r = 0; r < p.rows; ++r) {
      const T *flow = p.flow + r * p.flow_row, *grad = p.grad + r * p.grad_row;
      const T* y = p.kept + r * p.kept_row;
      T *carry = p.carry + r * p.carry_row, *d = p.sums_grad + r * p.sums_grad_row;
#pragma omp simd
      for (int64_t u = 0; u < p.units; ++u) {
        const T g = flow[u] + grad[u] + carry[u];
        if constexpr (relu)
          d[u] = y[u] <= T(0) ? T(0) : g;
        else
          d[u] = g * functors::tanh_slope(y[u]);
        carry[u] = T(0);
      }
    }
  }

  static constexpr RnnTable<T> table = {
      kVectorBytes / int64_t(sizeof(T)),
      product,
      pack,
      {simple<false>, simple<true>, lstm, gru},
      {simple_backward<false>, simple_backward<true>, lstm_backward, gru_backward}};
};

}  // namespace
}  // namespace RUSH_ISA

template <>
const RnnTable<float>* rnn_table<Isa::RUSH_ISA, float>() {
  return &RUSH_ISA::Rnn<float>::table;
}
template <>
const RnnTable<double>* rnn_table<Isa::RUSH_ISA, double>() {
  return &RUSH_ISA::Rnn<double>::table;
}

}  // namespace rush
