#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include "core/interrupt.h"
#include "cpu/kernels/pool_tables.h"

namespace rush {

namespace RUSH_ISA {
namespace {

// Rows of outputs between looks for an interrupt, counted in elements that they may read.
constexpr int64_t kPerLook = 1 << 20;

// Averages of float32 add up in float32: windows are small.
template <class T>
struct Pool {
  static T lowest() {
    if constexpr (std::is_floating_point_v<T>) return -std::numeric_limits<T>::infinity();
    return std::numeric_limits<T>::min();
  }

  // What a row of outputs reads, about.
  static int64_t row_work(const PoolCall& c, int64_t z, int64_t y) {
    const int64_t rows =
        (c.axis[0].last[z] - c.axis[0].first[z]) * (c.axis[1].last[y] - c.axis[1].first[y]);
    return 1 + rows * c.axis[2].out * std::max<int64_t>(c.axis[2].taps, 1);
  }

  // f(output place, z, y, x) for the outputs of one plane.
  template <class F>
  static void for_outputs(const PoolCall& c, F&& f) {
    int64_t at = 0;
    InterruptCounter interrupts(kPerLook / kPoolBlock);
    for (int64_t z = 0; z < c.axis[0].out; ++z)
      for (int64_t y = 0; y < c.axis[1].out; ++y) {
        interrupts.add(row_work(c, z, y));
        for (int64_t x = 0; x < c.axis[2].out; ++x) f(at++, z, y, x);
      }
  }
  // f(start of a row of the plane, iz, iy) for the rows that a window sees.
  template <class F>
  static void for_rows(const PoolCall& c, int64_t z, int64_t y, F&& f) {
    const PoolAxis &a = c.axis[0], &b = c.axis[1];
    for (int64_t iz = a.first[z]; iz < a.last[z]; iz += a.step)
      for (int64_t iy = b.first[y]; iy < b.last[y]; iy += b.step)
        f((iz * b.in + iy) * c.axis[2].in);
  }
  static T factor(const PoolCall& c, int64_t z, int64_t y, int64_t x) {
    const int64_t n = c.axis[0].count[z] * c.axis[1].count[y] * c.axis[2].count[x];
    return T(c.divisor ? c.divisor : std::max<int64_t>(n, 1));
  }

  // Calls f.template operator()<S>(first output, how many) for stretches of whole windows of a row
  // (S: their distance, 0 where only the axis knows) and g(output) for the others.
  template <class F, class G>
  static void for_stretches(const PoolAxis& row, F&& f, G&& g) {
    for (int64_t ox = 0; ox < row.even; ++ox) g(ox);
    for (int64_t ox = row.even; ox < row.even_end; ox += kRun) {
      const int64_t n = std::min(kRun, row.even_end - ox);
      if (row.stride == 1)
        f.template operator()<1>(ox, n);
      else if (row.stride == 2)
        f.template operator()<2>(ox, n);
      else
        f.template operator()<0>(ox, n);
    }
    for (int64_t ox = row.even_end; ox < row.out; ++ox) g(ox);
  }
  static constexpr int64_t kRun = 128;

  static void max(const PoolCall& c, const T* x, T* y, int64_t* indices, int64_t begin,
                  int64_t end) {
    if (indices)
      max_of<true>(c, x, y, indices, begin, end);
    else
      max_of<false>(c, x, y, indices, begin, end);
  }
  template <bool Places>
  static void max_of(const PoolCall& c, const T* x, T* y, int64_t* indices, int64_t begin,
                     int64_t end) {
    if (c.channels_last) return max_last<Places>(c, x, y, indices, begin, end);
    const PoolAxis& row = c.axis[2];
    const bool small = c.in_points() < (int64_t(1) << 31);
    InterruptCounter interrupts(kPerLook);
    for (int64_t plane = begin; plane < end; ++plane) {
      const T* from = x + plane * c.in_points();
      for (int64_t oz = 0; oz < c.axis[0].out; ++oz) {
        for (int64_t oy = 0; oy < c.axis[1].out; ++oy) {
          interrupts.add(row_work(c, oz, oy));
          const int64_t at = plane * c.out_points() + (oz * c.axis[1].out + oy) * row.out;
          int64_t* places = Places ? indices + at : nullptr;
          auto one = [&](int64_t ox) { max_at<Places>(c, from, oz, oy, ox, y + at, places); };
          if (small) {
            for_stretches(
                row,
                [&]<int S>(int64_t ox, int64_t n) {
                  max_stretch<S, Places>(c, from, oz, oy, ox, n, y + at + ox,
                                         Places ? places + ox : nullptr);
                },
                one);
          } else {
            for (int64_t ox = 0; ox < row.out; ++ox) one(ox);
          }
        }
      }
    }
  }

  static int64_t corner(const PoolCall& c, int64_t oz, int64_t oy, int64_t ox) {
    return (c.axis[0].first[oz] * c.axis[1].in + c.axis[1].first[oy]) * c.axis[2].in +
           c.axis[2].first[ox];
  }
  template <bool Places>
  static void max_at(const PoolCall& c, const T* from, int64_t oz, int64_t oy, int64_t ox, T* y,
                     int64_t* indices) {
    const PoolAxis& row = c.axis[2];
    T best = lowest();
    int64_t where = corner(c, oz, oy, ox);
    for_rows(c, oz, oy, [&](int64_t line) {
      for (int64_t i = line + row.first[ox]; i < line + row.last[ox]; i += row.step) {
        const T v = from[i];
        const bool better = v > best || v != v;  // NaN wins, the last one of several
        best = better ? v : best;
        where = better ? i : where;
      }
    });
    y[ox] = best;
    if constexpr (Places) indices[ox] = where;
  }
  template <int S, bool Places>
  static void max_stretch(const PoolCall& c, const T* from, int64_t oz, int64_t oy, int64_t ox,
                          int64_t n, T* y, int64_t* indices) {
    using Place = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;  // one width in a loop
    const PoolAxis& row = c.axis[2];
    const int64_t stride = S ? S : row.stride;
    T best[kRun];
    [[maybe_unused]] Place where[kRun];
    [[maybe_unused]] const Place start = Place(corner(c, oz, oy, ox));
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      best[i] = lowest();
      if constexpr (Places) where[i] = Place(start + i * stride);
    }
    for_rows(c, oz, oy, [&](int64_t line) {
      for (int64_t k = 0; k < row.taps; ++k) {
        const Place first = Place(line + row.first[ox] + k * row.step);
        const T* p = from + first;
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) {
          const T v = p[i * stride];
          const bool better = (v > best[i]) | (v != v);
          best[i] = better ? v : best[i];
          if constexpr (Places)
            where[i] = better ? Place(first + Place(i) * Place(stride)) : where[i];
        }
      }
    });
    std::copy_n(best, n, y);
    if constexpr (Places) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) indices[i] = where[i];
    }
  }

  template <bool Places>
  static void max_last(const PoolCall& c, const T* x, T* y, int64_t* indices, int64_t begin,
                       int64_t end) {
    const PoolAxis& row = c.axis[2];
    const int64_t rows = c.axis[0].out * c.axis[1].out, n = c.channels;
    for (int64_t job = begin; job < end; ++job) {
      const int64_t oz = job % rows / c.axis[1].out, oy = job % c.axis[1].out;
      const T* from = x + job / rows * c.in_points() * n;
      for (int64_t ox = 0; ox < row.out; ++ox) {
        T* to = y + (job * row.out + ox) * n;
        [[maybe_unused]] int64_t* place = Places ? indices + (job * row.out + ox) * n : nullptr;
        std::fill_n(to, n, lowest());
        if constexpr (Places) std::fill_n(place, n, corner(c, oz, oy, ox));
        for_rows(c, oz, oy, [&](int64_t line) {
          for (int64_t i = line + row.first[ox]; i < line + row.last[ox]; i += row.step) {
            const T* at = from + i * n;
#pragma omp simd
            for (int64_t k = 0; k < n; ++k) {
              const T v = at[k];
              const bool better = v > to[k] || v != v;
              to[k] = better ? v : to[k];
              if constexpr (Places) place[k] = better ? i : place[k];
            }
          }
        });
      }
    }
  }

  static void average(const PoolCall& c, const T* x, T* y, int64_t begin, int64_t end) {
    if (c.channels_last) return average_last(c, x, y, begin, end);
    const PoolAxis& row = c.axis[2];
    InterruptCounter interrupts(kPerLook);
    for (int64_t plane = begin; plane < end; ++plane) {
      const T* from = x + plane * c.in_points();
      for (int64_t oz = 0; oz < c.axis[0].out; ++oz) {
        for (int64_t oy = 0; oy < c.axis[1].out; ++oy) {
          interrupts.add(row_work(c, oz, oy));
          T* to = y + plane * c.out_points() + (oz * c.axis[1].out + oy) * row.out;
          for_stretches(
              row,
              [&]<int S>(int64_t ox, int64_t n) {
                if (n == 1)
                  to[ox] = average_at(c, from, oz, oy, ox);
                else
                  average_stretch<S>(c, from, oz, oy, ox, n, to + ox);
              },
              [&](int64_t ox) { to[ox] = average_at(c, from, oz, oy, ox); });
        }
      }
    }
  }
  static T average_at(const PoolCall& c, const T* from, int64_t oz, int64_t oy, int64_t ox) {
    const PoolAxis &rows = c.axis[1], &row = c.axis[2];
    T sum = 0;
    if (row.first[ox] == 0 && row.last[ox] == row.in) {  // whole rows lie end to end
      const int64_t n = (rows.last[oy] - rows.first[oy]) * row.in;
      for (int64_t iz = c.axis[0].first[oz]; iz < c.axis[0].last[oz]; ++iz) {
        const T* p = from + (iz * rows.in + rows.first[oy]) * row.in;
        T part = 0;
#pragma omp simd reduction(+ : part)
        for (int64_t i = 0; i < n; ++i) part += p[i];
        sum += part;
      }
      return sum / factor(c, oz, oy, ox);
    }
    for_rows(c, oz, oy, [&](int64_t line) {
      const T* p = from + line;
      T part = 0;
#pragma omp simd reduction(+ : part)
      for (int64_t i = row.first[ox]; i < row.last[ox]; ++i) part += p[i];
      sum += part;
    });
    return sum / factor(c, oz, oy, ox);
  }
  template <int S>
  static void average_stretch(const PoolCall& c, const T* from, int64_t oz, int64_t oy, int64_t ox,
                              int64_t n, T* to) {
    const PoolAxis& row = c.axis[2];
    const int64_t stride = S ? S : row.stride;
    T sum[kRun] = {};
    for_rows(c, oz, oy, [&](int64_t line) {
      for (int64_t k = 0; k < row.taps; ++k) {
        const T* p = from + line + row.first[ox] + k;
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) sum[i] += p[i * stride];
      }
    });
    const T by = factor(c, oz, oy, ox);  // the same for all whole windows
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) to[i] = sum[i] / by;
  }

  static void average_last(const PoolCall& c, const T* x, T* y, int64_t begin, int64_t end) {
    const PoolAxis& row = c.axis[2];
    const int64_t rows = c.axis[0].out * c.axis[1].out, n = c.channels;
    for (int64_t job = begin; job < end; ++job) {
      const int64_t oz = job % rows / c.axis[1].out, oy = job % c.axis[1].out;
      const T* from = x + job / rows * c.in_points() * n;
      for (int64_t ox = 0; ox < row.out; ++ox) {
        T* to = y + (job * row.out + ox) * n;
        std::fill_n(to, n, T(0));
        for_rows(c, oz, oy, [&](int64_t line) {
          for (int64_t i = line + row.first[ox]; i < line + row.last[ox]; ++i) {
            const T* at = from + i * n;
#pragma omp simd
            for (int64_t k = 0; k < n; ++k) to[k] += at[k];
          }
        });
        const T by = factor(c, oz, oy, ox);
        for (int64_t k = 0; k < n; ++k) to[k] = to[k] / by;
      }
    }
  }

  // The image, first channel and number of channels of a channels-last backward job. Its gradient
  // is cleared bit by bit, just ahead of the sums: a pass of its own would go through memory once
  // more.
  struct Block {
    int64_t image, channel, count, channels, points;
    int64_t cleared = 0;  // points
    T* to;
    Block(const PoolCall& c, int64_t job, T* gx) : channels(c.channels), points(c.in_points()) {
      const int64_t blocks = (c.channels + kPoolBlock - 1) / kPoolBlock;
      image = job / blocks;
      channel = job % blocks * kPoolBlock;
      count = std::min(kPoolBlock, c.channels - channel);
      to = gx + image * points * channels + channel;
    }
    void clear_up_to(int64_t end) {
      for (; cleared < end; ++cleared) std::fill_n(to + cleared * channels, count, T(0));
    }
  };

  static bool max_backward(const PoolCall& c, const T* g, const int64_t* indices, T* gx,
                           int64_t begin, int64_t end) {
    const uint64_t area = uint64_t(c.in_points());
    bool inside = true;
    InterruptCounter interrupts(kPerLook / kPoolBlock);
    for (int64_t job = begin; job < end; ++job) {
      if (!c.channels_last) {
        const int64_t at = job * c.out_points();
        T* to = gx + job * c.in_points();
        std::fill_n(to, c.in_points(), T(0));
        in_steps(c.out_points(), kPerLook, [&](int64_t i, int64_t stop) {
          for (; i < stop; ++i) {
            const uint64_t place = uint64_t(indices[at + i]);
            if (place < area) [[likely]]
              to[place] += g[at + i];
            else
              inside = false;
          }
        });
        continue;
      }
      Block b(c, job, gx);
      const int64_t start = b.image * c.out_points() * c.channels + b.channel;
      for (int64_t first = 0; first < c.out_points(); first += c.axis[2].out) {
        interrupts.add(c.axis[2].out);
        int64_t most = -1;
        for (int64_t i = first; i < first + c.axis[2].out; ++i) {
          const int64_t* places = indices + start + i * c.channels;
#pragma omp simd reduction(max : most)
          for (int64_t k = 0; k < b.count; ++k) most = places[k] > most ? places[k] : most;
        }
        b.clear_up_to(std::min(most + 1, b.points));
        for (int64_t i = first; i < first + c.axis[2].out; ++i) {
          const int64_t at = start + i * c.channels;
          for (int64_t k = 0; k < b.count; ++k) {
            const uint64_t place = uint64_t(indices[at + k]);
            if (place < area) [[likely]]
              b.to[int64_t(place) * c.channels + k] += g[at + k];
            else
              inside = false;
          }
        }
      }
      b.clear_up_to(b.points);
    }
    return inside;
  }

  // What the outputs of one row give to each of the input rows that they see.
  static void spread_one(const PoolCall& c, const T* from, int64_t oz, int64_t oy, int64_t ox,
                         T* line) {
    const PoolAxis& row = c.axis[2];
    const T share = from[ox] / factor(c, oz, oy, ox);
#pragma omp simd
    for (int64_t i = row.first[ox]; i < row.last[ox]; ++i) line[i] += share;
  }
  template <int S>
  static void spread_stretch(const PoolCall& c, const T* from, int64_t oz, int64_t oy, int64_t ox,
                             int64_t n, T* line) {
    const PoolAxis& row = c.axis[2];
    const int64_t stride = S ? S : row.stride;
    const T by = factor(c, oz, oy, ox);
    T* to = line + row.first[ox];
    if (S == 2 && row.taps == 2) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) {
        const T share = from[i] / by;
        to[2 * i] += share;
        to[2 * i + 1] += share;
      }
      return;
    }
    T share[kRun];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) share[i] = from[i] / by;
    for (int64_t k = 0; k < row.taps; ++k) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) to[i * stride + k] += share[i];
    }
  }
  static void spread_row(const PoolCall& c, const T* from, int64_t oz, int64_t oy, T* line) {
    std::fill_n(line, c.axis[2].in, T(0));
    for_stretches(
        c.axis[2],
        [&]<int S>(int64_t ox, int64_t n) {
          if (n == 1)
            spread_one(c, from, oz, oy, ox, line);
          else
            spread_stretch<S>(c, from + ox, oz, oy, ox, n, line);
        },
        [&](int64_t ox) { spread_one(c, from, oz, oy, ox, line); });
  }

  // Does every input belong to just one window?
  static bool parts(const PoolAxis& a) {
    int64_t at = 0;
    for (int64_t i = 0; i < a.out; at = a.last[i++]) {
      if (a.first[i] != at) return false;
    }
    return at == a.in;
  }

  static void average_backward(const PoolCall& c, const T* g, T* gx, int64_t begin, int64_t end) {
    const PoolAxis& row = c.axis[2];
    const bool direct = parts(c.axis[0]) && parts(c.axis[1]);
    std::vector<T> line(size_t(c.channels_last ? 0 : row.in));
    InterruptCounter interrupts(kPerLook);
    for (int64_t job = begin; job < end; ++job) {
      if (!c.channels_last) {
        T* to = gx + job * c.in_points();
        if (!direct) std::fill_n(to, c.in_points(), T(0));
        for (int64_t oz = 0; oz < c.axis[0].out; ++oz) {
          for (int64_t oy = 0; oy < c.axis[1].out; ++oy) {
            interrupts.add(row_work(c, oz, oy));
            spread_row(c, g + job * c.out_points() + (oz * c.axis[1].out + oy) * row.out, oz, oy,
                       line.data());
            for_rows(c, oz, oy, [&](int64_t at) {
              T* sum = to + at;
              const T* more = line.data();
              if (direct) {
                std::copy_n(more, row.in, sum);
              } else {
#pragma omp simd
                for (int64_t i = 0; i < row.in; ++i) sum[i] += more[i];
              }
            });
          }
        }
        continue;
      }
      Block b(c, job, gx);
      const T* from = g + b.image * c.out_points() * c.channels + b.channel;
      T* to = b.to;
      for_outputs(c, [&](int64_t at, int64_t oz, int64_t oy, int64_t ox) {
        if (ox == 0 && c.axis[0].last[oz] > 0)
          b.clear_up_to(((c.axis[0].last[oz] - 1) * c.axis[1].in + c.axis[1].last[oy]) * row.in);
        const T by = factor(c, oz, oy, ox);
        T share[kPoolBlock];
        for (int64_t k = 0; k < b.count; ++k) share[k] = from[at * c.channels + k] / by;
        for_rows(c, oz, oy, [&](int64_t line) {
          for (int64_t i = line + row.first[ox]; i < line + row.last[ox]; ++i)
#pragma omp simd
            for (int64_t k = 0; k < b.count; ++k) to[i * c.channels + k] += share[k];
        });
      });
      b.clear_up_to(b.points);
    }
  }

  static constexpr PoolTable<T> table = {max, average, max_backward, average_backward};
};

// Bytes have maxima without places, and nothing else.
template <class T>
void max_of_bytes(const PoolCall& c, const T* x, T* y, int64_t*, int64_t begin, int64_t end) {
  Pool<T>::template max_of<false>(c, x, y, nullptr, begin, end);
}
template <class T>
constexpr PoolTable<T> kOfBytes = {max_of_bytes<T>, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace RUSH_ISA

template <>
const PoolTable<float>* pool_table<Isa::RUSH_ISA, float>() {
  return &RUSH_ISA::Pool<float>::table;
}
template <>
const PoolTable<double>* pool_table<Isa::RUSH_ISA, double>() {
  return &RUSH_ISA::Pool<double>::table;
}
template <>
const PoolTable<uint8_t>* pool_table<Isa::RUSH_ISA, uint8_t>() {
  return &RUSH_ISA::kOfBytes<uint8_t>;
}
template <>
const PoolTable<int8_t>* pool_table<Isa::RUSH_ISA, int8_t>() {
  return &RUSH_ISA::kOfBytes<int8_t>;
}
template <>
const PoolTable<int64_t>* pool_table<Isa::RUSH_ISA, int64_t>() {
  return &RUSH_ISA::Pool<int64_t>::table;
}

}  // namespace rush
