// attention.cpp: heads and blocks of queries shared out among the threads; the loops themselves
// stand in kernels/attention.cpp.
#include "device/nn/attention.h"

#include <algorithm>

#include "core/threads.h"
#include "cpu/isa_table.h"
#include "cpu/kernels/attention_tables.h"

namespace rush {

namespace {

// Multiply-adds that are worth a thread of their own; one key's element costs as much as eight of
// them to bring from memory.
constexpr double kWorkPerThread = 64 * 64 * 64;
constexpr int64_t kLeastPerElement = 8;
// With fewer heads than this the keys of a head are cut too, for backward. A fixed number: what
// comes out must not depend on the number of threads.
constexpr int64_t kManyHeads = 16, kMostParts = 8;

template <class T>
const AttentionTable<T>& kernels() {
  return kernels_in_use([]<Isa isa>() { return attention_table<isa, T>(); });
}

template <class F>
void for_type(DType t, F&& f) {
  dispatch<DType::Float32, DType::Float64, DType::BFloat16, DType::Float16>("attention", t,
                                                                            std::forward<F>(f));
}

template <class A>
class Scratch {
 public:
  explicit Scratch(int64_t count)
      : storage_(Storage::allocate({}, size_t(std::max<int64_t>(count, 1)) * sizeof(A))) {}
  A* get() const { return static_cast<A*>(storage_->data()); }

 private:
  Ref<Storage> storage_;
};

int64_t leading_count(const Tensor& t) {
  return numel(IntList(t.sizes()).first(size_t(t.dim() - 2)));
}

// Where head `index` of t starts, in elements from t's first one.
int64_t head_offset(const Tensor& t, int64_t index) {
  int64_t offset = 0;
  for (int64_t d = t.dim() - 3; d >= 0; --d) {
    const int64_t n = t.sizes()[size_t(d)];
    offset += index % n * t.strides()[size_t(d)];
    index /= n;
  }
  return offset;
}
template <class T>
Rows<T> rows_of(const Tensor& t, int64_t head) {
  using Plain = std::remove_const_t<T>;
  return {t.data<Plain>() + head_offset(t, head), t.strides()[size_t(t.dim() - 2)]};
}

AttentionShape shape_of(const AttentionOptions& o, const Tensor& q, const Tensor& k,
                        int64_t value_width, const Tensor& mask) {
  const size_t d = size_t(q.dim() - 2);
  const MaskKind kind = !mask.defined()               ? MaskKind::None
                        : mask.dtype() == DType::Bool ? MaskKind::Bool
                                                      : MaskKind::Additive;
  return {q.sizes()[d],
          k.sizes()[d],
          q.sizes()[d + 1],
          value_width,
          o.scale,
          o.before,
          o.causal ? std::min<int64_t>(o.after, 0) : o.after,
          o.dropout,
          o.call,
          kind};
}

// The heads of a call, numbered as those of q.
template <class T>
struct Heads {
  const Tensor &q, &k, &v, &mask;
  int64_t count = leading_count(q), key_count = leading_count(k);
  int64_t group = key_count > 0 ? count / key_count : 1;

  AttentionHead<T> at(int64_t i) const {
    AttentionHead<T> h{i, rows_of<const T>(q, i), rows_of<const T>(k, i / group), {}, nullptr, 0,
                       0};
    if (v.defined()) h.v = rows_of<const T>(v, i / group);
    if (!mask.defined()) return h;
    const int64_t item = mask.element_size();
    h.mask = static_cast<const char*>(mask.data()) + head_offset(mask, i) * item;
    h.mask_row = mask.strides()[size_t(mask.dim() - 2)];
    h.mask_col = mask.strides()[size_t(mask.dim() - 1)];
    return h;
  }
};

int64_t blocks_worth_a_thread(const AttentionShape& s, int64_t block) {
  const double work =
      double(std::max(block, kLeastPerElement)) * double(s.keys) * double(s.width + s.value_width);
  return std::max<int64_t>(1, int64_t(kWorkPerThread / std::max(work, 1.0)));
}

void attention_cpu(const AttentionOptions& o, const Tensor& q, const Tensor& k, const Tensor& v,
                   const Tensor& mask, const Tensor& out, const Tensor& lse) {
  const AttentionShape s = shape_of(o, q, k, v.sizes().back(), mask);
  for_type(q.dtype(), [&]<typename T>() {
    using A = Accumulator<T>;
    const AttentionTable<T>& run = kernels<T>();
    const Heads<T> heads{q, k, v, mask};
    const int64_t step = run.block_queries, blocks = (s.queries + step - 1) / step;
    // Neighbouring blocks belong to one head, whose keys and values are packed once per thread.
    parallel_for(heads.count * blocks, blocks_worth_a_thread(s, std::min(step, s.queries)),
                 [&](int64_t begin, int64_t end) {
                   const Scratch<A> packed(run.forward_packed(s)), scratch(run.forward_scratch(s));
                   int64_t packed_head = -1;
                   for (int64_t i = begin; i < end; ++i) {
                     const int64_t head = i / blocks, first = i % blocks * step;
                     const AttentionHead<T> h = heads.at(head);
                     if (run.packs(s) && packed_head != head / heads.group) {
                       run.forward_pack(s, h.k, h.v, packed.get());
                       packed_head = head / heads.group;
                     }
                     run.forward(s, h, first, std::min(first + step, s.queries), packed.get(),
                                 scratch.get(), rows_of<T>(out, head),
                                 lse.data<A>() + head * s.queries);
                   }
                 });
  });
}

void attention_backward_cpu(const AttentionOptions& o, const Tensor& g, const Tensor& q,
                            const Tensor& k, const Tensor& v, const Tensor& mask, const Tensor& out,
                            const Tensor& lse, const Tensor& gq, const Tensor& gk,
                            const Tensor& gv) {
  const AttentionShape s = shape_of(o, q, k, v.sizes().back(), mask);
  for_type(q.dtype(), [&]<typename T>() {
    using A = Accumulator<T>;
    const AttentionTable<T>& run = kernels<T>();
    const Heads<T> heads{q, k, v, mask};
    const int64_t key_blocks = (s.keys + run.block_keys - 1) / run.block_keys;
    const int64_t parts =
        heads.key_count >= kManyHeads ? 1 : std::clamp<int64_t>(key_blocks, 1, kMostParts);
    const int64_t part_keys = (key_blocks + parts - 1) / parts * run.block_keys;
    // Each part of the keys has a share of its own in the queries' gradients.
    const int64_t q_numel = heads.count * s.queries * s.width;
    const Scratch<A> shares(parts > 1 ? parts * q_numel : 0);
    parallel_for(heads.key_count * parts, blocks_worth_a_thread(s, s.queries * heads.group),
                 [&](int64_t begin, int64_t end) {
                   const Scratch<A> packed(run.backward_packed(s, std::min(part_keys, s.keys))),
                       scratch(run.backward_scratch(s));
                   for (int64_t i = begin; i < end; ++i) {
                     const int64_t key_head = i / parts, part = i % parts;
                     const int64_t first = std::min(part * part_keys, s.keys),
                                   last = std::min(first + part_keys, s.keys);
                     run.backward_pack(s, rows_of<const T>(k, key_head),
                                       rows_of<const T>(v, key_head), first, last, packed.get());
                     for (int64_t j = 0; j < heads.group; ++j) {
                       const int64_t head = key_head * heads.group + j;
                       A* share = parts > 1
                                      ? shares.get() + part * q_numel + head * s.queries * s.width
                                      : nullptr;
                       run.backward(s, heads.at(head),
                                    {rows_of<const T>(g, head), rows_of<const T>(out, head),
                                     lse.data<A>() + head * s.queries, rows_of<T>(gq, head), share},
                                    first, last, packed.get(), scratch.get());
                     }
                     run.finish(s, first, last, packed.get(), rows_of<T>(gk, key_head),
                                rows_of<T>(gv, key_head));
                   }
                 });
    if (parts == 1) return;
    const int64_t rows = heads.count * s.queries;
    parallel_for(rows, std::max<int64_t>(1, 32768 / std::max<int64_t>(1, s.width * parts)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     A* sum = shares.get() + i * s.width;
                     for (int64_t p = 1; p < parts; ++p) {
                       const A* more = sum + p * q_numel;
                       for (int64_t e = 0; e < s.width; ++e) sum[e] += more[e];
                     }
                     run.narrow(s.width, sum, rows_of<T>(gq, i / s.queries).at(i % s.queries));
                   }
                 });
  });
}

void attention_weights_cpu(const AttentionOptions& o, const Tensor& q, const Tensor& k,
                           const Tensor& mask, const Tensor& lse, bool average, const Tensor& to) {
  const AttentionShape s = shape_of(o, q, k, 0, mask);
  for_type(q.dtype(), [&]<typename T>() {
    using A = Accumulator<T>;
    const AttentionTable<T>& run = kernels<T>();
    const Tensor none;
    const Heads<T> heads{q, k, none, mask};
    const int64_t step = run.block_queries, blocks = (s.queries + step - 1) / step;
    const int64_t merged = average ? q.sizes()[size_t(q.dim() - 3)] : 1;
    const int64_t results = heads.count / std::max<int64_t>(1, merged), size = s.queries * s.keys;
    parallel_for(results * blocks, blocks_worth_a_thread(s, std::min(step, s.queries) * merged),
                 [&](int64_t begin, int64_t end) {
                   const Scratch<A> packed(run.forward_packed(s)), scratch(run.forward_scratch(s));
                   while (begin < end) {  // the blocks of one result, head after head
                     const int64_t result = begin / blocks,
                                   stop = std::min(end, (result + 1) * blocks);
                     const Rows<A> rows{to.data<A>() + result * size, s.keys};
                     for (int64_t j = 0; j < merged; ++j) {
                       const int64_t head = result * merged + j;
                       const AttentionHead<T> h = heads.at(head);
                       if (run.packs(s)) run.forward_pack(s, h.k, h.k, packed.get());
                       for (int64_t i = begin; i < stop; ++i) {
                         const int64_t first = i % blocks * step;
                         run.weights(s, h, first, std::min(first + step, s.queries), packed.get(),
                                     scratch.get(), lse.data<A>() + head * s.queries,
                                     A(1) / A(merged), j > 0, rows);
                       }
                     }
                     begin = stop;
                   }
                 });
  });
}

void attention_kept_cpu(const AttentionOptions& o, const Tensor& to) {
  const size_t d = size_t(to.dim() - 2);
  const AttentionShape s{to.sizes()[d], to.sizes()[d + 1], 0,         0,      o.scale,
                         o.before,      o.after,           o.dropout, o.call, MaskKind::None};
  const auto fill = [&]<typename T>() {
    parallel_for(leading_count(to) * s.queries, std::max<int64_t>(1, 4096 / (s.keys + 1)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i)
                     kernels<T>().kept(s, i / s.queries, i % s.queries, s.keys,
                                       to.data<T>() + i * s.keys);
                 });
  };
  dispatch<DType::Float32, DType::Float64>("attention", to.dtype(), fill);
}

const bool registered = [] {
  AttentionLoops& loops = attention_loops(DeviceType::CPU);
  loops.takes = [](const AttentionCase& c) { return (c.backends & kFlashAttention) != 0; };
  loops.forward = attention_cpu;
  loops.backward = attention_backward_cpu;
  loops.weights = attention_weights_cpu;
  loops.kept = attention_kept_cpu;
  loops.knows_windows = true;
  return true;
}();

}  // namespace
}  // namespace rush
