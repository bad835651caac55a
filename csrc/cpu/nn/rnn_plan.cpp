#include "cpu/nn/rnn_plan.h"

#include "cpu/isa_table.h"

namespace rush {

template <class T>
const RnnTable<T>& rnn_kernels() {
  return kernels_in_use([]<Isa isa>() { return rnn_table<isa, T>(); });
}
template const RnnTable<float>& rnn_kernels();
template const RnnTable<double>& rnn_kernels();

template <class T>
RnnWeight<T>::RnnWeight(const T* from, int64_t gates, int64_t units, int64_t depth,
                        int64_t unit_stride, int64_t depth_stride, bool packed)
    : from_(from),
      gates_(gates),
      units_(units),
      depth_(depth),
      unit_stride_(unit_stride),
      depth_stride_(depth_stride),
      lanes_(rnn_kernels<T>().lanes),
      wide_(2 * lanes_),
      packed_(packed),
      panels_(packed ? gates * ((units + wide_ - 1) / wide_) * wide_ * depth : 0) {
  if (!packed) return;
  const int64_t grain =
      std::max<int64_t>(1, (1 << 17) / std::max<int64_t>(1, gates * wide_ * depth));
  parallel_for(blocks(), grain, [&](int64_t block, int64_t end) {
    for (; block < end; ++block) {
      T* to = panels_.get() + gates_ * depth_ * begin(block);
      for (int64_t g = 0; g < gates_; ++g, to += depth_ * width(block))
        rnn_kernels<T>().pack(this->units(block), depth_,
                              from_ + (g * units_ + begin(block)) * unit_stride_, unit_stride_,
                              depth_stride_, width(block), to);
    }
  });
}

template <class T>
void RnnWeight<T>::multiply(int64_t block, int64_t gate, int64_t gates, int64_t rows, const T* a,
                            int64_t a_row, T* c, int64_t c_row, bool accumulate) const {
  if (rows == 0) return;
  if (!packed_) {
    const Matrix<const T> b{from_ + gate * units_ * unit_stride_, depth_stride_, unit_stride_};
    return Multiply<T>::product({rows,
                                 gates * units_,
                                 depth_,
                                 {a, a_row, 1},
                                 b,
                                 {c, c_row, 1},
                                 T(1),
                                 accumulate ? T(1) : T(0)});
  }
  const int64_t w = width(block);
  const T* panels = panels_.get() + depth_ * (gates_ * begin(block) + gate * w);
  rnn_kernels<T>().product(
      {rows, depth_, a, a_row, panels, gates, w / lanes_, c, c_row, w, accumulate});
}

template class RnnWeight<float>;
template class RnnWeight<double>;

template <class T>
RnnSplit split_rnn(const RnnLayer& layer, const RnnSteps& steps, const RnnWeight<T>& weight) {
  // Multiply-adds of a step that are worth a thread, in spite of the wait at its end: about 3 us.
  constexpr int64_t kWorkPerThread = 1 << 17;
  constexpr int64_t kFewest = 8;  // sequences a thread should have, to make use of the weights
  constexpr int64_t kMost = 96;   // sequences whose states stay in the second-level cache
  const int64_t batch = layer.batch();
  const int64_t step = layer.w_state.numel() * batch;
  const int64_t threads = in_parallel_region() ? 1 : num_threads();
  RnnSplit split{{0, batch}, weight.packed() ? kMost : batch, false};
  // Without panels the library that multiplies has its own way with threads.
  if (threads == 1 || !weight.packed() || step * steps.count() < 4 * kWorkPerThread) return split;
  const int64_t by_batch = std::clamp<int64_t>(batch / kFewest, 1, threads);
  const int64_t by_units = std::min({threads, weight.blocks(), step / kWorkPerThread});
  if (by_units > by_batch) {
    split.share_units = true;
    return split;
  }
  // The first sequences are the longest: equal shares of steps, not of sequences.
  std::vector<int64_t> lengths(size_t(batch), 0);
  int64_t total = 0, done = 0;
  for (const int64_t n : steps.active) {
    total += n;
    for (int64_t b = 0; b < n; ++b) ++lengths[size_t(b)];
  }
  split.bounds.pop_back();
  for (int64_t b = 0; b < batch; ++b) {
    done += lengths[size_t(b)];
    if (done * by_batch >= total * int64_t(split.bounds.size())) split.bounds.push_back(b + 1);
  }
  if (split.bounds.back() != batch) split.bounds.push_back(batch);
  return split;
}
template RnnSplit split_rnn(const RnnLayer&, const RnnSteps&, const RnnWeight<float>&);
template RnnSplit split_rnn(const RnnLayer&, const RnnSteps&, const RnnWeight<double>&);

}  // namespace rush
