// Attention on GPUs: by cuDNN where it serves and pays, else through kernels/attention.cu, which knows
// masks, dropout by our random numbers, float32 and any layout; on Hopper, attention_hopper.cu.
#include "device/nn/attention.h"

#include <bit>

#include "cuda/runtime/graph.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/loops.h"
#include "cuda/runtime/settings.h"
#include "cuda/vendor/cudnn_attention.h"

namespace rush::cuda {
namespace {

constexpr int kRowsABlock = 64, kAttentionThreads = 128;
// Rows of queries and keys at a time of the kernel for few queries, and the widest heads it knows.
constexpr int64_t kDecodeRows = 16, kDecodeKeys = 64, kDecodeWidth = 128;
// From so many scores on, gradients are added up in memory.
constexpr int64_t kScoresForGrads = int64_t(1) << 22;
enum Kernel : uint64_t { kForward, kQueryGrad, kKeyGrad };
enum Part : uint64_t { kBothParts, kValuePart, kKeyPart };
enum Extras : uint64_t { kMasked = 1, kDropout = 2 };  // bits

// Key: kernel, part, exact, extras, logarithm of the width, type.
struct Instance {
  DType dtype;
  int width;
  bool exact;
  uint64_t extras;
  uint64_t key(Kernel kernel, Part part = kBothParts) const {
    return kernel << 15 | part << 13 | uint64_t(exact) << 12 | extras << 10 |
           uint64_t(std::countr_zero(unsigned(width))) << 4 | uint64_t(dtype);
  }
};

// Keys (or queries) that pass by at a time: as many as registers and shared memory (48 KB) have
// room for.
int tile_rows(Kernel kernel, DType dtype, int width) {
  const int room = dtype == DType::Float32 ? 2048 : kernel == kForward ? 8192 : 4096;
  return std::min(64, room / width);
}

std::string spell(uint64_t key) {
  const auto kernel = Kernel(key >> 15);
  const DType dtype = DType(key & 15);
  const int width = 1 << (key >> 4 & 63);
  constexpr const char* names[] = {"attention_forward", "attention_query_grad",
                                   "attention_key_grad"};
  const std::string part = kernel == kKeyGrad ? concat(", ", key >> 13 & 3) : std::string();
  return concat("rush::", names[kernel], "<", kernel_type(dtype), ", ", width, ", ",
                tile_rows(kernel, dtype, width), ", ", key >> 12 & 1 ? "true" : "false", ", ",
                key >> 10 & 3, part, ">");
}
const KernelFamily kAttention{"attention.cu", spell}, kHopper{"attention_hopper.cu", spell};

// The gradients by one kernel; see attention_grads_hopper.cu. Key: step, extras, logarithm of the width, type.
enum GradStep : uint64_t { kTerms, kGrads, kQuerySums };
std::string spell_grads(uint64_t key) {
  constexpr const char* names[] = {"attention_terms", "attention_grads", "attention_query_sums"};
  const auto step = GradStep(key >> 12);
  return concat("rush::", names[step], "<", kernel_type(DType(key & 15)), ", ",
                1 << (key >> 4 & 63), step == kGrads ? concat(", ", key >> 10 & 3) : std::string(),
                ">");
}
const KernelFamily kGradsFamily{"attention_grads_hopper.cu", spell_grads};

// Has the GPU products of warpgroups, and are they written for such heads?
bool by_warpgroups(const Instance& x, int device) {
  return device_info(device).arch() == 90 && is_reduced_float(x.dtype) &&
         (x.width == 64 || x.width == 128);
}

// Key: blocks in a cluster, extras, logarithm of the width, type.
std::string spell_decode(uint64_t key) {
  const uint64_t cluster = key >> 11;
  return concat("rush::attention_decode", cluster > 1 ? "_near<" : "<",
                kernel_type(DType(key & 15)), ", ", 1 << (key >> 4 & 63), ", ",
                key >> 10 & 1 ? "true" : "false", cluster > 1 ? concat(", ", cluster) : "", ">");
}
const KernelFamily kDecode{"attention_decode.cu", spell_decode};

constexpr uint32_t kOwnKernels = kFlashAttention | kEfficientAttention;

bool attention_takes(const AttentionCase& c) {
  const int64_t widest = std::max(c.width, c.value_width);
  const bool half = is_reduced_float(c.dtype);
  if (c.backends & kOwnKernels)
    return half ? widest <= 256 : c.dtype == DType::Float32 && widest <= 128;
  return (c.backends & kCudnnAttention) && c.plain && half && widest <= 256 && c.width % 8 == 0 &&
         c.value_width % 8 == 0 && dnn::has_attention();
}

// ---- geometry ----

// Can the dims before the last two be walked as (batch, heads)?
bool has_two_leading(const Tensor& t) {
  int64_t inner = -1;  // the nearest dim of batches inside that is no 1
  for (int64_t d = t.dim() - 4; d >= 0; --d) {
    const size_t i = size_t(d);
    if (t.sizes()[i] == 1) continue;
    if (inner >= 0 && t.strides()[i] != t.strides()[size_t(inner)] * t.sizes()[size_t(inner)])
      return false;
    inner = d;
  }
  return true;
}

HeadSteps steps_of(const Tensor& t) {
  const size_t n = size_t(t.dim());
  HeadSteps s{t.strides()[n - 2], n > 2 ? t.strides()[n - 3] : 0, 0};
  for (size_t d = n > 3 ? n - 3 : 0; d-- > 0;) {
    if (t.sizes()[d] == 1) continue;
    s.batch = t.strides()[d];
    break;
  }
  return s;
}

bool is_aligned(const Tensor& t) {
  const HeadSteps s = steps_of(t);
  const int64_t item = t.element_size();
  return (reinterpret_cast<uintptr_t>(t.data()) | uint64_t(s.row * item) | uint64_t(s.head * item) |
          uint64_t(s.batch * item) | uint64_t(t.sizes().back() * item)) %
             16 ==
         0;
}

int64_t count_of(IntList sizes) {
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  return n;
}

struct Call {
  AttentionArgs args{};
  Instance instance;
  int64_t heads = 1;         // of all batches
  std::vector<Tensor> held;  // until the launch
  std::vector<std::pair<Tensor, Tensor>> moved;

  Call(const AttentionOptions& o, const Tensor& q, const Tensor& k, const Tensor& v,
       const Tensor& mask) {
    const size_t n = size_t(q.dim());
    heads = count_of(IntList(q.sizes()).first(n - 2));
    args.queries = i32(q.sizes()[n - 2]);
    args.keys = i32(k.sizes()[n - 2]);
    args.width = i32(q.sizes()[n - 1]);
    args.value_width = i32(v.sizes()[n - 1]);
    args.heads = i32(n > 2 ? q.sizes()[n - 3] : 1);
    args.group = i32(n > 2 ? q.sizes()[n - 3] / k.sizes()[n - 3] : 1);
    args.causal = o.causal;
    args.scale = float(o.scale);
    args.keep = float(1 - o.dropout);
    args.keep_scale = o.dropout < 1 ? float(1 / (1 - o.dropout)) : 0.0f;
    if (o.dropout > 0) {
      const RandomSource source = random_source(o.call, q.device().index);
      args.seed = source.seed;
      args.call = source.call;
      args.state = source.state;
    }
    args.aligned = true;
    args.q = place(q, args.q_steps);
    args.k = place(k, args.k_steps);
    args.v = place(v, args.v_steps);
    if (mask.defined()) {
      const bool aligned = args.aligned;
      args.mask = place(mask, args.mask_steps);
      args.aligned = aligned;  // masks are read element by element
      args.mask_col = held.back().strides().back();
      args.mask_is_bool = mask.dtype() == DType::Bool;
      args.mask_is_half = is_reduced_float(mask.dtype());
    }
    int width = 32;
    while (width < std::max(args.width, args.value_width)) width *= 2;
    instance = {
        q.dtype(), width, q.dtype() != DType::Float32 || !settings().matmul_tf32.load(),
        (mask.defined() ? uint64_t(kMasked) : 0) | (o.dropout > 0 ? uint64_t(kDropout) : 0)};
  }

  // A copy takes the place of what cannot be walked.
  void* place(const Tensor& t, HeadSteps& steps) {
    held.push_back(has_two_leading(t) ? t : make_tensor(t.sizes(), t.dtype(), t.device()));
    const Tensor& own = held.back();
    if (!own.is_same(t)) copy(t, own, false);
    steps = steps_of(own);
    args.aligned = args.aligned && is_aligned(own);
    return own.data();
  }
  void* place_result(const Tensor& t, HeadSteps& steps) {
    void* const at = place(t, steps);
    if (!held.back().is_same(t)) moved.emplace_back(held.back(), t);
    return at;
  }
  // Done by cuDNN? A call costs the host 16 us, in which our kernels finish what is small: few keys,
  // and few scores altogether.
  bool run_by_library(int device) const {
    const uint32_t backends = attention_backends();
    const bool pays = int64_t(args.keys) * args.width >= 512 * 64 ||
                      heads * args.queries * int64_t(args.keys) >= int64_t(1) << 22;
    const int64_t batch = heads / std::max<int64_t>(args.heads, 1);
    return (backends & kCudnnAttention) && (pays || !(backends & kOwnKernels)) &&
           dnn::takes_attention(args, batch, instance.dtype) &&
           dnn::run_attention(args, batch, instance.dtype, device);
  }
  void finish() const {
    for (const auto& [from, to] : moved) copy(from, to, false);
  }

  // Few queries against many keys: done by all blocks that the GPU can run. False: there is too
  // little to split, or enough heads to fill it anyway.
  bool run_decode(int device, bool plain) {
    const bool across = args.queries == 1 && args.group > 1 && args.group <= kDecodeRows;
    const int64_t units = across ? heads / args.group : heads;
    const int64_t tiles = (args.keys + kDecodeKeys - 1) / kDecodeKeys;
    const int64_t wanted = 2 * int64_t(device_info(device).processors);
    if (!plain || args.queries > kDecodeRows || !is_reduced_float(instance.dtype) ||
        instance.width > kDecodeWidth || tiles < 2 || units == 0 || units >= wanted)
      return false;
    AttentionDecodeArgs all{args, nullptr, nullptr, 0, 0, 0, across};
    all.rows = across ? args.group : args.queries;
    // A weight and a sum per split and row must fit where a block's tiles were.
    const int64_t most = std::max<int64_t>(1, 32 * instance.width / all.rows);
    int64_t splits = std::min({tiles, most, (wanted + units - 1) / units});
    // Blocks of a cluster, eight at most, do not wait for the last one: where each has few tiles.
    constexpr int64_t kMostNear = 8, kTilesNear = 3;
    const bool near =
        splits > 1 && tiles <= kMostNear * kTilesNear && device_info(device).major >= 9;
    if (near) splits = int64_t(std::bit_ceil(uint64_t(std::min(splits, kMostNear))));
    all.tiles = i32((tiles + splits - 1) / splits);
    all.splits = i32(near ? splits : (tiles + all.tiles - 1) / all.tiles);
    const int64_t blocks = units * all.splits;
    Tensor parts;
    if (!near) {
      parts = make_tensor(Dims{blocks * all.rows * (instance.width + 2)}, DType::Float32,
                          held.front().device());
      all.parts = parts.data<float>();
      all.counters = stream_counters(device, units);
    }
    const uint64_t key = uint64_t(near ? splits : 1) << 11 | uint64_t(args.mask != nullptr) << 10 |
                         uint64_t(std::countr_zero(unsigned(instance.width))) << 4 |
                         uint64_t(instance.dtype);
    launch(kDecode, key, device, {unsigned(blocks)}, {kAttentionThreads}, all);
    return true;
  }

  // All three gradients with each weight computed once. False: not written for such heads, or the same numbers are
  // wanted from every call, or there is too little to do for three launches and memory for sums.
  bool run_grads(int device) {
    if (!by_warpgroups(instance, device) || settings().wants_repeatable() ||
        heads * args.queries * int64_t(args.keys) < kScoresForGrads)
      return false;
    const int64_t groups = attention_grads_groups(instance.width), own_keys = 64 * groups;
    constexpr int64_t kPassing = 64;
    const int64_t tiles = (args.queries + kPassing - 1) / kPassing, key_heads = heads / args.group;
    args.blocks = i32((args.keys + own_keys - 1) / own_keys);
    const int64_t blocks = args.blocks * key_heads;
    if (std::max(blocks, tiles * heads) >= int64_t(1) << 31) return false;
    const Device where = held.front().device();
    const Tensor sums =
        make_tensor(Dims{heads * tiles * kPassing * instance.width}, DType::Float32, where);
    const Tensor terms = make_tensor(Dims{heads * tiles * 2 * kPassing}, DType::Float32, where);
    const AttentionGradsArgs all{args, sums.data<float>(), terms.data<float>(), i32(tiles)};
    const auto key = [&](GradStep step) {
      return step << 12 | (step == kGrads ? instance.extras : 0) << 10 |
             uint64_t(std::countr_zero(unsigned(instance.width))) << 4 | uint64_t(instance.dtype);
    };
    const Grid threads{unsigned(128 * groups)};
    launch(kGradsFamily, key(kTerms), device, {unsigned((tiles + 1) / 2 * heads)}, {256}, all);
    launch_with_shared(kGradsFamily, key(kGrads), device, {unsigned(blocks)}, threads,
                       attention_grads_shared(instance.width), all);
    launch(kGradsFamily, key(kQuerySums), device, {unsigned(tiles * heads)}, threads, all);
    return true;
  }

  void run(Kernel kernel, Part part, int64_t rows, int64_t all_heads, int device) {
    args.blocks = i32((rows + kRowsABlock - 1) / kRowsABlock);
    const int64_t blocks = args.blocks * all_heads;
    check(blocks < int64_t(1) << 31, ErrorKind::NotImplemented, "scaled_dot_product_attention",
          "too many rows for a GPU: ", rows * all_heads);
    launch(by_warpgroups(instance, device) ? kHopper : kAttention, instance.key(kernel, part),
           device, {unsigned(blocks)}, {kAttentionThreads}, args);
  }
};

void attention(const AttentionOptions& o, const Tensor& q, const Tensor& k, const Tensor& v,
               const Tensor& mask, const Tensor& out, const Tensor& lse) {
  Call call(o, q, k, v, mask);
  call.args.out = call.place_result(out, call.args.out_steps);
  call.args.lse = lse.data<float>();
  const int device = q.device().index;
  const bool own = attention_backends() & kOwnKernels;
  if (own && call.run_decode(device, !o.causal && o.dropout == 0)) return call.finish();
  if (!o.varied && call.run_by_library(device)) return call.finish();
  check(own, ErrorKind::Runtime, "scaled_dot_product_attention",
        "no available kernel: cuDNN, which sdpa_kernel asks for, has none for these arguments");
  call.run(kForward, kBothParts, call.args.queries, call.heads, device);
  call.finish();
}

void attention_backward(const AttentionOptions& o, const Tensor& g, const Tensor& q,
                        const Tensor& k, const Tensor& v, const Tensor& mask, const Tensor& out,
                        const Tensor& lse, const Tensor& gq, const Tensor& gk, const Tensor& gv) {
  Call call(o, q, k, v, mask);
  AttentionArgs& a = call.args;
  a.g = call.place(g, a.g_steps);
  a.out = call.place(out, a.out_steps);
  a.gq = call.place_result(gq, a.gq_steps);
  a.gk = call.place_result(gk, a.gk_steps);
  a.gv = call.place_result(gv, a.gv_steps);
  a.lse = lse.data<float>();
  const Tensor delta = make_tensor(lse.sizes(), DType::Float32, lse.device());
  a.delta = delta.data<float>();
  const int device = q.device().index;
  if (!o.varied && call.run_by_library(device)) return call.finish();
  if (call.run_grads(device)) return call.finish();
  call.run(kQueryGrad, kBothParts, a.queries, call.heads, device);
  const int64_t key_heads = call.heads / a.group;
  if (call.instance.width <= 64) {
    call.run(kKeyGrad, kBothParts, a.keys, key_heads, device);
  } else {
    call.run(kKeyGrad, kValuePart, a.keys, key_heads, device);
    call.run(kKeyGrad, kKeyPart, a.keys, key_heads, device);
  }
  call.finish();
}

const bool registered = [] {
  AttentionLoops& loops = attention_loops(DeviceType::CUDA);
  loops.takes = attention_takes;
  loops.forward = attention;
  loops.backward = attention_backward;
  loops.half_masks = true;
  return true;
}();

}  // namespace
}  // namespace rush::cuda
