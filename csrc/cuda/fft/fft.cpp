// Fourier transforms on GPUs, by cuFFT.
//
// - cuFFT takes up to three dims that lie side by side, with the batch either before or behind
// them.
//   What lies so goes in as it is; the rest is copied with its transformed dims last.
// - A plan belongs to a geometry and is kept, the least recently used one goes first. Its working
//   memory comes from our pool and is the call's own, so that one plan serves several streams.
// - A captured graph goes on using the tables of its plans: those are never let go.
// - To real numbers: cuFFT writes over its input, and reads imaginary parts that a Hermitian
//   sequence does not have. So it works on a copy, where those are zero, as the CPU takes them.
#include <algorithm>
#include <array>
#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "core/error.h"
#include "core/mutex.h"
#include "cuda/runtime/capture.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/loops.h"
#include "cuda/vendor/cufft.h"
#include "cuda/vendor/plan_cache.h"
#include "device/fft.h"
#include "device/pointwise.h"

namespace rush::cuda {
namespace {

enum Kind : int32_t { kComplex, kReal, kHermitian };

const char* reason(int status) {
  switch (status) {
    case 2:
      return " (out of memory)";
    case 8:
      return " (the size is not supported)";
    case 6:
    case 5:
      return " (the GPU could not run it)";
    default:
      return "";
  }
}
void done(int status, const char* what) {
  check(status == 0, ErrorKind::Runtime, "fft", what, " failed with status ", status,
        reason(status));
}

struct Geometry {
  int64_t n[3];  // of the real side
  int64_t batch;
  int64_t inner;  // elements between neighbours: 1, or the batch when it lies behind the dims
  int32_t rank, kind, wide, device;
  bool operator==(const Geometry&) const = default;
};
static_assert(std::has_unique_object_representations_v<Geometry>);
struct Plan {
  Mutex mutex{LockRank::Kernels};  // stream, memory and launch belong together
  fft::Handle handle = 0;
  size_t memory = 0;
  std::atomic<bool> captured{false};

  explicit Plan(const Geometry& g) {
    const RelaxedCapture relaxed;  // tables are filled beside the captured stream
    const fft::Library& l = fft::library();
    done(l.Create(&handle), "cufftCreate");
    try {
      done(l.SetAutoAllocation(handle, 0), "cufftSetAutoAllocation");
      const fft::DataType real = g.wide ? fft::kR64F : fft::kR32F;
      const fft::DataType number = g.wide ? fft::kC64F : fft::kC32F;
      long long n[3], half[3], whole_step = 1, half_step = 1;
      for (int i = 0; i < g.rank; ++i) {
        n[i] = half[i] = g.n[i];
        if (i + 1 == g.rank) half[i] = n[i] / 2 + 1;
        whole_step *= n[i];
        half_step *= half[i];
      }
      const bool behind = g.inner > 1;
      const auto side = [&](bool is_half) { return behind ? 1 : is_half ? half_step : whole_step; };
      const bool from_half = g.kind == kHermitian, to_half = g.kind == kReal;
      done(l.MakePlan(handle, g.rank, n, from_half ? half : n, g.inner, side(from_half),
                      g.kind == kReal ? real : number, to_half ? half : n, g.inner, side(to_half),
                      g.kind == kHermitian ? real : number, g.batch, &memory, number),
           "cufftXtMakePlanMany");
    } catch (...) {
      l.Destroy(handle);
      throw;
    }
  }
  Plan(const Plan&) = delete;
  ~Plan() {
    const RelaxedCapture relaxed;
    fft::library().Destroy(handle);
  }
};

// The plans of one device, most recently used first.
class Plans {
 public:
  std::shared_ptr<Plan> find(const Geometry& g, bool captured) {
    if (std::shared_ptr<Plan> known = lookup(g)) {
      if (captured) known->captured = true;
      return known;
    }
    auto fresh = std::make_shared<Plan>(g);  // takes long: not under the lock
    if (captured) fresh->captured = true;
    std::list<Entry> gone;
    std::lock_guard lock(mutex_);
    if (const auto found = places_.find(g); found != places_.end()) return found->second->second;
    plans_.emplace_front(g, fresh);
    places_[g] = plans_.begin();
    shrink(gone);
    return fresh;
  }
  FftPlanCounts counts() {
    std::lock_guard lock(mutex_);
    return {int64_t(plans_.size()), most_};
  }
  void set_most(int64_t most) {
    std::list<Entry> gone;
    std::lock_guard lock(mutex_);
    most_ = most;
    shrink(gone);
  }
  void clear() {
    std::list<Entry> gone;
    std::lock_guard lock(mutex_);
    const int64_t most = most_;
    most_ = 0;
    shrink(gone);
    most_ = most;
  }

 private:
  using Entry = std::pair<Geometry, std::shared_ptr<Plan>>;

  std::shared_ptr<Plan> lookup(const Geometry& g) {
    std::lock_guard lock(mutex_);
    const auto found = places_.find(g);
    if (found == places_.end()) return nullptr;
    plans_.splice(plans_.begin(), plans_, found->second);
    return found->second->second;
  }
  // Those that go are destroyed by the caller, after the lock.
  void shrink(std::list<Entry>& gone) {
    for (auto it = plans_.end(); it != plans_.begin() && int64_t(plans_.size()) > most_;) {
      --it;
      if (it->second->captured) continue;
      places_.erase(it->first);
      const auto victim = it++;
      gone.splice(gone.begin(), plans_, victim);
    }
  }

  Mutex mutex_{LockRank::CudaDevices};
  std::list<Entry> plans_;
  std::unordered_map<Geometry, std::list<Entry>::iterator, PlanHash> places_;
  int64_t most_ = 4096;
};

Plans& plans_of(int device) {
  static auto& all = *new std::array<Plans, kMaxDevices>;  // never ends: the driver may do so first
  return all[size_t(device)];
}

// ---- one transform ----

Tensor view(const Tensor& t, const Dims& sizes, const Dims& strides) {
  return make_tensor(t.storage(), sizes, strides, t.offset(), t.dtype());
}
Tensor fresh(const Dims& sizes, const Tensor& like) {
  return make_tensor(sizes, like.dtype(), like.device());
}
bool aligned(const Tensor& t) {
  const int64_t bytes = is_complex(t.dtype()) ? t.element_size() : 2 * t.element_size();
  return reinterpret_cast<uintptr_t>(t.data()) % uintptr_t(bytes) == 0;
}

void execute(const Geometry& g, const Tensor& from, const Tensor& to, bool forward) {
  Stream* stream = current_stream(g.device);
  bind(g.device);
  const std::shared_ptr<Plan> plan = plans_of(g.device).find(g, is_capturing(stream));
  Tensor memory;
  if (plan->memory) memory = make_tensor(Dims{int64_t(plan->memory)}, DType::UInt8, to.device());
  const fft::Library& l = fft::library();
  {
    std::lock_guard lock(plan->mutex);
    done(l.SetStream(plan->handle, stream->handle()), "cufftSetStream");
    if (plan->memory) done(l.SetWorkArea(plan->handle, memory.data()), "cufftSetWorkArea");
    done(l.Run(plan->handle, from.data(), to.data(), forward ? fft::kForward : fft::kInverse),
         "cufftXtExec");
  }
  after_launch(stream);
}

// Along one to three dims; of real numbers the last one is halved. Tensors may lie in any way.
// Hermitian: `from` may be written over.
void transform(Kind kind, const Tensor& from, const Tensor& to, const Dims& dims, bool forward) {
  const Tensor& real_side = kind == kHermitian ? to : from;
  Geometry g{};
  g.rank = int32_t(dims.size());
  g.kind = kind;
  g.wide = to_real(from.dtype()) == DType::Float64;
  g.device = from.device().index;
  for (size_t i = 0; i < dims.size(); ++i) g.n[i] = real_side.sizes()[size_t(dims[i])];

  const auto first = size_t(dims[0]), end = first + dims.size();
  bool together = true;
  for (size_t i = 0; i < dims.size(); ++i) together = together && size_t(dims[i]) == first + i;
  int64_t outer = 1, inner = 1;
  const size_t rank = from.sizes().size();
  for (size_t d = 0; d < rank; ++d) {
    if (d < first) outer *= from.sizes()[d];
    if (d >= end) inner *= from.sizes()[d];
  }
  if (together && (outer == 1 || inner == 1) && from.is_contiguous() && to.is_contiguous() &&
      aligned(from) && aligned(to)) {
    g.inner = inner;
    g.batch = std::max(outer, inner);
    return execute(g, from, to, forward);
  }

  // With the dims last.
  Dims order;
  for (size_t d = 0; d < rank; ++d)
    if (std::find(dims.begin(), dims.end(), int64_t(d)) == dims.end()) order.push_back(int64_t(d));
  for (const int64_t d : dims) order.push_back(d);
  const auto transposed = [&](const Tensor& t) {
    Dims sizes, strides;
    for (const int64_t d : order) {
      sizes.push_back(t.sizes()[size_t(d)]);
      strides.push_back(t.strides()[size_t(d)]);
    }
    return view(t, sizes, strides);
  };
  Tensor source = transposed(from);
  const Tensor target = transposed(to);
  if (!source.is_contiguous() || !aligned(source)) {
    const Tensor own = fresh(Dims(source.sizes()), source);
    copy(source, own, false);
    source = own;
  }
  const bool direct = target.is_contiguous() && aligned(target);
  const Tensor result = direct ? target : fresh(Dims(target.sizes()), target);
  int64_t elements = 1;
  for (const int64_t d : dims) elements *= from.sizes()[size_t(d)];
  g.inner = 1;
  g.batch = from.numel() / elements;
  execute(g, source, result, forward);
  if (!direct) copy(result, target, false);
}

// ---- the three kinds ----

constexpr size_t kMostRank = 3;

void require() {
  const fft::Library& l = fft::library();
  check(l.missing.empty(), ErrorKind::Runtime, "fft", l.missing);
}

void scale_by(const Tensor& out, double scale) {
  if (scale != 1.0) map_binary(BinaryFn::Mul, out, wrap_number(scale), out, {}, out.dtype());
}

// The complex numbers' real parts.
Tensor real_parts(const Tensor& t) {
  Dims strides(t.strides());
  for (int64_t& s : strides) s *= 2;
  return make_tensor(t.storage(), t.sizes(), strides, t.offset() * 2, to_real(t.dtype()));
}

// Without those of size 1, which change nothing; ascending.
Dims that_matter(const Tensor& x, IntList dims) {
  Dims out;
  for (const int64_t d : dims)
    if (x.sizes()[size_t(d)] > 1) out.push_back(d);
  std::sort(out.begin(), out.end());
  return out;
}

void run_complex(const Tensor& x, const Tensor& out, const Dims& dims, bool forward) {
  if (dims.empty()) return x.is_same(out) ? void() : copy(x, out, false);
  // The innermost ones first, as many as go at once.
  size_t left = dims.size();
  Tensor from = x;
  while (left) {
    const size_t take = std::min(left, kMostRank);
    Dims some;
    for (size_t i = left - take; i < left; ++i) some.push_back(dims[i]);
    transform(kComplex, from, out, some, forward);
    from = out;
    left -= take;
  }
}

void fft_complex(const Tensor& x, const Tensor& out, IntList dims, double scale, bool forward) {
  if (out.numel() == 0) return;
  require();
  run_complex(x, out, that_matter(x, dims), forward);
  scale_by(out, scale);
}

void fft_real(const Tensor& x, const Tensor& out, IntList dims, double scale) {
  if (out.numel() == 0) return;
  require();
  const int64_t last = dims[dims.size() - 1];
  Dims others = that_matter(x, IntList(dims.data(), dims.size() - 1));
  if (x.sizes()[size_t(last)] == 1) {
    copy(x, out, false);
    run_complex(out, out, others, true);
  } else if (others.size() < kMostRank) {
    others.push_back(last);
    transform(kReal, x, out, others, true);
  } else {
    transform(kReal, x, out, Dims{last}, true);
    run_complex(out, out, others, true);
  }
  scale_by(out, scale);
}

void fft_hermitian(const Tensor& x, const Tensor& out, IntList dims, double scale) {
  if (out.numel() == 0) return;
  require();
  const int64_t last = dims[dims.size() - 1], n = out.sizes()[size_t(last)];
  const Dims others = that_matter(x, IntList(dims.data(), dims.size() - 1));
  // A copy with the last dim innermost, so that cuFFT takes it as it is.
  Dims sizes(x.sizes()), strides(uint32_t(x.dim()), 1);
  int64_t step = sizes[size_t(last)];
  for (size_t d = sizes.size(); d-- > 0;) {
    if (int64_t(d) == last) continue;
    strides[d] = step;
    step *= sizes[d];
  }
  const Tensor own = make_tensor(sizes, strides, x.dtype(), x.device());
  run_complex(x, own, others, false);
  if (n == 1) {
    copy(real_parts(own), out, false);
    return scale_by(out, scale);
  }
  // The first number is real, and so is the middle one of an even sequence.
  const Tensor flat_imaginary = [&] {
    const int64_t width = n / 2 + 1, rows = own.numel() / width;
    const bool even = n % 2 == 0;
    return make_tensor(own.storage(), Dims{rows, even ? 2 : 1}, Dims{2 * width, even ? n : 1},
                       own.offset() * 2 + 1, to_real(own.dtype()));
  }();
  fill(flat_imaginary, 0);
  transform(kHermitian, own, out, Dims{last}, false);
  scale_by(out, scale);
}

const bool registered = [] {
  fourier_loops(DeviceType::CUDA) = {fft_complex, fft_real, fft_hermitian};
  return true;
}();

}  // namespace

FftPlanCounts fft_plan_counts(int device) { return plans_of(device).counts(); }
void set_most_fft_plans(int device, int64_t most) {
  bind(device);
  plans_of(device).set_most(most);
}
void clear_fft_plans(int device) {
  bind(device);
  plans_of(device).clear();
}

}  // namespace rush::cuda
