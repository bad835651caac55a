// Runs of equal slices, and the order that brings equal ones together.
#include <algorithm>
#include <cstring>
#include <vector>

#include "core/interrupt.h"
#include "cpu/loop_nest.h"
#include "cpu/sort/order_keys.h"
#include "device/sort.h"
#include "functors/complex.h"
#include "functors/stored.h"

namespace rush {
namespace {

constexpr int64_t kPerLook = 1 << 18;  // elements between looks for an interrupt

template <class T>
bool differ(const T* a, const T* b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if (!(opmath<T>(a[i]) == opmath<T>(b[i]))) return true;
  }
  return false;
}

// Where a walk along runs of equal elements is: the run's first element, its place, its number.
template <class T>
struct RunState {
  T first;
  int64_t at = 0, run = 0;
};

// Elements [i, end). Without branches: the run's first element is written again for each of its
// others.
template <bool Inverse, bool Starts, class T>
void follow_runs(const T* p, int64_t i, int64_t end, T* out, int64_t* run_of, int64_t* start,
                 RunState<T>& state) {
  T first = state.first;
  int64_t at = state.at, run = state.run;
  if (i == 0) {
    out[0] = first;
    if (Inverse) run_of[0] = 0;
    if (Starts) start[0] = 0;
    ++i;
  }
  for (; i < end; ++i) {
    const bool begins = !(opmath<T>(p[i]) == opmath<T>(p[i - 1]));
    run += begins;
    first = begins ? p[i] : first;
    out[run] = first;
    if (Inverse) run_of[i] = run;
    if (Starts) start[run] = at = begins ? i : at;
  }
  state = {first, at, run};
}

Tensor vector_of(const std::vector<std::vector<int64_t>>& parts) {
  int64_t n = 0;
  for (const auto& part : parts) n += int64_t(part.size());
  Tensor out = make_tensor(Dims{n}, DType::Int64);
  auto* p = out.data<int64_t>();
  for (const auto& part : parts) p = std::copy(part.begin(), part.end(), p);
  return out;
}

// Which run each of n places belongs to.
void number_runs(const Tensor& starts, int64_t n, const int64_t* places, int64_t* out) {
  const auto* start = starts.data<int64_t>();
  InterruptCounter interrupts(kPerLook);
  for (int64_t run = 0; run < starts.numel(); ++run) {
    const int64_t end = run + 1 < starts.numel() ? start[run + 1] : n;
    interrupts.add(end - start[run]);
    for (int64_t i = start[run]; i < end; ++i) out[places ? places[i] : i] = run;
  }
}

Tensor run_starts(const char* op, const Tensor& x, int64_t count, const Tensor& sequence,
                  const Tensor& inverse, const Tensor& places) {
  if (count == 0) return make_tensor(Dims{0}, DType::Int64);
  const int64_t* order = sequence.defined() ? sequence.data<int64_t>() : nullptr;
  const int64_t length = x.numel() / count;
  constexpr int64_t kPiece = 1 << 16;
  std::vector<std::vector<int64_t>> parts(size_t((count + kPiece - 1) / kPiece));
  dispatch_storage(op, x.dtype(), [&]<typename C>() {
    using T = stored<C>;
    const T* p = x.data<T>();
    parallel_for(int64_t(parts.size()), 1, [&](int64_t first, int64_t last) {
      for (int64_t part = first; part < last; ++part) {
        std::vector<int64_t>& out = parts[size_t(part)];
        const int64_t end = std::min(count, (part + 1) * kPiece);
        InterruptCounter interrupts(kPerLook);
        for (int64_t i = part * kPiece; i < end; ++i) {
          interrupts.add(length);
          if (i > 0 && !differ(p + (order ? order[i] : i) * length,
                               p + (order ? order[i - 1] : i - 1) * length, length))
            continue;
          out.push_back(i);
        }
      }
    });
  });
  Tensor starts = vector_of(parts);
  if (inverse.defined())
    number_runs(starts, count, places.defined() ? places.data<int64_t>() : nullptr,
                inverse.data<int64_t>());
  return starts;
}

Tensor first_of_runs(const char* op, const Tensor& x, const Tensor& inverse, Tensor* counts) {
  const int64_t n = x.numel();
  if (n == 0) {
    if (counts) *counts = make_tensor(Dims{0}, DType::Int64);
    return make_tensor(Dims{0}, x.dtype());
  }
  const Tensor kept = make_tensor(Dims{n}, x.dtype());
  const Tensor starts = counts ? make_tensor(Dims{n}, DType::Int64) : Tensor();
  int64_t runs = 0;
  dispatch_storage(op, x.dtype(), [&]<typename C>() {
    using T = stored<C>;
    const T* p = x.data<T>();
    T* out = kept.data<T>();
    int64_t* run_of = inverse.defined() ? inverse.data<int64_t>() : nullptr;
    int64_t* start = counts ? starts.data<int64_t>() : nullptr;
    RunState<T> state{p[0]};
    const auto follow = run_of
                            ? (start ? follow_runs<true, true, T> : follow_runs<true, false, T>)
                            : (start ? follow_runs<false, true, T> : follow_runs<false, false, T>);
    in_steps(n, kPerLook,
             [&](int64_t i, int64_t end) { follow(p, i, end, out, run_of, start, state); });
    runs = state.run + 1;
  });
  const Tensor values = make_tensor(Dims{runs}, x.dtype());
  std::memcpy(values.data(), kept.data(), size_t(runs * element_size(x.dtype())));
  if (counts) {
    *counts = make_tensor(Dims{runs}, DType::Int64);
    const int64_t* start = starts.data<int64_t>();
    in_steps(runs, kPerLook, [&](int64_t i, int64_t end) {
      for (; i < end; ++i)
        counts->data<int64_t>()[i] = (i + 1 < runs ? start[i + 1] : n) - start[i];
    });
  }
  return values;
}

void sort_slices(const char* op, const Tensor& x, int64_t count, const Tensor& order) {
  if (count == 0) return;
  auto* first = order.data<int64_t>();
  const int64_t length = x.numel() / count;
  dispatch<DType::Float32, DType::Float64, DType::Int64, DType::Int32, DType::Float16,
           DType::BFloat16, DType::Bool, DType::UInt8, DType::Int8, DType::Int16, DType::UInt16,
           DType::UInt32, DType::UInt64>(op, x.dtype(), [&]<typename T>() {
    const stored<T>* p = x.data<stored<T>>();
    InterruptCounter interrupts(kPerLook);
    std::stable_sort(first, first + count, [&](int64_t a, int64_t b) {
      interrupts.add(16);  // mostly the first elements differ already
      for (int64_t i = 0; i < length; ++i) {
        const auto u = order_key(p[a * length + i]), v = order_key(p[b * length + i]);
        if (u != v) return u < v;
      }
      return false;
    });
  });
}

const bool registered = [] {
  SortLoops& loops = sort_loops(DeviceType::CPU);
  loops.sort_slices = sort_slices;
  loops.run_starts = run_starts;
  loops.first_of_runs = first_of_runs;
  return true;
}();

}  // namespace
}  // namespace rush
