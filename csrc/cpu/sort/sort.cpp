// Ordering and selecting along the last dim.
#include <vector>

#include "core/interrupt.h"
#include "cpu/loop_nest.h"
#include "cpu/sort/order_keys.h"
#include "cpu/sort/radix_sort.h"
#include "device/sort.h"

namespace rush {
namespace {

// Every type that has an order, as it is stored.
template <class F>
void dispatch_ordered(const char* op, DType t, F&& f) {
  dispatch<DType::Float32, DType::Float64, DType::Int64, DType::Int32, DType::Float16,
           DType::BFloat16, DType::Bool, DType::UInt8, DType::Int8, DType::Int16, DType::UInt16,
           DType::UInt32, DType::UInt64>(op, t,
                                         [&]<typename T>() { f.template operator()<stored<T>>(); });
}

struct Rows {
  int64_t count, length;
  explicit Rows(const Tensor& x) : count(1), length(x.dim() == 0 ? 1 : x.sizes().back()) {
    for (int64_t d = 0; d + 1 < x.dim(); ++d) count *= x.sizes()[size_t(d)];
  }
  // f(row) for all of them: in parallel if there are enough, else one after the other, so that f
  // may use all threads itself.
  template <class F>
  void each(F&& f) const {
    if (count < num_threads() || count * length < kGrain) {
      for (int64_t r = 0; r < count; ++r) f(r);
      return;
    }
    parallel_for(count, std::max<int64_t>(1, kGrain / std::max<int64_t>(length, 1)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t r = begin; r < end; ++r) f(r);
                 });
  }
};

constexpr int64_t kPerLook = 1 << 20;  // elements between looks for an interrupt

// Less, for long rows in the standard library's hands: asks for interrupts as it compares.
template <class P>
struct InterruptibleLess {
  InterruptCounter& counter;
  bool operator()(P a, P b) const {
    counter.add();
    return a < b;
  }
};

// std::sort and std::nth_element, which in long rows can be interrupted.
template <class P>
void sort_few(P* begin, P* end) {
  InterruptCounter counter(kPerLook);
  if (end - begin < kPerLook) return std::sort(begin, end);
  std::sort(begin, end, InterruptibleLess<P>{counter});
}
template <class P>
void partition_at(P* begin, P* nth, P* end) {
  InterruptCounter counter(kPerLook);
  if (end - begin < kPerLook) return std::nth_element(begin, nth, end);
  std::nth_element(begin, nth, end, InterruptibleLess<P>{counter});
}

template <class T>
using KeyFlip = KeyOf<T>;  // all ones turns the order round

// Uninitialised room for n elements, kept while the thread sorts rows of one call.
template <class P>
class Room {
 public:
  P* get(int64_t n) {
    if (n > size_) memory_ = make_tensor(Dims{n * int64_t(sizeof(P)) / 8}, DType::Int64), size_ = n;
    return reinterpret_cast<P*>(memory_.data());
  }

 private:
  Tensor memory_;
  int64_t size_ = 0;
};

template <class T>
void check_length(const char* op, int64_t n) {
  check(n <= kMaxPacked<T>, ErrorKind::NotImplemented, op, "rows of ", n,
        " elements are too long; at most ", kMaxPacked<T>, " are possible");
}

template <class T>
void pack_row(const T* x, int64_t n, KeyFlip<T> flip, Packed<T>* out) {
  parallel_for(n, kGrain, [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; ++i) out[i] = pack<T>(KeyOf<T>(order_key(x[i]) ^ flip), i);
  });
}

template <class T>
T unpack(const T* x, Packed<T> p, KeyFlip<T> flip) {
  const auto key = KeyOf<T>(key_part<T>(p) ^ flip);
  return is_plain_key<T>(key) ? value_of_key<T>(key) : x[position_part<T>(p)];
}

template <class T>
void unpack_row(const T* x, const Packed<T>* p, int64_t n, KeyFlip<T> flip, T* values,
                int64_t* indices) {
  parallel_for(n, kGrain, [&](int64_t b, int64_t e) {
    if (values) {
      for (int64_t i = b; i < e; ++i) values[i] = unpack(x, p[i], flip);
    }
    if (indices) {
      for (int64_t i = b; i < e; ++i) indices[i] = position_part<T>(p[i]);
    }
  });
}

// Sorts p[0, n), whose positions ascend, by key. Short rows are not worth the counting.
template <class T>
Packed<T>* sort_packed(Packed<T>* p, Room<Packed<T>>& room, int64_t n) {
  if (n < 128 * int64_t(sizeof(T)) / 2) {
    std::sort(p, p + n);
    return p;
  }
  return radix_sort(p, room.get(n), n, kPositionBits<T>, int(sizeof(T)));
}

// The smallest key of a row, and how far the others reach.
template <class T>
std::pair<KeyOf<T>, KeyOf<T>> key_range(const T* x, int64_t n) {
  KeyOf<T> low = order_key(x[0]), high = low;
  in_steps(n, kPerLook, [&](int64_t i, int64_t end) {
    KeyOf<T> least = low, most = high;
    for (; i < end; ++i) {
      const KeyOf<T> key = order_key(x[i]);
      least = std::min(least, key);
      most = std::max(most, key);
    }
    low = least, high = most;
  });
  return {low, KeyOf<T>(high - low)};
}

// Long integers mostly lie close together: their distances from the smallest fit into half a word,
// beside the positions. False where they do not.
template <class T>
bool sort_narrow_row(const T* x, int64_t n, bool descending, Room<uint64_t>& room,
                     Room<uint64_t>& room2, T* values, int64_t* indices) {
  if (n < 1024 || n > int64_t(UINT32_MAX)) return false;
  const auto [low, range] = key_range(x, n);
  if (range > UINT32_MAX) return false;
  const uint32_t flip = descending ? ~uint32_t(0) : 0;
  uint64_t* p = room.get(n);
  parallel_for(n, kGrain, [&, low = low](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; ++i)
      p[i] = uint64_t(uint32_t(order_key(x[i]) - low) ^ flip) << 32 | uint64_t(i);
  });
  p = radix_sort(p, room2.get(n), n, 32, 4);
  parallel_for(n, kGrain, [&, low = low](int64_t b, int64_t e) {
    if (values) {
      for (int64_t i = b; i < e; ++i)
        values[i] = value_of_key<T>(KeyOf<T>(low + (uint32_t(p[i] >> 32) ^ flip)));
    }
    if (indices) {
      for (int64_t i = b; i < e; ++i) indices[i] = int64_t(uint32_t(p[i]));
    }
  });
  return true;
}

template <class T>
T* at_row(const Tensor& t, int64_t row, int64_t length) {
  return t.defined() ? t.data<T>() + row * length : nullptr;
}

// ---- selection: the k first in packed order ----

// Offers take() every element of x[begin, end) whose key is below the bar; it returns the new bar.
// Positions grow, so a key equal to the bar comes too late. A piece of the row in which nothing is
// below is passed over by one vectorised look.
template <class T, class Take>
void each_below(const T* x, int64_t begin, int64_t end, KeyFlip<T> flip, KeyOf<T> bar,
                Take&& take) {
  constexpr int64_t piece = 16;
  auto key = [&](int64_t i) { return KeyOf<T>(order_key(x[i]) ^ flip); };
  auto offer = [&](int64_t i) {
    if (key(i) < bar) bar = take(pack<T>(key(i), i));
  };
  in_steps(end - begin, kPerLook, [&](int64_t first, int64_t last) {
    int64_t i = begin + first;
    for (; i + piece <= begin + last; i += piece) {
      unsigned below = 0;
#pragma omp simd reduction(| : below)
      for (int64_t j = 0; j < piece; ++j) below |= key(i + j) < bar;
      if (!below) continue;
      for (int64_t j = 0; j < piece; ++j) offer(i + j);
    }
    for (; i < begin + last; ++i) offer(i);
  });
}

// Leaves the k smallest of x's packed elements in p[0, k): a few are kept sorted, so that the bar
// is always as low as it can be; many are gathered twice over before the worse half goes.
template <class T>
void smallest_of(const T* x, int64_t begin, int64_t end, int64_t k, KeyFlip<T> flip,
                 std::vector<Packed<T>>& p) {
  constexpr int64_t few = 32;
  const int64_t full = k <= few ? k : 2 * k;
  const int64_t first = std::min(end, begin + full);
  p.clear();
  p.reserve(size_t(full));
  for (int64_t i = begin; i < first; ++i) p.push_back(pack<T>(KeyOf<T>(order_key(x[i]) ^ flip), i));
  if (k == 0 || int64_t(p.size()) < k) return;
  auto keep_k = [&] {
    partition_at(p.data(), p.data() + k - 1, p.data() + p.size());
    p.resize(size_t(k));
    return key_part<T>(p.back());
  };
  if (k <= few) {
    std::sort(p.begin(), p.end());
    each_below(x, first, end, flip, key_part<T>(p.back()), [&](Packed<T> fresh) {
      size_t j = p.size() - 1;
      for (; j > 0 && p[j - 1] > fresh; --j) p[j] = p[j - 1];
      p[j] = fresh;
      return key_part<T>(p.back());
    });
    return;
  }
  KeyOf<T> bar = keep_k();
  each_below(x, first, end, flip, bar, [&](Packed<T> fresh) {
    p.push_back(fresh);
    if (int64_t(p.size()) == full) bar = keep_k();
    return bar;
  });
  keep_k();
}

template <class T>
void topk_row(const T* x, int64_t n, int64_t k, KeyFlip<T> flip, T* values, int64_t* indices,
              Room<Packed<T>>& room, Room<Packed<T>>& room2) {
  if (k * 8 > n && n > 256) {
    Packed<T>* p = room.get(n);
    pack_row(x, n, flip, p);
    unpack_row(x, sort_packed<T>(p, room2, n), k, flip, values, indices);
    return;
  }
  const int64_t pieces =
      in_parallel_region()
          ? 1
          : std::clamp<int64_t>(n / std::max<int64_t>(kGrain, 16 * k), 1, num_threads());
  std::vector<std::vector<Packed<T>>> best(static_cast<size_t>(pieces));
  parallel_for(pieces, 1, [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; ++i)
      smallest_of(x, n * i / pieces, n * (i + 1) / pieces, k, flip, best[size_t(i)]);
  });
  std::vector<Packed<T>>& all = best[0];
  for (size_t i = 1; i < best.size(); ++i) all.insert(all.end(), best[i].begin(), best[i].end());
  if (int64_t(all.size()) > k)
    partition_at(all.data(), all.data() + k - 1, all.data() + all.size());
  // Selection has shuffled them: the radix sort, which keeps equal keys as it finds them, would not
  // bring the positions in order.
  sort_few(all.data(), all.data() + k);
  unpack_row(x, all.data(), k, flip, values, indices);
}

// The k-th (from 0) in sorted order. Counts the keys by their upper bits first, so that only one
// bin is looked at closely.
template <class T>
Packed<T> kth_of(const T* x, int64_t n, int64_t k, std::vector<Packed<T>>& p) {
  constexpr int bits = 8 * sizeof(T), shift = bits > 12 ? bits - 12 : 0;
  p.clear();
  if (n < 4096) {
    for (int64_t i = 0; i < n; ++i) p.push_back(pack<T>(order_key(x[i]), i));
  } else {
    std::vector<int64_t> counts(size_t(1) << (bits - shift), 0);
    in_steps(n, kPerLook, [&](int64_t i, int64_t end) {
      for (; i < end; ++i) ++counts[size_t(order_key(x[i]) >> shift)];
    });
    size_t bin = 0;
    while (k >= counts[bin]) k -= counts[bin++];
    p.reserve(size_t(counts[bin]));
    in_steps(n, kPerLook, [&](int64_t i, int64_t end) {
      for (; i < end; ++i) {
        const KeyOf<T> key = order_key(x[i]);
        if (size_t(key >> shift) == bin) p.push_back(pack<T>(key, i));
      }
    });
  }
  partition_at(p.data(), p.data() + k, p.data() + p.size());
  return p[size_t(k)];
}

// Calls one(row, room, room) for every row. Few rows are taken one after another: each of them is
// then sorted by all threads. `grain`: the elements that are worth a thread.
template <class T, class F>
void each_row(const Rows& rows, int64_t grain, F one) {
  const auto some = [&](int64_t begin, int64_t end) {
    Room<Packed<T>> room, room2;
    for (int64_t r = begin; r < end; ++r) one(r, room, room2);
  };
  if (rows.count < num_threads()) return some(0, rows.count);
  parallel_for(rows.count, std::max<int64_t>(1, grain / rows.length), some);
}

void sort_rows(const char* op, const Tensor& x, bool descending, const Tensor& values,
               const Tensor& indices) {
  if (x.numel() == 0) return;
  const Rows rows(x);
  dispatch_ordered(op, x.dtype(), [&]<typename T>() {
    check_length<T>(op, rows.length);
    const auto flip = KeyFlip<T>(descending ? ~KeyFlip<T>(0) : 0);
    auto one = [&](int64_t r, Room<Packed<T>>& room, Room<Packed<T>>& room2) {
      const T* row = x.data<T>() + r * rows.length;
      if constexpr (sizeof(T) == 8 && !is_float_like<T>) {
        Room<uint64_t> narrow, narrow2;
        if (sort_narrow_row(row, rows.length, descending, narrow, narrow2,
                            at_row<T>(values, r, rows.length),
                            at_row<int64_t>(indices, r, rows.length)))
          return;
      }
      Packed<T>* p = room.get(rows.length);
      pack_row(row, rows.length, flip, p);
      unpack_row(row, sort_packed<T>(p, room2, rows.length), rows.length, flip,
                 at_row<T>(values, r, rows.length), at_row<int64_t>(indices, r, rows.length));
    };
    each_row<T>(rows, 4096, one);
  });
}

bool sort_integers(const Tensor& x, const Tensor& values) {
  if (!is_integral(x.dtype()) || x.numel() < 1024) return false;
  dispatch<DType::Int64, DType::Int32, DType::UInt8, DType::Int8, DType::Int16, DType::UInt16,
           DType::UInt32, DType::UInt64>("unique", x.dtype(), [&]<typename T>() {
    const T* from = x.data<T>();
    T* to = values.data<T>();
    const int64_t n = x.numel();
    // K: an unsigned integer that holds all distances from the smallest key
    auto run = [&]<class K>(KeyOf<T> low, int bytes) {
      Room<K> room, room2;
      K* p = room.get(n + 8);
      parallel_for(n, kGrain, [&](int64_t b, int64_t e) {
        for (int64_t i = b; i < e; ++i) p[i] = K(order_key(from[i]) - low);
      });
      p = radix_sort(p, room2.get(n + 8), n, 0, bytes);
      parallel_for(n, kGrain, [&](int64_t b, int64_t e) {
        for (int64_t i = b; i < e; ++i) to[i] = value_of_key<T>(KeyOf<T>(low + p[i]));
      });
    };
    const auto [low, range] = key_range(from, n);
    if (uint64_t(range) > UINT32_MAX)
      run.template operator()<uint64_t>(low, 8);
    else
      run.template operator()<uint32_t>(low, 4);
  });
  return true;
}

void topk_rows(const char* op, const Tensor& x, int64_t k, bool largest, const Tensor& values,
               const Tensor& indices) {
  if (x.numel() == 0 || k == 0) return;
  const Rows rows(x);
  dispatch_ordered(op, x.dtype(), [&]<typename T>() {
    check_length<T>(op, rows.length);
    const auto flip = KeyFlip<T>(largest ? ~KeyFlip<T>(0) : 0);
    auto one = [&](int64_t r, Room<Packed<T>>& room, Room<Packed<T>>& room2) {
      topk_row(x.data<T>() + r * rows.length, rows.length, k, flip, values.data<T>() + r * k,
               indices.data<int64_t>() + r * k, room, room2);
    };
    each_row<T>(rows, 8192, one);
  });
}

void select_rows(const char* op, const Tensor& x, Rank rank, int64_t k, const Tensor& values,
                 const Tensor& indices) {
  const Rows rows(x);
  dispatch_ordered(op, x.dtype(), [&]<typename T>() {
    check_length<T>(op, rows.length);
    rows.each([&](int64_t r) {
      const T* row = x.data<T>() + r * rows.length;
      int64_t at = rank == Rank::Kth ? k : (rows.length - 1) / 2, nan = -1;
      if (rank != Rank::Kth) {
        int64_t nans = 0;
        in_steps(is_float_like<T> ? rows.length : 0, kPerLook, [&](int64_t i, int64_t end) {
          for (; i < end; ++i) {
            if (!is_nan_value(row[i])) continue;
            if (nan < 0) nan = i;
            ++nans;
          }
        });
        if (rank == Rank::NanMedian && nans < rows.length) {
          nan = -1;
          at = (rows.length - nans - 1) / 2;
        }
      }
      std::vector<Packed<T>> room;
      const int64_t place = nan >= 0 ? nan : position_part<T>(kth_of(row, rows.length, at, room));
      if (values.defined()) values.data<T>()[r] = row[place];
      if (indices.defined()) indices.data<int64_t>()[r] = place;
    });
  });
}

void mode_rows(const char* op, const Tensor& x, const Tensor& values, const Tensor& indices) {
  const Rows rows(x);
  dispatch_ordered(op, x.dtype(), [&]<typename T>() {
    check_length<T>(op, rows.length);
    rows.each([&](int64_t r) {
      const T* row = x.data<T>() + r * rows.length;
      Room<Packed<T>> room, room2;
      Packed<T>* p = room.get(rows.length);
      pack_row(row, rows.length, KeyFlip<T>(0), p);
      p = sort_packed<T>(p, room2, rows.length);
      int64_t best = 0, best_count = 0;
      int64_t begin = 0;
      in_steps(rows.length, kPerLook, [&](int64_t i, int64_t end) {
        for (; i < end; ++i) {
          if (key_part<T>(p[i]) != key_part<T>(p[begin])) begin = i;
          if (i - begin + 1 > best_count) best = i, best_count = i - begin + 1;
        }
      });
      values.data<T>()[r] = unpack(row, p[best], KeyFlip<T>(0));
      indices.data<int64_t>()[r] = position_part<T>(p[best]);
    });
  });
}

const bool registered = [] {
  SortLoops& loops = sort_loops(DeviceType::CPU);
  loops.sort = sort_rows;
  loops.sort_integers = sort_integers;
  loops.topk = topk_rows;
  loops.select = select_rows;
  loops.mode = mode_rows;
  return true;
}();

}  // namespace
}  // namespace rush
