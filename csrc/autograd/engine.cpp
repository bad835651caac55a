// The engine's entrance: checks what is asked for, and runs a GraphTask for it.
#include "autograd/engine.h"

#include <exception>
#include <thread>

#include "autograd/graph_task.h"
#include "autograd/node_lock.h"

namespace rush {
namespace {

// ---- Backward inside backward ------------------------------------------------------------------

constexpr int kLevelsPerThread = 48;
constexpr int kMaxLevels = 20'000;

struct Nesting {
  int here = 0, total = 0;  // levels on this thread, and in the whole line of calls
};
constinit thread_local Nesting t_nesting{};

void run_on_thread(void (*body)(void*), void* context) {
  std::exception_ptr error;
  std::thread([&] {
    try {
      body(context);
    } catch (...) {
      error = std::current_exception();
    }
  }).join();
  if (error) std::rethrow_exception(error);
}
std::atomic<ThreadRunner> g_thread_runner{run_on_thread};

// Runs f one level deeper, on another thread when this one's stack has served enough.
template <class F>
void one_level_deeper(F&& f) {
  struct Scope {
    Nesting before = t_nesting;
    explicit Scope(Nesting inside) { t_nesting = inside; }
    ~Scope() { t_nesting = before; }
  };
  const int total = t_nesting.total + 1;
  check(total <= kMaxLevels, ErrorKind::Runtime, "backward", "called inside itself ",
        int64_t(kMaxLevels), " levels deep, by hooks or a Function's backward: that looks endless");
  if (t_nesting.here < kLevelsPerThread) {
    Scope scope({t_nesting.here + 1, total});
    f();
    return;
  }
  struct Job {
    F& f;
    uint32_t modes = t_modes, line = NodeLock::line();
    int total;
  } job{.f = f, .total = total};
  g_thread_runner.load()(
      [](void* p) {
        Job& job = *static_cast<Job*>(p);
        t_modes = job.modes & ~uint32_t{kObserve | kDefer};
        if (job.modes & kObserve && g_observe_thread) g_observe_thread();
        NodeLock::continue_line(job.line);
        t_nesting = {1, job.total};
        job.f();
      },
      &job);
}

// ---- What is asked for -------------------------------------------------------------------------

std::vector<Edge> root_edges(std::span<const Tensor> roots) {
  std::vector<Edge> edges;
  for (const Tensor& root : roots) {
    check(requires_grad(root), ErrorKind::Runtime, "backward", "element ",
          int64_t(&root - roots.data()),
          " of the tensors does not require grad and has no grad_fn: ", why_no_gradient(root));
    edges.push_back(gradient_edge(root));
  }
  return edges;
}

std::vector<Tensor> root_gradients(std::span<const Tensor> roots, std::span<const Tensor> grads) {
  std::vector<Tensor> result;
  for (size_t i = 0; i < roots.size(); ++i) {
    const Tensor& root = roots[i];
    if (i < grads.size() && grads[i].defined()) {
      check_shape(grads[i].sizes() == root.sizes(), "backward", "the gradient has shape ",
                  grads[i].sizes(), ", its tensor has shape ", root.sizes());
      check(grads[i].is_complex() == root.is_complex(), ErrorKind::Runtime, "backward",
            "the gradient is ", grads[i].dtype(), ", its tensor ", root.dtype(),
            ": both must be real, or both complex");
      result.push_back(grads[i]);
      continue;
    }
    check(root.numel() == 1, ErrorKind::Runtime, "backward",
          "grad can be created implicitly only for scalar outputs; this tensor has shape ",
          root.sizes(), ": pass gradient=");
    check(!root.is_complex(), ErrorKind::Runtime, "backward",
          "grad can be created implicitly only for real scalar outputs, this one is ",
          root.dtype());
    result.push_back(engine_ops().ones_like(root));
  }
  return result;
}

std::vector<Edge> input_edges(const char* function, std::span<const Tensor> inputs) {
  std::vector<Edge> edges;
  for (const Tensor& t : inputs) {
    check(t.defined() && requires_grad(t), ErrorKind::Runtime, function, "input ",
          int64_t(&t - inputs.data()), " does not require grad");
    edges.push_back(gradient_edge(t));
  }
  return edges;
}

// Can a gradient of this shape be summed to `sizes`: was a tensor of these sizes broadcast to it?
bool was_broadcast_from(IntList sizes, IntList shape) {
  if (shape.size() < sizes.size()) return false;
  const size_t lead = shape.size() - sizes.size();
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != 1 && sizes[i] != shape[lead + i]) return false;
  }
  return true;
}

}  // namespace

void set_thread_runner(ThreadRunner runner) { g_thread_runner = runner; }

EngineOps& engine_ops() {
  static EngineOps ops{};
  return ops;
}

Tensor fit_gradient(Tensor g, const ResultMeta& meta, const char* producer) {
  if (!(g.sizes() == meta.sizes)) [[unlikely]] {
    check_shape(was_broadcast_from(meta.sizes, g.sizes()), producer,
                "returned a gradient of shape ", g.sizes(), " for an input of shape ", meta.sizes);
    g = engine_ops().sum_to(g, meta.sizes);
  }
  if (g.dtype() != meta.dtype) [[unlikely]]
    g = engine_ops().cast(g, meta.dtype);
  check(g.device() == meta.device, ErrorKind::Device, producer, "returned a gradient on ",
        g.device(), ", expected one on ", meta.device);
  return g;
}

void backward(std::span<const Tensor> roots, std::span<const Tensor> grads,
              const BackwardOptions& options, std::span<const Tensor> inputs) {
  const std::vector<Edge> edges = root_edges(roots);
  std::vector<Tensor> seeds = root_gradients(roots, grads);
  std::vector<Edge> targets = input_edges("backward", inputs);
  for (const Tensor& t : inputs) retain_grad(t);  // leaves have their nodes for that
  one_level_deeper(
      [&] { GraphTask(options, std::move(targets), true).run(edges, std::move(seeds)); });
}

std::vector<Tensor> grad(std::span<const Tensor> roots, std::span<const Tensor> grads,
                         std::span<const Tensor> inputs, const BackwardOptions& options) {
  const std::vector<Edge> edges = root_edges(roots);
  std::vector<Tensor> seeds = root_gradients(roots, grads);
  std::vector<Edge> targets = input_edges("grad", inputs);
  std::vector<Tensor> found;
  one_level_deeper(
      [&] { found = GraphTask(options, std::move(targets), false).run(edges, std::move(seeds)); });
  for (size_t i = 0; i < found.size(); ++i) {
    check(found[i].defined() || options.allow_unused, ErrorKind::Runtime, "grad", "input ",
          int64_t(i),
          " was not used in the graph of the outputs. Pass allow_unused=True if that is meant");
  }
  return found;
}

std::vector<Tensor> run_graph(const std::vector<Edge>& roots, std::vector<Tensor> seeds,
                              const std::vector<Edge>& inputs, bool accumulate,
                              const BackwardOptions& options) {
  std::vector<Tensor> found;
  one_level_deeper(
      [&] { found = GraphTask(options, inputs, accumulate).run(roots, std::move(seeds)); });
  return found;
}

}  // namespace rush
