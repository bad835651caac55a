#include "cuda/runtime/library_call.h"

#include <utility>

#include "cuda/runtime/device.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/stream.h"

namespace rush::cuda {
namespace {

// A stream that nothing else is queued on.
CUstream capture_stream(int device) {
  static auto* streams = new std::array<CUstream, kMaxDevices>{};
  CUstream& mine = (*streams)[size_t(device)];
  if (!mine && driver().StreamCreate(&mine, kStreamNonBlocking, 0) != kSuccess) mine = nullptr;
  return mine;
}

// Null: the library, or the driver, would not. Whatever is wrong with the call, the caller learns it
// by making it.
CUgraph capture(int device, const CallRun& call) {
  const CUstream stream = capture_stream(device);
  if (!stream) return nullptr;
  // (Relaxed: a library may load a kernel meanwhile.)
  if (driver().StreamBeginCapture(stream, kCaptureRelaxed) != kSuccess) return nullptr;
  bool made = true;
  try {
    call.run(call.self, stream);
  } catch (const std::exception&) {
    made = false;
  }
  CUgraph graph = nullptr;
  if (driver().StreamEndCapture(stream, &graph) != kSuccess) graph = nullptr;
  if (graph && !made) driver().GraphDestroy(std::exchange(graph, nullptr));
  return graph;
}

}  // namespace

uint64_t CallKey::hash() const {
  uint64_t h = count_;
  for (size_t i = 0; i < count_; ++i) {
    h = (h ^ words_[i]) * 0x9E3779B97F4A7C15ull;
    h ^= h >> 29;
  }
  return h;
}

const CapturedCall* CapturedCalls::find(const CallKey& key, int device, const CallRun& call) {
  if (const auto at = known_.find(key); at != known_.end())
    return at->second.graph ? &at->second : nullptr;
  const uint64_t hash = key.hash();
  if (std::exchange(seen_[hash % kSightings], hash) != hash) return nullptr;
  const CapturedCall& made =
      known_.emplace(key, CapturedCall{++last_, capture(device, call)}).first->second;
  return made.graph ? &made : nullptr;
}

CUresult CapturedCalls::queue(const CapturedCall& call, CUstream stream) {
  if (!call.exec)
    if (const CUresult r = driver().GraphInstantiate(&call.exec, call.graph, 0)) return r;
  return driver().GraphLaunch(call.exec, stream);
}

void CapturedCalls::clear() noexcept {
  for (const auto& [key, call] : known_) {
    if (call.exec) driver().GraphExecDestroy(call.exec);
    if (call.graph) driver().GraphDestroy(call.graph);
  }
  known_.clear();
}

void make_call(Stream* stream, const CallRun& call) {
  bind(stream->device);
  call.run(call.self, stream->handle());
  after_launch(stream);
}

}  // namespace rush::cuda
