#include "core/tensor.h"

#include <cstring>
#include <new>

#include "core/batched.h"
#include "core/device_memory.h"
#include "core/layout.h"
#include "core/misaligned.h"
#include "core/modes.h"
#include "core/value_read.h"
#include "functors/stored.h"

namespace rush {

void (*g_forget_batched)(TensorImpl* wrapper) noexcept = nullptr;

namespace {

// Note [Free list of tensor objects]
// A tiny op spends a visible part of its time in making and freeing one TensorImpl, so each thread
// keeps some, linked through their own memory. The list is plain data (no constructor, hence no
// guard on access) and small: initial-exec variables of all libraries share a scant reserve. A
// helper object with a destructor empties it at thread exit.
struct FreeList {
  static constexpr int kCapacity = 64;
  struct Link {
    Link* next;
  };
  Link* first;
  int count;
  bool closed;

  void* pop() {
    Link* p = first;
    first = p->next;
    --count;
    return p;
  }
};
thread_local FreeList t_free __attribute__((tls_model("initial-exec")));

struct FreeListCleaner {
  ~FreeListCleaner() {
    t_free.closed = true;
    while (t_free.first) ::operator delete(t_free.pop());
  }
};

void keep(void* p) noexcept {
  static thread_local FreeListCleaner cleaner;
  if (t_free.closed || t_free.count == FreeList::kCapacity) {
    ::operator delete(p);
  } else {
    t_free.first = new (p) FreeList::Link{t_free.first};
    ++t_free.count;
  }
}

// What is born under inference_mode() never joins a graph.
uint8_t birth_flags() { return t_modes & kInferenceMode ? TensorImpl::kInference : 0; }

void set_sizes(TensorImpl* t, IntList sizes, IntList strides, int64_t n) {
  t->sizes.assign(sizes.data(), uint32_t(sizes.size()));
  t->strides.assign(strides.data(), uint32_t(strides.size()));
  t->numel = n;
  t->set(TensorImpl::kContiguous, is_contiguous(sizes, strides));
}

void describe(const TensorImpl& t) {
  if (t.storage->nbytes() >= kDescribedBytes)
    cuda_memory().describe(t.storage->data(), t.sizes, t.dtype);
}

// Bytes of storage that a geometry reaches.
int64_t reach(IntList sizes, IntList strides, int64_t offset, int64_t item) {
  int64_t last = offset, step = 0, bytes = 0;
  bool overflow = false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return 0;
    overflow |= __builtin_mul_overflow(sizes[i] - 1, strides[i], &step);
    overflow |= __builtin_add_overflow(last, step, &last);
  }
  overflow |= __builtin_add_overflow(last, 1, &last);
  overflow |= __builtin_mul_overflow(last, item, &bytes);
  check(!overflow, ErrorKind::Runtime, "", "size ", sizes, " with stride ", strides,
        " reaches further than memory can be addressed");
  return bytes;
}

}  // namespace

TensorImpl* TensorImpl::create() {
  void* p = t_free.first ? t_free.pop() : ::operator new(sizeof(TensorImpl));
  return new (p) TensorImpl();
}

void TensorImpl::destroy(TensorImpl* t) noexcept {
  if (t->has(kOwnsPyObject)) return host_hooks().return_to_wrapper(t);
  if (t->vmap_level != 0) [[unlikely]]
    g_forget_batched(t);
  if (t->has(kRecorded)) [[unlikely]]
    forget_recorded(t);
  if (t->autograd) t->autograd->dispose();
  t->~TensorImpl();
  keep(t);
}

HostHooks& host_hooks() {
  static HostHooks hooks;
  return hooks;
}

Tensor make_tensor(Ref<Storage> storage, IntList sizes, IntList strides, int64_t offset,
                   DType dtype) {
  auto* t = TensorImpl::create();
  Tensor out(Ref<TensorImpl>::adopt(t));
  t->device = storage->device();
  t->storage = std::move(storage);
  t->dtype = dtype;
  t->offset = offset;
  t->flags = birth_flags();
  set_sizes(t, sizes, strides, numel(sizes));
  return out;
}

Tensor make_tensor(IntList sizes, DType dtype, Device device) {
  const int64_t n = checked_numel("empty", sizes);
  auto* t = TensorImpl::create();
  Tensor out(Ref<TensorImpl>::adopt(t));
  t->storage = Storage::allocate(device, size_t(n * element_size(dtype)));
  t->device = t->storage->device();
  t->dtype = dtype;
  t->numel = n;
  t->sizes.assign(sizes.data(), uint32_t(sizes.size()));
  t->strides.resize(uint32_t(sizes.size()));
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    t->strides[i] = step;
    step *= std::max<int64_t>(sizes[i], 1);
  }
  t->flags = TensorImpl::kContiguous | birth_flags();
  if (t->device.is_cuda()) [[unlikely]]
    describe(*t);
  return out;
}

Tensor make_tensor(IntList sizes, IntList strides, DType dtype, Device device) {
  checked_numel("empty_strided", sizes);
  const int64_t bytes = reach(sizes, strides, 0, element_size(dtype));
  Tensor out = make_tensor(Storage::allocate(device, size_t(bytes)), sizes, strides, 0, dtype);
  if (device.is_cuda()) [[unlikely]]
    describe(*out.impl());
  return out;
}

std::atomic<bool> g_odd_memory{false};

bool begins_misaligned(const Tensor& t) {
  const TensorImpl& impl = *t.impl();
  const Storage* s = impl.storage.load();  // none: a form of ours, which is aligned
  if (!s || !impl.device.is_cpu() || impl.numel == 0) return false;
  return reinterpret_cast<uintptr_t>(s->data()) % uintptr_t(alignment(impl.dtype)) != 0;
}

void store_scalar(void* p, DType dtype, const Scalar& s) {
  dispatch_storage("fill", dtype, [&]<typename T>() {
    const T v = s.to<T>();
    std::memcpy(p, &v, sizeof v);  // see Note [Misaligned memory]
  });
}

Scalar load_scalar(const void* p, DType dtype) {
  return dispatch_storage("item", dtype, [&]<typename T>() -> Scalar {
    stored<T> there;
    std::memcpy(&there, p, sizeof there);  // see Note [Misaligned memory]
    const T v = T(there);
    if constexpr (std::is_same_v<T, bool>)
      return Scalar(v);
    else if constexpr (is_complex_v<T>)
      return Scalar(complex<double>{double(v.re), double(v.im)});
    else if constexpr (std::is_integral_v<T>)
      return Scalar(int64_t(v));
    else
      return Scalar(static_cast<double>(opmath<T>(v)));
  });
}

Tensor scalar_tensor(const Scalar& s, DType dtype, Device device) {
  Tensor t = make_tensor({}, dtype, device);
  if (device.is_cpu()) {
    store_scalar(t.data(), dtype, s);
  } else if (device.is_cuda()) {
    alignas(16) char bytes[16];
    store_scalar(bytes, dtype, s);
    cuda_memory().write(t.data(), bytes, size_t(t.element_size()), t.device().index);
  }
  return t;
}

Tensor wrap_number(const Scalar& s) {
  // Kept in full width; the op that uses it casts it down. Written by hand: `x * 2` should not
  // search for a type it knows.
  const auto wrap = [](DType wide, auto value) {
    Tensor t = make_tensor({}, wide);
    *t.data<decltype(value)>() = value;
    t.impl()->set(TensorImpl::kWrapped, true);
    return t;
  };
  switch (s.category()) {
    case Category::Bool:
      return wrap(DType::Bool, s.to<bool>());
    case Category::Integer:
      return wrap(DType::Int64, s.to_int());
    case Category::Floating:
      return wrap(DType::Float64, s.to_double());
    default:
      return wrap(DType::Complex128, s.to<complex<double>>());
  }
}

void (*g_value_read)(const Tensor& t, const char* as) = nullptr;

Scalar Tensor::item() const {
  check(numel() == 1, ErrorKind::Runtime, "item",
        "only a tensor with one element converts to a number, this one has shape ", sizes());
  check(!is_meta(), ErrorKind::Runtime, "item", "a tensor on the meta device has no values");
  check(
      !is_batched(), ErrorKind::Runtime, "item",
      "inside vmap this tensor stands for one value per sample, not for one value: item(), bool() "
      "and branches that depend on the data cannot be batched; use where() instead");
  note_value_read(*this, "a Python number");
  if (is_cuda()) [[unlikely]] {
    alignas(16) char bytes[16];
    cuda_memory().read(bytes, data(), size_t(element_size()), device().index);
    return load_scalar(bytes, dtype());
  }
  return load_scalar(data(), dtype());
}

bool Tensor::is_contiguous(MemoryFormat format) const {
  switch (format) {
    case MemoryFormat::ChannelsLast:
      return dim() == 4 && rush::is_channels_last(sizes(), strides());
    case MemoryFormat::ChannelsLast3d:
      return dim() == 5 && rush::is_channels_last(sizes(), strides());
    default:
      return is_contiguous();
  }
}

// Whether strides grow in the order of channels_last, with gaps or not. Strides of dims with one
// element count too: they tell an unsqueezed tensor from one that is laid out so.
static bool has_strides_like_channels_last(IntList sizes, IntList strides) {
  const size_t n = sizes.size();
  if ((n != 4 && n != 5) || strides[1] == 0 || numel(sizes) == 0) return false;
  int64_t least = 0;
  auto grows = [&](size_t i) {
    if (strides[i] < least) return false;
    least = strides[i] * sizes[i];
    return true;
  };
  if (!grows(1)) return false;
  for (size_t i = n; i-- > 2;) {
    if (!grows(i)) return false;
  }
  return least != strides[1] && grows(0);  // equal: every dim but the first has one element
}

MemoryFormat Tensor::suggest_memory_format() const {
  if (!has_strides_like_channels_last(sizes(), strides())) return MemoryFormat::Contiguous;
  return dim() == 4 ? MemoryFormat::ChannelsLast : MemoryFormat::ChannelsLast3d;
}

const Ref<VersionCounter>& Tensor::version_counter() const {
  // Backward runs without the GIL, and two threads may take views of one shared tensor.
  if (!impl_->version.load())
    impl_->version.install(Ref<VersionCounter>::adopt(new VersionCounter));
  return impl_->version;
}

void Tensor::bump_version(const char* writer) const {
  version_counter()->bump(writer);
  if (Storage* s = impl_->storage.load()) s->note_write();
}

Tensor Tensor::alias(IntList sizes, IntList strides, int64_t offset) const {
  internal_assert(!is_batched(), "a batched tensor has no memory to alias");
  Tensor out = make_tensor(storage(), sizes, strides, offset, dtype());
  out.impl_->version = version_counter();
  out.impl_->set(TensorImpl::kInference, impl_->has(TensorImpl::kInference));
  return out;
}

void set_geometry(const Tensor& t, IntList sizes, IntList strides, int64_t offset) {
  TensorImpl* p = t.impl();
  const int64_t n = checked_numel("resize_", sizes);
  const size_t bytes = size_t(reach(sizes, strides, offset, t.element_size()));
  if (bytes > t.storage()->nbytes()) p->storage->resize(bytes);
  p->offset = offset;
  const Dims own_sizes(sizes), own_strides(strides);  // the arguments may be this tensor's own
  set_sizes(p, own_sizes, own_strides, n);
}

void resize(const Tensor& t, IntList sizes, MemoryFormat format) {
  if (equal(sizes, t.sizes())) return;
  checked_numel("resize_", sizes);
  set_geometry(t, sizes, strides_for(sizes, format), t.offset());
}

void ResultType::add(const Tensor& t) {
  auto& slot = t.is_wrapped_number() ? wrapped_ : t.dim() == 0 ? zero_ : dim_;
  DType own = t.dtype();
  if (t.is_wrapped_number())
    own = is_complex(own)          ? to_complex(default_dtype())
          : rush::is_floating(own) ? default_dtype()
                                   : own;
  slot = slot ? promote(*slot, own) : own;
}

void ResultType::add(const Scalar& s) {
  wrapped_ = wrapped_ ? promote(*wrapped_, s.default_type()) : s.default_type();
}

DType ResultType::get() const {
  // A lower-ranked operand only matters when its category is higher.
  auto combine = [](std::optional<DType> high, std::optional<DType> low) -> std::optional<DType> {
    if (!high) return low;
    if (!low || category(*low) <= category(*high)) return high;
    // A floating tensor next to a complex number keeps its precision.
    check(!is_complex(*low) || !is_float8(*high), ErrorKind::DType, "result_type",
          "no complex type goes with ", *high);
    if (is_complex(*low) && is_floating(*high)) return to_complex(*high);
    return category(*low) == Category::Integer ? promote(*high, *low) : *low;
  };
  return *combine(combine(dim_, zero_), wrapped_);
}

DType result_type(const Tensor& a, const Tensor& b) {
  const bool numbers = a.is_wrapped_number() || b.is_wrapped_number();
  if (a.dtype() == b.dtype() && !numbers) return a.dtype();
  if (!a.is_wrapped_number() && b.is_wrapped_number() && category(b.dtype()) <= category(a.dtype()))
    return a.dtype();  // x * 2
  ResultType r;
  r.add(a);
  r.add(b);
  return r.get();
}

}  // namespace rush
