// cuda.cpp: rushlight._C._cuda: devices, streams, events and memory of NVIDIA GPUs. The names that
// users see stand in rushlight/cuda; nothing here is called often enough to need the fast path.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <cstdlib>

#include "bindings/autograd/autograd.h"
#include "bindings/cuda/arrays.h"
#include "bindings/cuda/memory.h"
#include "bindings/handle.h"
#include "bindings/python.h"
#include "core/layout.h"
#include "core/modes.h"
#include "cuda/runtime/capture.h"
#include "cuda/runtime/compile_thread.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/foreign.h"
#include "cuda/runtime/graph.h"
#include "cuda/runtime/kernel_cache.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/launch_batch.h"
#include "cuda/runtime/memory.h"
#include "cuda/runtime/nvrtc.h"
#include "cuda/runtime/settings.h"
#include "cuda/runtime/stream.h"
#include "cuda/vendor/cufft.h"
#include "jit/recorder.h"
#include "ops/ops.h"

namespace rush::py {
namespace {

namespace nb = nanobind;
using namespace rush::cuda;

// Waits without the GIL, then raises what the GPU found out meanwhile.
template <class F>
void waiting(int device, F wait) {
  {
    const ReleaseGil released;
    wait();
  }
  release_passed();
  raise_faults(device);
}

nb::dict properties(int device) {
  const DeviceInfo& i = device_info(device);
  nb::dict d;
  d["name"] = i.name;
  d["major"] = i.major;
  d["minor"] = i.minor;
  d["total_memory"] = i.total_memory;
  d["multi_processor_count"] = i.processors;
  d["max_threads_per_multi_processor"] = i.threads_per_processor;
  d["warp_size"] = i.warp_size;
  d["shared_memory_per_block"] = i.shared_per_block;
  d["shared_memory_per_block_optin"] = i.shared_optin;
  d["L2_cache_size"] = i.l2_bytes;
  d["clock_rate"] = i.clock_khz;
  d["is_integrated"] = i.integrated;
  d["uuid"] = nb::bytes(i.uuid.bytes, sizeof i.uuid.bytes);
  d["pci_domain_id"] = i.pci_domain;
  d["pci_bus_id"] = i.pci_bus;
  d["pci_device_id"] = i.pci_device;
  return d;
}

const Tensor& tensor_argument(const char* op, nb::handle o) {
  check(is_tensor(o.ptr()), ErrorKind::ArgumentType, op, "expected a tensor, got ",
        Py_TYPE(o.ptr())->tp_name);
  return unwrap(o.ptr());
}

nb::object pin(nb::handle o) {
  const Tensor& t = tensor_argument("pin_memory", o);
  check(t.is_cpu(), ErrorKind::Runtime, "pin_memory", "only CPU tensors can be pinned, not one on ",
        t.device());
  if (is_pinned(*t.storage())) return nb::borrow(o);
  const NoGradGuard no_grad;
  const Dims strides = contiguous_strides(t.sizes());
  const Tensor out =
      make_tensor(allocate_pinned(size_t(t.nbytes())), t.sizes(), strides, 0, t.dtype());
  copy_(out, t);
  return nb::steal(wrap(out));
}

// A stream travels to Python as (device, id): it lives as long as the process.
using StreamKey = std::pair<int, int64_t>;
StreamKey key_of(const Stream* s) { return {s->device, s->id}; }
Stream* stream_of(const StreamKey& key) {
  jit::end_recording("work with CUDA streams or events");
  return stream_by_id(key.first, key.second);
}

void add_devices(nb::module_& m) {
  m.def("device_count", device_count);
  m.def("why_unavailable", [] { return why_unavailable(); });
  m.def("is_initialized", is_initialized);
  m.def("initialize", initialize);
  m.def("current_device", current_device);
  m.def("set_device", set_current_device);
  m.def("check_device", [](int device) { return check_device("cuda", device); });
  m.def("properties", properties);
  m.def("can_access_peer", can_access_peer);
  m.def("memory_info", memory_info);
  m.def("synchronize", [](int device) {
    device = check_device("synchronize", device);
    waiting(device, [&] { synchronize(device); });
  });
}

void add_streams(nb::module_& m) {
  m.def("default_stream", [](int device) { return key_of(default_stream(device)); });
  m.def("current_stream", [](int device) { return key_of(find_current_stream(device)); });
  m.def("set_stream", [](StreamKey s) { set_current_stream(stream_of(s)); });
  m.def("new_stream",
        [](int device, int priority) { return key_of(stream_from_set(device, priority)); });
  m.def("external_stream", [](int device, uintptr_t handle) {
    return key_of(external_stream(device, reinterpret_cast<CUstream>(handle)));
  });
  m.def("stream_handle", [](StreamKey s) {
    leave_batches("the handle of a stream was given to the program");
    return reinterpret_cast<uintptr_t>(stream_of(s)->handle());
  });
  m.def("stream_priority", [](StreamKey s) { return stream_of(s)->priority; });
  m.def("stream_query", [](StreamKey s) { return is_done(stream_of(s)); });
  m.def("stream_synchronize", [](StreamKey s) {
    Stream* stream = stream_of(s);
    waiting(stream->device, [&] { synchronize(stream); });
  });
  nb::class_<Event>(m, "Event")
      .def(nb::init<bool, bool, bool, bool>())
      .def("record", [](Event& e, StreamKey s) { e.record(stream_of(s)); })
      .def("make_wait", [](const Event& e, StreamKey s) { e.make_wait(stream_of(s)); })
      .def("query", &Event::done)
      .def("synchronize",
           [](const Event& e) {
             if (e.device() >= 0) waiting(e.device(), [&] { e.wait(); });
           })
      .def("elapsed_time", &Event::milliseconds_until)
      .def("handle", [](const Event& e) { return reinterpret_cast<uintptr_t>(e.handle()); })
      .def("device", &Event::device);
  m.def("set_sync_debug", [](int mode) { set_sync_debug(SyncDebug(mode)); });
  m.def("sync_debug", [] { return int(sync_debug()); });
  m.def("set_blocking", set_blocking);
  const char* wanted = std::getenv("RUSHLIGHT_COALESCE_LAUNCHES");
  set_coalesces_launches(!wanted || *wanted != '0');
  m.def("coalesces_launches", coalesces_launches);
  m.def("set_coalesces_launches", set_coalesces_launches);
  m.def("set_batch_patience",
        [](int64_t microseconds) { set_batch_patience(std::chrono::microseconds(microseconds)); });
  m.def("batch_stats", [] {
    const BatchStats s = batch_stats();
    nb::dict d;
    d["batched_kernels"] = s.batched;
    d["single_kernels"] = s.single;
    d["library_calls"] = s.calls;
    d["graph_launches"] = s.launches;
    d["graphs"] = s.graphs;
    d["refused_graphs"] = s.refused;
    d["engaged"] = s.engaged && s.off.empty();
    d["off"] = s.off.empty() ? nb::object(nb::none()) : nb::object(nb::cast(s.off));
    return d;
  });
  m.def("is_blocking", is_blocking);
}

void add_storage(nb::module_& m) {
  m.def("record_stream", [](nb::handle t, StreamKey s) {
    // An arranged tensor's memory is that of its form.
    record_stream(*arranged_form(tensor_argument("record_stream", t)).storage(), stream_of(s));
  });
  m.def("pin", pin);
  m.def("is_pinned", [](nb::handle o) {
    const Tensor& t = tensor_argument("is_pinned", o);
    return t.is_cpu() && is_pinned(*t.storage());
  });
}

void add_graphs(nb::module_& m) {
  nb::class_<Graph>(m, "Graph")
      .def(nb::init<bool>())
      .def("capture_begin",
           [](Graph& g, PoolId pool, int mode) { g.capture_begin(pool, CUcaptureMode(mode)); })
      .def("capture_end", &Graph::capture_end)
      .def("capture_abort", &Graph::capture_abort)
      .def("instantiate", &Graph::instantiate)
      .def("replay",
           [](Graph& g) {
             const ReleaseGil released;
             g.replay();
           })
      .def("reset", &Graph::reset)
      .def("pool", &Graph::pool)
      .def("keep_description", &Graph::keep_description)
      .def("description", &Graph::description)
      .def("node_count", &Graph::node_count)
      .def("register_generator",
           [](Graph& g, nb::handle generator) {
             // The Python object of the graph keeps the generator.
             g.register_generator(std::shared_ptr<Generator>(std::shared_ptr<void>(),
                                                             as_generator(generator.ptr())));
           })
      .def("debug_dump", &Graph::debug_dump);
  m.def("new_pool_id", new_pool_id);
  m.def("is_capturing",
        [] { return device_count() > 0 && is_capturing_on(Device{DeviceType::CUDA}); });
  nb::class_<BesideCapture>(m, "BesideCapture")
      .def(nb::init<>())
      .def("__enter__", &BesideCapture::enter)
      .def("__exit__", [](BesideCapture& b, nb::args) { b.leave(); });
}

template <auto member>
void add_setting(nb::module_& m, const char* name) {
  m.def((std::string("get_") + name).c_str(), [] { return (settings().*member).load(); });
  m.def((std::string("set_") + name).c_str(), [](bool on) {
    flush_pending("a setting of the GPU's libraries is changed");
    (settings().*member).store(on);
  });
}

}  // namespace

bool init_cuda(PyObject* module) {
  // The one table of errors serves nanobind's functions as well.
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const Error&) {
      raise_current();
    } catch (const PythonError&) {
      raise_current();
    }
  });
  nb::module_ m = nb::borrow<nb::module_>(module).def_submodule("_cuda");
  add_devices(m);
  add_streams(m);
  add_cuda_memory(m);
  add_cuda_ipc(m);
  add_cuda_kernels(m);
  add_storage(m);
  add_graphs(m);
  add_setting<&Settings::matmul_tf32>(m, "matmul_tf32");
  add_setting<&Settings::split_float32>(m, "split_float32");
  add_setting<&Settings::convolution_tf32>(m, "convolution_tf32");
  add_setting<&Settings::cudnn_enabled>(m, "cudnn_enabled");
  add_setting<&Settings::cudnn_benchmark>(m, "cudnn_benchmark");
  add_setting<&Settings::cudnn_deterministic>(m, "cudnn_deterministic");
  add_setting<&Settings::deterministic_algorithms>(m, "deterministic_algorithms");
  m.def("cudnn_version", cudnn_version);
  m.def("fft_plans", [](int device) { return fft_plan_counts(device).plans; });
  m.def("most_fft_plans", [](int device) { return fft_plan_counts(device).most; });
  m.def("set_most_fft_plans", set_most_fft_plans);
  m.def("clear_fft_plans", clear_fft_plans);
  m.def("nvrtc_missing", nvrtc_missing);
  m.def("nvrtc_version", nvrtc_version);
  m.def("loaded_kernels", [] {
    nb::list out;
    for (const auto& [file, expression] : loaded_kernels())
      out.append(nb::make_tuple(file, expression));
    return out;
  });
  m.def("kernel_cache_folder", KernelCache::default_folder);
  m.def("find_kernel", [](const std::string& file, const std::string& expression, int arch) {
    const CachedKernel k = find_kernel(file, expression, arch);
    return nb::make_tuple(k.name, nb::bytes(k.cubin.data(), k.cubin.size()));
  });
  // See Note [Compiling beside the program]. Python has few places for such functions; where none is
  // left, the main thread's end has to do.
  Py_AtExit(stop_compiling);
  return init_cuda_arrays();
}

}  // namespace rush::py
