// Joining and splitting tensors.
#include "device/copy.h"
#include "device/deferred.h"
#include "ops/framework/data.h"
#include "ops/framework/op.h"
#include "ops/framework/operators.h"

namespace rush {
namespace {

// By old custom an empty 1-d tensor joins with anything and adds nothing.
bool is_legacy_empty(const Tensor& t) { return t.dim() == 1 && t.numel() == 0; }

DType joined_type(TensorList tensors) {
  ResultType r;
  for (const Tensor& t : tensors) r.add(t);
  return r.get();
}

}  // namespace

// cat with the extent of each tensor along dim, which the gradient needs of all of them.
struct Join {
  static constexpr bool takes_float8 = true;
  static constexpr const char* name = "cat";
  static constexpr bool any_layout = true;

  static Spec check(TensorList tensors, int64_t dim, IntList) {
    rush::check(!tensors.empty(), ErrorKind::Argument, name,
                "expected a non-empty list of tensors");
    const Tensor* first = nullptr;
    for (const Tensor& t : tensors) {
      rush::check(t.dim() > 0, ErrorKind::Runtime, name, "a 0-d tensor (at position ",
                  int64_t(&t - tensors.data()), ") cannot be concatenated; use stack()");
      if (!first && !is_legacy_empty(t)) first = &t;
    }
    if (!first) first = &tensors[0];
    const int64_t d = wrap_dim(name, dim, first->dim());
    Spec spec{first->sizes(), joined_type(tensors), first->device()};
    spec.sizes[size_t(d)] = 0;
    for (const Tensor& t : tensors) {
      rush::check(t.device() == spec.device, ErrorKind::Device, name,
                  "all tensors must be on one device, got ", spec.device, " and ", t.device());
      if (is_legacy_empty(t) && first->dim() != 1) continue;
      check_same_shape(*first, t, d, int64_t(&t - tensors.data()));
      spec.sizes[size_t(d)] += t.sizes()[size_t(d)];
    }
    bool channels_last = first->suggest_memory_format() != MemoryFormat::Contiguous;
    for (const Tensor& t : tensors)
      channels_last = channels_last && t.suggest_memory_format() != MemoryFormat::Contiguous;
    if (channels_last) spec.strides = channels_last_strides(spec.sizes);
    return spec;
  }

  static constexpr bool any_device = true;
  // In a compiled function two halves, as rotary embeddings turn them, join the steps around them. Rows of tables
  // are left where they wait: see joins_lookups.
  static bool may_wait(TensorList tensors, int64_t, IntList) {
    if (tensors.empty() || !fused_loops(tensors[0]).joins) return false;
    const bool is_half =
        tensors.size() == 2 && is_floating(tensors[0].dtype()) && !is_float8(tensors[0].dtype());
    return is_half || std::ranges::any_of(tensors, deferred::is_lookup);
  }
  static void run(TensorList tensors, int64_t dim, IntList, const Tensor& out) {
    const int64_t d = wrap_dim(name, dim, out.dim());
    if (t_modes & kDefer && joins_lookups(tensors, d, out)) return;
    if (is_unborn(out)) {
      if (tensors.size() == 2 && deferred::queue_join(tensors[0], tensors[1], d, out)) return;
      give_storage(out.impl());
    }
    copy_loops(out).cat(tensors, d, out);
  }

  static Grads grad(const Ctx& c, const Tensor& g, TensorList, int64_t dim, IntList extents) {
    const int64_t d = wrap_dim(name, dim, g.dim());
    Grads grads(c.inputs());
    int64_t at = 0;
    for (size_t i = 0; i < c.inputs(); ++i) {
      if (c.wants(i)) {
        const bool copied =
            !grad_enabled() && is_laid_out_otherwise(g) && c.sizes(i).size() == g.sizes().size();
        grads[i] = copied ? part_of_arranged(g, d, at, extents[i])
                          : reshape(slice(g, d, at, at + extents[i], 1), c.sizes(i));
      }
      at += extents[i];
    }
    return grads;
  }

 private:
  // Rows that are still to be looked up are written to their places here; what else there is is copied.
  [[gnu::noinline, gnu::cold]] static bool joins_lookups(TensorList tensors, int64_t d,
                                                         const Tensor& out) {
    const auto is_row = [&](const Tensor& t) {
      return t.dim() == out.dim() && t.dtype() == out.dtype();
    };
    if (d != out.dim() - 1 || !is_contiguous(out.sizes(), out.strides()) ||
        !std::ranges::all_of(tensors, is_row) || std::ranges::none_of(tensors, deferred::is_lookup))
      return false;
    give_storage(out.impl());
    int64_t at = out.offset();
    for (const Tensor& t : tensors) {
      const Tensor place = out.alias(t.sizes(), out.strides(), at);
      if (deferred::is_lookup(t))
        deferred::look_up_into(t, place);
      else
        copy_data(place, t);
      at += t.sizes().back();
    }
    return true;
  }
  // A slice of an arranged tensor, arranged: a view would have to materialize it.
  static Tensor part_of_arranged(const Tensor& g, int64_t d, int64_t at, int64_t extent) {
    const Tensor form = arranged_form(g);
    Dims sizes = g.sizes();
    sizes[size_t(d)] = extent;
    const Tensor part =
        form.alias(sizes, form.strides(), form.offset() + at * form.strides()[size_t(d)]);
    return arrange(clone_data(part));
  }
  static void check_same_shape(const Tensor& first, const Tensor& t, int64_t d, int64_t position) {
    bool same = t.dim() == first.dim();
    for (int64_t i = 0; same && i < t.dim(); ++i)
      same = i == d || t.sizes()[size_t(i)] == first.sizes()[size_t(i)];
    check_shape(same, name, "sizes must match except along dim ", d, ": tensor 0 has shape ",
                first.sizes(), ", tensor ", position, " has shape ", t.sizes());
  }
};

struct Cat {
  static constexpr const char* name = "cat";
  static constexpr bool refuses_sharing = true;
  static Tensor call(TensorList tensors, int64_t dim) {
    check(!tensors.empty(), ErrorKind::Argument, name, "expected a non-empty list of tensors");
    int64_t rank = 1;
    for (const Tensor& t : tensors) rank = std::max(rank, t.dim());
    const int64_t d = wrap_dim(name, dim, rank);
    SmallVector<int64_t, 16> extents;
    for (const Tensor& t : tensors)
      extents.push_back(d < t.dim() && !(is_legacy_empty(t) && rank > 1) ? t.sizes()[size_t(d)]
                                                                         : 0);
    return join(tensors, d, IntList(extents.data(), extents.size()));
  }
};

// stack with a dim that is counted from the front.
struct Pile {
  static constexpr bool takes_float8 = true;
  static constexpr const char* name = "stack";

  // Before the last dim, the layout is that of cat along the dim that is there, which is then split.
  static Spec check(TensorList tensors, int64_t dim) {
    Spec spec{tensors[0].sizes(), joined_type(tensors), tensors[0].device()};
    bool channels_last = dim < tensors[0].dim();
    for (const Tensor& t : tensors) {
      rush::check(t.device() == spec.device, ErrorKind::Device, name,
                  "all tensors must be on one device, got ", spec.device, " and ", t.device());
      check_shape(t.sizes() == tensors[0].sizes(), name,
                  "all tensors must have the same shape: tensor 0 has ", tensors[0].sizes(),
                  ", tensor ", int64_t(&t - tensors.data()), " has ", t.sizes());
      channels_last = channels_last && t.suggest_memory_format() != MemoryFormat::Contiguous;
    }
    const int64_t count = int64_t(tensors.size());
    if (channels_last) {
      const int64_t extent = spec.sizes[size_t(dim)];
      spec.sizes[size_t(dim)] = extent * count;
      spec.strides = channels_last_strides(spec.sizes);
      spec.sizes[size_t(dim)] = extent;
      spec.strides.insert(uint32_t(dim), spec.strides[size_t(dim)] * extent);
    }
    spec.sizes.insert(uint32_t(dim), count);
    return spec;
  }

  static constexpr bool any_device = true;
  static void run(TensorList tensors, int64_t dim, const Tensor& out) {
    std::vector<Tensor> rows;
    rows.reserve(tensors.size());
    for (const Tensor& t : tensors) {
      Dims sizes = t.sizes(), strides = t.strides();
      sizes.insert(uint32_t(dim), 1);
      strides.insert(uint32_t(dim), 1);
      rows.push_back(t.alias(sizes, strides, t.offset()));
    }
    copy_loops(out).cat(rows, dim, out);
  }

  static Grads grad(const Ctx& c, const Tensor& g, TensorList, int64_t dim) {
    Grads grads(c.inputs());
    for (size_t i = 0; i < c.inputs(); ++i) {
      if (c.wants(i)) grads[i] = select(g, dim, int64_t(i));
    }
    return grads;
  }
};

struct Stack {
  static constexpr const char* name = "stack";
  static constexpr bool refuses_sharing = true;
  static Tensor call(TensorList tensors, int64_t dim) {
    check(!tensors.empty(), ErrorKind::Argument, name, "expected a non-empty list of tensors");
    return pile(tensors, wrap_dim(name, dim, tensors[0].dim() + 1));
  }
};

}  // namespace rush

#include "ops/cat.inc"
