// The batching rules, by class of op; see Note [Batched tensors] in vmap.h. In all of them a
// physical tensor has its samples in dimension 0.
#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "ops/framework/operators.h"
#include "ops/vmap/vmap.h"
#include "ops/vmap/vmap_rules.h"

namespace rush::batch {

// --- elementwise ---------------------------------------------------------------------------------

static int64_t largest_rank(const BatchedCall& c) {
  int64_t rank = 0;
  for (size_t i = 0; i < c.count(); ++i) {
    if (c.is_tensor(i)) rank = std::max(rank, c.logical(i).dim());
  }
  return rank;
}

// Samples side by side; a batched number of a lower category takes the dtype `weak_as`.
static void align_samples(BatchedCall& c, std::optional<DType> weak_as) {
  const int64_t rank = largest_rank(c);
  if (c.in_place())  // other forms may begin with a number, as polygamma does
    check_shape(rank == c.logical(0).dim(), c.entry.name,
                "in place, the result has more dimensions than self of shape ",
                c.logical(0).sizes());
  for (size_t i = 0; i < c.count(); ++i) {
    if (!c.is_tensor(i) || !c.is_batched(i)) continue;
    Tensor p = c.physical(i);
    if (weak_as && c.logical(i).dim() == 0 && category(p.dtype()) <= category(*weak_as) &&
        p.dtype() != *weak_as)
      p = cast(p, *weak_as);
    c.set(i, padded(p, rank));
  }
  c.run();
}

void align(BatchedCall& c) { align_samples(c, std::nullopt); }

// A sample of a 0-d tensor is weak in promotion, though its physical tensor has a dimension.
static void promoted(BatchedCall& c, bool has_condition) {
  ResultType common;
  bool any_weak = false, mixed = false;
  std::optional<DType> first;
  for (size_t i = has_condition ? 1 : 0; i < c.count(); ++i) {
    if (!c.is_tensor(i)) continue;
    const Tensor& t = c.logical(i);
    common.add(t);
    any_weak |= c.is_batched(i) && t.dim() == 0;
    mixed |= first && *first != t.dtype();
    first = t.dtype();
  }
  if (!any_weak || !mixed || largest_rank(c) == 0) return align(c);
  if (has_condition && c.is_batched(0) && c.logical(0).dim() == 0)
    return c.loop();  // the condition must stay what it is
  align_samples(c, common.get());
}

void pointwise(BatchedCall& c) { promoted(c, false); }

// The first argument is a condition, which takes no part in promotion.
void pointwise_by_condition(BatchedCall& c) { promoted(c, true); }

void same(BatchedCall& c) { c.run(); }

// Tensors of the same sizes, which do not broadcast.
void side_by_side(BatchedCall& c) {
  for (size_t i = 0; i < c.count(); ++i) {
    if (c.is_tensor(i)) c.set(i, c.all_samples(i));
  }
  c.run();
}

// A layout asked for one sample says nothing about the physical tensor.
void same_without_format(BatchedCall& c) {
  if (const int i = c.find("memory_format"); i >= 0) c.clear(size_t(i));
  c.run();
}

void made_contiguous(BatchedCall& c) { c.finish(contiguous(c.physical(0))); }

// Composites that read values themselves.
void sample_by_sample(BatchedCall& c) { c.loop(); }

// A mask or counts that all samples share give all of them one shape.
void shaped_by_second(BatchedCall& c) {
  check(!c.is_batched(1), ErrorKind::Runtime, c.entry.name, "the shape of the result depends on ",
        c.entry.args[1].name, ", which differs from sample to sample; vmap cannot batch it");
  c.loop();
}

void refused(BatchedCall& c) {
  fail(ErrorKind::Runtime, c.entry.name,
       "inside vmap a tensor has no memory of its own, so its geometry cannot be set");
}

void data_dependent(BatchedCall& c) {
  fail(ErrorKind::Runtime, c.entry.name,
       "the shape of the result depends on the data, so it differs from sample to sample; vmap "
       "cannot batch it");
}

void filled(BatchedCall& c) {
  if (!c.is_batched(1)) return c.run();
  const Tensor self = c.all_samples(0);
  c.finish(clone(cast(expand(padded(c.physical(1), self.dim() - 1), self.sizes()), self.dtype())));
}

void masked_filled(BatchedCall& c) {
  if (!c.is_batched(2)) return align(c);
  const int64_t rank = std::max(c.logical(0).dim(), c.logical(1).dim());
  auto aligned = [&](size_t i) {
    return c.is_batched(i) ? padded(c.physical(i), rank) : c.logical(i);
  };
  c.finish(where(aligned(1), cast(aligned(2), c.logical(0).dtype()), aligned(0)));
}

// --- dimensions ----------------------------------------------------------------------------------

static bool names_dims(const ArgSpec& a) {
  static const std::unordered_set<std::string_view> names = {
      "dim", "dims", "dim0", "dim1", "dim2", "dimension", "start_dim", "end_dim"};
  return (a.kind == ArgKind::Int || a.kind == ArgKind::Ints) && names.contains(a.name);
}

static Dims all_dims(int64_t rank) {
  Dims out;
  for (int64_t d = 1; d <= rank; ++d) out.push_back(d);
  return out;
}

// The op works along dimensions of self: each moves up by one.
static void shift_arguments(BatchedCall& c, int64_t rank) {
  for (size_t i = 0; i < c.count(); ++i) {
    if (!names_dims(c.entry.args[i])) continue;
    const Value& v = c.given(i);
    if (v.tag() == Value::Tag::Int) {
      c.set(i, wrap_dim(c.entry.name, v.integer(), rank) + 1);
    } else if (v.tag() == Value::Tag::Ints && !v.ints().empty()) {
      Dims dims;
      for (const int64_t d : v.ints()) dims.push_back(wrap_dim(c.entry.name, d, rank) + 1);
      c.set(i, std::move(dims));
    } else if (c.entry.args[i].kind == ArgKind::Ints) {
      c.set(i, all_dims(rank));
    }
  }
}

void along_dims(BatchedCall& c) {
  const int64_t rank = c.logical(0).dim();
  if (rank == 0 || !c.is_batched(0)) return c.loop();
  shift_arguments(c, rank);
  c.run();
}

static Tensor flattened(const BatchedCall& c) {
  return reshape(c.physical(0), Dims{c.size, c.logical(0).numel()});
}

// argmax without a dimension looks at the flattened tensor.
void arg_along_dim(BatchedCall& c) {
  const bool keepdim = c.given(2).boolean();
  if (!c.given(1).is_none() || keepdim) return c.given(1).is_none() ? c.loop() : along_dims(c);
  c.set(0, flattened(c));
  c.set(1, int64_t(1));
  c.run();
}

void median_of_all(BatchedCall& c) { c.finish(std::get<0>(median(flattened(c), 1))); }
void nanmedian_of_all(BatchedCall& c) { c.finish(std::get<0>(nanmedian(flattened(c), 1))); }

void view_dims(BatchedCall& c) {
  const int64_t rank = c.logical(0).dim();
  if (rank == 0) {
    // Dimension 0 of a number: nothing to transpose or squeeze; everything else raises.
    for (size_t i = 0; i < c.count(); ++i) {
      if (names_dims(c.entry.args[i]) && c.given(i).tag() == Value::Tag::Int)
        wrap_dim(c.entry.name, c.given(i).integer(), 0);
    }
    return c.finish(alias(c.physical(0)));
  }
  shift_arguments(c, rank);
  c.run();
}

// The dim is one of the result, which has one more.
void view_new_dim(BatchedCall& c) {
  shift_arguments(c, c.logical(0).dim() + 1);
  c.run();
}

void select_one(BatchedCall& c) {
  const int64_t rank = c.logical(0).dim();
  check(rank > 0, ErrorKind::Index, c.entry.name, "cannot select from a 0-d tensor");
  shift_arguments(c, rank);
  c.run();
}

void squeeze_all(BatchedCall& c) {
  Dims ones;
  for (int64_t d = 0; d < c.logical(0).dim(); ++d) {
    if (c.logical(0).sizes()[size_t(d)] == 1) ones.push_back(d + 1);
  }
  c.finish(ones.empty() ? alias(c.physical(0)) : squeeze(c.physical(0), ones));
}

void squeeze_dims(BatchedCall& c) {
  const int64_t rank = c.logical(0).dim();
  Dims ones;
  for (const int64_t d : c.given(1).ints()) {
    const int64_t w = wrap_dim("squeeze", d, rank);
    if (rank > 0) ones.push_back(w + 1);
  }
  c.finish(ones.empty() ? alias(c.physical(0)) : squeeze(c.physical(0), ones));
}

void permute_dims(BatchedCall& c) {
  const int64_t rank = c.logical(0).dim();
  const IntList given = c.given(1).ints();
  check(int64_t(given.size()) == rank, ErrorKind::Runtime, "permute", "got ", given.size(),
        " dimensions for a tensor that has ", rank);
  Dims dims{0};
  for (const int64_t d : given) dims.push_back(wrap_dim("permute", d, rank) + 1);
  c.set(1, std::move(dims));
  c.run();
}

void reshaped(BatchedCall& c) {
  const Tensor& self = c.logical(0);
  Dims sizes{c.size};
  int64_t known = 1, free = -1;
  for (const int64_t s : c.given(1).ints()) {
    if (s == -1 && free < 0) free = int64_t(sizes.size());
    if (s >= 0) known *= s;
    sizes.push_back(s);
  }
  // With no samples a -1 would have no unique answer.
  if (free >= 0 && known > 0 && self.numel() % known == 0)
    sizes[size_t(free)] = self.numel() / known;
  c.set(1, std::move(sizes));
  c.run();
}

void spread(BatchedCall& c) {
  c.set(1, c.given(1).integer() + 1);
  c.run();
}

void expanded(BatchedCall& c) {
  const IntList sizes = c.given(1).ints();
  const int64_t rank = c.logical(0).dim();
  const auto added = int64_t(sizes.size()) - rank;
  check(added >= 0, ErrorKind::Runtime, "expand", "the sizes given (", sizes,
        ") are fewer than the tensor's dimensions, shape ", c.logical(0).sizes());
  for (int64_t i = 0; i < added; ++i)
    check(sizes[size_t(i)] >= 0, ErrorKind::Runtime, "expand",
          "-1 is not allowed for a new leading dimension");
  c.set(0, padded(c.physical(0), int64_t(sizes.size())));
  c.set(1, with_first(c.size, sizes));
  c.run();
}

void by_geometry(BatchedCall& c) {
  const Tensor p = c.physical(0);
  const bool given = c.count() > 3 && c.given(3).tag() == Value::Tag::Int;
  const int64_t offset = given ? c.given(3).integer() : p.offset();
  const IntList sizes = c.given(1).ints(), strides = c.given(2).ints();
  check(sizes.size() == strides.size(), ErrorKind::Runtime, "as_strided",
        "size and stride must have the same length, got ", sizes, " and ", strides);
  // With its check of how far it reaches, as a sample's own cannot see where its memory ends.
  c.finish(as_strided(p, with_first(c.size, sizes), with_first(p.strides()[0], strides), offset));
}

void new_like(BatchedCall& c) {
  c.set(1, with_first(c.size, c.given(1).ints()));
  c.run();
}

void new_strided(BatchedCall& c) {
  const IntList sizes = c.given(1).ints(), strides = c.given(2).ints();
  int64_t reach = 1;
  for (size_t i = 0; i < sizes.size() && i < strides.size(); ++i)
    reach += std::max<int64_t>(0, sizes[i] - 1) * strides[i];
  c.set(1, with_first(c.size, sizes));
  c.set(2, with_first(reach, strides));
  c.run();
}

// --- joining and indexing ------------------------------------------------------------------------

void joined(BatchedCall& c) {
  std::vector<Tensor> all;
  int64_t rank = 0;
  for (const Tensor& t : c.given(0).tensors()) {
    all.push_back(with_all_samples(t, c.level));
    rank = std::max(rank, t.dim());
  }
  for (size_t i = 0; i < all.size(); ++i) {
    // An empty 1-d tensor joins with anything, by old custom, but not when it has samples.
    if (all[i].dim() - 1 != rank) return c.loop();
  }
  c.set(0, std::move(all));
  c.set(1, wrap_dim("cat", c.given(1).integer(), rank) + 1);
  c.run();
}

void piled(BatchedCall& c) {
  std::vector<Tensor> all;
  for (const Tensor& t : c.given(0).tensors()) all.push_back(with_all_samples(t, c.level));
  c.set(0, std::move(all));
  c.set(1, c.given(1).integer() + 1);
  c.run();
}

// Index, source and self have the same number of dimensions, and all of them their samples.
void all_batched_along_dim(BatchedCall& c) {
  if (c.logical(0).dim() == 0) return c.loop();
  for (size_t i = 0; i < c.count(); ++i) {
    if (!c.is_tensor(i)) continue;
    if (c.logical(i).dim() != c.logical(0).dim()) return c.loop();
    c.set(i, c.all_samples(i));
  }
  shift_arguments(c, c.logical(0).dim());
  c.run();
}

// Self and indices broadcast, so that the one without samples may have a dimension of 1 for them.
void taken_along_dim(BatchedCall& c) {
  if (c.given(2).is_none() || c.logical(0).dim() == 0) return c.loop();
  for (size_t i = 0; i < 2; ++i) {
    if (!c.is_batched(i)) c.set(i, unsqueeze(c.logical(i), 0));
  }
  shift_arguments(c, c.logical(0).dim());
  c.run();
}

void selected(BatchedCall& c) {
  const Tensor& self = c.logical(0);
  const Tensor& index = c.logical(2);
  if (self.dim() == 0 || index.dim() != 1) return c.loop();
  const int64_t dim = wrap_dim("index_select", c.given(1).integer(), self.dim());
  if (!c.is_batched(2)) {
    c.set(1, dim + 1);
    return c.run();
  }
  const int64_t n = index.sizes()[0];
  if (!c.is_batched(0)) {
    const Tensor flat = index_select(self, dim, reshape(c.physical(2), Dims{c.size * n}));
    return c.finish(movedim(unflatten(flat, dim, Dims{c.size, n}), Dims{dim}, Dims{0}));
  }
  Tensor by = c.physical(2);  // [B, n] as [B, 1, ..., n, ..., 1]
  Dims sizes = c.physical(0).sizes();
  for (int64_t d = 0; d < dim; ++d) by = unsqueeze(by, 1);
  while (by.dim() < int64_t(sizes.size())) by = unsqueeze(by, -1);
  sizes[size_t(dim + 1)] = n;
  c.finish(gather(c.physical(0), dim + 1, expand(by, sizes)));
}

// x[indices]. Index tensors meet in one block of dimensions; NumPy's rule puts it where they stand
// when they are neighbours, and first otherwise.
void indexed(BatchedCall& c) {
  const TensorList given = c.given(1).tensors();
  int64_t rank = 0, first = -1, last = -1, used = 0;
  bool neighbours = true;
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i].defined()) continue;
    const bool batched = given[i].impl()->vmap_level == c.level;
    if (given[i].dtype() == DType::Bool) {
      check(!batched, ErrorKind::Runtime, "index",
            "a mask that differs from sample to sample picks a different number of elements in "
            "each; vmap cannot batch it: use where()");
      return c.loop();
    }
    if (first >= 0 && last != int64_t(i) - 1) neighbours = false;
    if (first < 0) first = int64_t(i);
    last = int64_t(i);
    rank = std::max(rank, given[i].dim());
    used += batched;
  }
  const int64_t place = neighbours ? first : 0;  // where the block stands in one sample's result
  std::vector<Tensor> indices;
  if (used == 0) {  // self alone has samples
    indices.emplace_back();
    for (const Tensor& t : given) indices.push_back(t);
    const Tensor out = index(c.physical(0), indices);
    return c.finish(neighbours ? out : movedim(out, Dims{rank}, Dims{0}));
  }
  for (const Tensor& t : given) {
    const bool batched = t.defined() && t.impl()->vmap_level == c.level;
    indices.push_back(batched ? padded(without_batch(t, c.level), rank) : t);
  }
  if (!c.is_batched(0)) {
    const Tensor out = index(c.logical(0), indices);
    return c.finish(movedim(out, Dims{place}, Dims{0}));
  }
  Tensor samples = arange(c.size, std::nullopt, std::nullopt, c.logical(0).device());
  for (int64_t d = 0; d < rank; ++d) samples = unsqueeze(samples, -1);
  indices.insert(indices.begin(), samples);
  const Tensor out = index(c.physical(0), indices);
  // The block [B, I...] now stands first; I... belongs at `place` of the rest.
  Dims from, to;
  for (int64_t d = 0; d < rank; ++d) {
    from.push_back(1 + d);
    to.push_back(1 + place + d);
  }
  c.finish(place == 0 || rank == 0 ? out : movedim(out, from, to));
}

}  // namespace rush::batch
