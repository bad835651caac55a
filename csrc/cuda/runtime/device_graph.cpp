// The GPU's answers to device/graph.h.
#include "device/graph.h"

#include <array>
#include <atomic>
#include <utility>

#include "cuda/runtime/compile_thread.h"
#include "cuda/runtime/graph.h"
#include "cuda/runtime/settings.h"
#include "device/nn/attention.h"

namespace rush::cuda {
namespace {

// A stream that no program is given: whatever is queued on it belongs to a recording. One recording
// at a time uses it.
Stream* recording_stream(int device) {
  static auto* streams = new std::array<std::atomic<Stream*>, kMaxDevices>{};
  std::atomic<Stream*>& place = (*streams)[size_t(device)];
  if (Stream* known = place.load(std::memory_order_acquire)) return known;
  Stream *fresh = private_stream(device), *known = nullptr;
  return place.compare_exchange_strong(known, fresh) ? fresh : known;
}

class CudaGraph final : public DeviceGraph {
 public:
  CudaGraph(int device, int64_t memory) : device_(device), memory_(memory) {}
  ~CudaGraph() override { abort(); }

  void begin() override {
    before_ = current_stream(device_);
    device_before_ = current_device();
    set_current_device(device_);
    set_current_stream(recording_stream(device_));
    try {
      graph_.capture_begin({0, memory_}, kCaptureThreadLocal);
    } catch (...) {
      leave();
      throw;
    }
  }
  void end() override {
    try {
      graph_.capture_end();
    } catch (...) {
      abort();
      throw;
    }
    leave();
  }
  void abort() noexcept override {
    graph_.capture_abort();
    leave();
  }
  void replay() override {
    if (graph_.node_count() > 0) graph_.replay();
  }
  size_t nodes() const override { return graph_.node_count(); }

 private:
  void leave() noexcept {
    if (!before_) return;
    Stream* before = std::exchange(before_, nullptr);
    for (int attempt = 0; attempt < 2; ++attempt) {
      try {
        set_current_stream(before);  // runs what is pending first, and that may fail
        break;
      } catch (const std::exception&) {
      }
    }
    set_current_device(device_before_);
  }

  const int device_;
  const int64_t memory_;
  Graph graph_;
  Stream* before_ = nullptr;  // while it is recorded
  int device_before_ = -1;
};

uint64_t switches() {
  const Settings& s = settings();
  uint64_t bits = attention_backends();
  for (const bool on : {s.matmul_tf32.load(), s.split_float32.load(), s.convolution_tf32.load(),
                        s.cudnn_enabled.load(), s.cudnn_benchmark.load(),
                        s.cudnn_deterministic.load(), s.deterministic_algorithms.load()})
    bits = bits << 1 | uint64_t(on);
  return bits;
}

const bool g_registered = [] {
  device_graphs(DeviceType::CUDA) = {
      .make = [](Device device, int64_t memory) -> std::unique_ptr<DeviceGraph> {
        return std::make_unique<CudaGraph>(device.index, memory);
      },
      .new_memory = [] { return new_pool_id().second; },
      .switches = switches,
      .awaits_code = [] { return !CompileThread::get().is_idle(); },
      .missed_code = [] { return CompileThread::get().missed(); },
  };
  return true;
}();

}  // namespace
}  // namespace rush::cuda
