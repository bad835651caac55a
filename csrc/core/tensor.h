// tensor.h: the tensor: a counted pointer to {storage, sizes, strides, offset, dtype, device,
// autograd, Python object}.
//
// - The tensor does not know autograd: it carries one opaque pointer (AutogradMeta), null until
//   somebody needs it.
// - The version counter counts in-place writes. Views and detach() share it, so it is an object of
// its own, made when
//   first needed: a result that is never written to nor viewed has none.
// - `py_object` belongs to the bindings; see Note [One Python object a tensor] in
// bindings/tensor/tensor_object.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/device.h"
#include "core/dtype.h"
#include "core/export.h"
#include "core/intrusive.h"
#include "core/scalar.h"
#include "core/shape.h"
#include "core/source.h"
#include "core/storage.h"

namespace rush {

class Tensor;

struct AutogradMeta {
  // The tensor is gone. Whatever hangs on this is freed without recursion.
  virtual void dispose() noexcept = 0;

 protected:
  ~AutogradMeta() = default;
};

class VersionCounter : public Counted<VersionCounter> {
 public:
  uint32_t count() const { return count_.load(std::memory_order_acquire); }
  void bump(const char* writer) {
    writer_.store(writer, std::memory_order_relaxed);
    written_at_.store(source_here(), std::memory_order_relaxed);
    count_.fetch_add(1);  // sequentially consistent: see Note [Watched storages]
  }
  // The op that wrote last, or null, and where the user called it.
  const char* writer() const { return writer_.load(std::memory_order_relaxed); }
  SourcePoint written_at() const { return written_at_.load(std::memory_order_relaxed); }
  static void destroy(VersionCounter* v) noexcept { delete v; }

 private:
  std::atomic<uint32_t> count_{0};
  std::atomic<const char*> writer_{nullptr};
  std::atomic<SourcePoint> written_at_{};
};

class RUSH_API TensorImpl : public Counted<TensorImpl> {
 public:
  enum Flag : uint8_t {
    kContiguous = 1,    // row-major without gaps
    kWrapped = 2,       // a Python number that became a 0-d tensor: weak in promotion
    kOwnsPyObject = 4,  // the tensor keeps its Python wrapper alive, not the other way round
    kInference = 8,     // made under inference_mode
    kNoGradView = 16,   // a view made while grad mode was off
    kRetainsGrad = 32,  // its node remembers it by a plain pointer
    kRecorded = 64,     // arranged while a CUDA graph was recorded, see core/layout.h
  };

  Dims sizes, strides;
  Ref<Storage> storage;      // null only while `arranged` is not
  Ref<TensorImpl> arranged;  // see Note [Layout is ours] in core/layout.h
  int64_t offset = 0;        // in elements
  int64_t numel = 0;
  AutogradMeta* autograd = nullptr;  // owned
  Ref<VersionCounter> version;
  Ref<TensorImpl> base;      // what this one is a view of (never itself a view), or null
  Ref<TensorImpl> physical;  // vmap: the tensor, one dimension larger, that this one stands for
  void* py_object = nullptr;
  // Why gradients do not flow through this tensor although they did before: the op, or grad mode,
  // that cut it (or what it was computed from) off the graph, and where. Null: nothing did.
  const char* cut_by = nullptr;
  SourcePoint cut_at;
  DType dtype = DType::Float32;
  Device device;
  uint8_t flags = 0;
  uint16_t vmap_level = 0;  // vmap: whose samples dimension 0 of `physical` counts; 0: no wrapper

  bool has(Flag f) const { return flags & f; }
  bool seen_by_pointers() const { return flags & (kRetainsGrad | kRecorded); }
  void set(Flag f, bool on) { flags = on ? flags | f : flags & ~f; }

  static TensorImpl* create();  // from a thread-local free list
  static void destroy(TensorImpl* t) noexcept;

 private:
  TensorImpl() = default;
  ~TensorImpl() = default;
};

// Gives an arranged tensor contiguous storage. See Note [Layout is ours] in core/layout.h.
[[gnu::cold]] RUSH_API void materialize(TensorImpl* t);

class RUSH_API Tensor {
 public:
  Tensor() = default;  // undefined: stands for "no tensor"
  explicit Tensor(Ref<TensorImpl> impl) : impl_(std::move(impl)) {}

  bool defined() const { return bool(impl_); }
  TensorImpl* impl() const { return impl_.get(); }
  const Ref<TensorImpl>& ref() const { return impl_; }
  TensorImpl* detach_impl() && { return impl_.detach(); }  // gives up its count
  bool is_same(const Tensor& o) const { return impl_ == o.impl_; }

  DType dtype() const { return impl_->dtype; }
  Device device() const { return impl_->device; }
  bool is_cpu() const { return impl_->device.is_cpu(); }
  bool is_cuda() const { return impl_->device.is_cuda(); }
  bool is_meta() const { return impl_->device.is_meta(); }
  const Dims& sizes() const { return impl_->sizes; }
  const Dims& strides() const { return impl_->strides; }
  int64_t dim() const { return impl_->sizes.size(); }
  int64_t numel() const { return impl_->numel; }
  int64_t size(int64_t d) const { return impl_->sizes[wrap_dim("size", d, dim())]; }
  int64_t stride(int64_t d) const { return impl_->strides[wrap_dim("stride", d, dim())]; }
  int64_t offset() const { return impl_->offset; }
  int64_t element_size() const { return rush::element_size(dtype()); }
  int64_t nbytes() const { return numel() * element_size(); }
  const Ref<Storage>& storage() const {
    if (!impl_->storage.load()) [[unlikely]]
      materialize(impl_.get());
    return impl_->storage;
  }
  bool is_contiguous() const { return impl_->has(TensorImpl::kContiguous); }
  bool is_contiguous(MemoryFormat format) const;
  // Images (4-d or 5-d) whose channels lie last. Those that lie contiguous as well do not count.
  bool is_channels_last() const {
    return !is_contiguous() && rush::is_channels_last(sizes(), strides());
  }
  bool is_wrapped_number() const { return impl_->has(TensorImpl::kWrapped); }
  bool is_floating() const { return rush::is_floating(dtype()); }
  bool is_complex() const { return rush::is_complex(dtype()); }
  // Stands for many samples inside vmap, and has no memory of its own. See ops/vmap/vmap.h.
  bool is_batched() const { return impl_->vmap_level != 0; }
  MemoryFormat suggest_memory_format() const;

  // The first element's address. For kernels; callers that may write have checked read_only, and
  // say so afterwards by bump_version(); whoever hands the address out exposes the storage.
  void* data() const {
    return static_cast<char*>(storage()->data()) + impl_->offset * element_size();
  }
  template <class T>
  T* data() const {
    return static_cast<T*>(data());
  }
  // The one element of a one-element tensor; on a GPU it waits for it.
  Scalar item() const;

  uint32_t version() const {
    const VersionCounter* v = impl_->version.load();
    return v ? v->count() : 0;
  }
  const Ref<VersionCounter>& version_counter() const;  // made on first use
  void bump_version(const char* writer) const;

  // A tensor over the same storage, with its own geometry. Shares the version counter.
  Tensor alias(IntList sizes, IntList strides, int64_t offset) const;
  Tensor alias() const { return alias(sizes(), strides(), offset()); }

  // C++ programs call ops as methods; the library itself does not, and need not be compiled again
  // when the table gains one. See Note [Methods of tensors] in frontend/tensor.h.
#ifdef RUSH_TENSOR_METHODS
#include RUSH_TENSOR_METHODS
#endif

 private:
  Ref<TensorImpl> impl_;
};

static_assert(sizeof(Tensor) == sizeof(void*));

// Uninitialised memory of this geometry; the one place where results are born.
RUSH_API Tensor make_tensor(IntList sizes, DType dtype, Device device = {});
RUSH_API Tensor make_tensor(IntList sizes, IntList strides, DType dtype, Device device);
// A tensor over given storage.
RUSH_API Tensor make_tensor(Ref<Storage> storage, IntList sizes, IntList strides, int64_t offset,
                            DType dtype);
// A number as a 0-d CPU tensor that is weak in promotion (see result_type).
RUSH_API Tensor wrap_number(const Scalar& s);
// A 0-d tensor of a given type.
RUSH_API Tensor scalar_tensor(const Scalar& s, DType dtype, Device device = {});
// Writes one number into every element of a CPU tensor's first element; used for 0-d results.
RUSH_API void store_scalar(void* p, DType dtype, const Scalar& s);
RUSH_API Scalar load_scalar(const void* p, DType dtype);

// Gives `t` a new geometry over its own storage, growing the storage if needed (resize_, out=).
RUSH_API void set_geometry(const Tensor& t, IntList sizes, IntList strides, int64_t offset);
RUSH_API void resize(const Tensor& t, IntList sizes,
                     MemoryFormat format = MemoryFormat::Contiguous);

// PyTorch's result_type: dimensioned tensors before 0-d ones before numbers, by category.
class ResultType {
 public:
  void add(const Tensor& t);
  void add(const Scalar& s);
  DType get() const;

 private:
  std::optional<DType> dim_, zero_, wrapped_;
};
RUSH_API DType result_type(const Tensor& a, const Tensor& b);

// Which elements do two tensors share? Unknown: the geometries are too wild to tell.
enum class Overlap : uint8_t { No, Full, Partial, Unknown };
RUSH_API Overlap overlap(const Tensor& a, const Tensor& b);
RUSH_API bool has_internal_overlap(const Tensor& t);  // two indices, one address: expanded tensors

// Hooks the bindings install so that the core can drop a Python wrapper without knowing Python.
struct HostHooks {
  // The last count of a tensor that owns its wrapper has gone. The wrapper owns the tensor again,
  // and both go when Python lets go of the wrapper: at once, unless somebody found it meanwhile.
  void (*return_to_wrapper)(TensorImpl* t) noexcept = nullptr;
};
RUSH_API HostHooks& host_hooks();

}  // namespace rush
