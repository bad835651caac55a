#include "cuda/runtime/ipc.h"

#include <unistd.h>

#include <cstring>
#include <map>
#include <memory>
#include <random>

#include "core/error.h"
#include "core/layout.h"
#include "core/mutex.h"
#include "cuda/runtime/capture.h"
#include "cuda/runtime/foreign.h"
#include "cuda/runtime/memory.h"
#include "cuda/runtime/stream.h"

namespace rush::cuda {
namespace {

constexpr const char* kName = "sharing GPU memory";

uint64_t this_process() {
  static const uint64_t number = [] {
    std::random_device device;
    return uint64_t(device()) << 32 | device();
  }();
  return number;
}

template <class T>
std::string bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}
CUipcHandle handle_from(const std::string& bytes) {
  CUipcHandle handle{};
  check(bytes.size() == sizeof handle, ErrorKind::Value, kName, "a handle has ", sizeof handle,
        " bytes, got ", bytes.size());
  std::memcpy(&handle, bytes.data(), sizeof handle);
  return handle;
}

// ---- sending ----

// A point behind what this thread's stream has queued, which other processes can wait for; empty
// where the system has no such events: then the work is done.
std::string point_behind(Stream* stream) {
  static Mutex mutex{LockRank::Streams};
  static auto* events = new std::map<Stream*, std::unique_ptr<Event>>;
  flush_pending("memory is sent to another process");  // takes locks that come before this one
  std::lock_guard lock(mutex);
  auto& event = (*events)[stream];
  if (!event) event = std::make_unique<Event>(false, true);
  try {
    event->record(stream);
    CUipcHandle handle{};
    if (driver().IpcGetEventHandle(&handle, event->handle()) == kSuccess) return bytes_of(handle);
  } catch (const Error&) {
  }
  synchronize(stream);
  return {};
}

// ---- receiving ----

struct MirroredPiece {
  uint64_t serial;
  size_t nbytes;
  CUmemHandle handle;
};
struct Mirror {
  CUdeviceptr base = 0;
  size_t size = 0;
  std::map<uint64_t, MirroredPiece> pieces;  // by place
};
struct OpenSegment {
  CUdeviceptr base;
  int64_t users;
};
// What other processes' memory is mapped here; stays until the process ends.
struct Received {
  Mutex mutex{LockRank::Streams};
  std::map<std::pair<uint64_t, uint64_t>, Mirror> mirrors;  // by (process, range)
  std::map<std::string, OpenSegment> segments;              // by the driver's handle
  std::map<std::string, CUevent> events;
};
Received& received() {
  static auto* r = new Received;
  return *r;
}

// Replaces whatever lay in the way: the sender cannot have used a place twice while we held it.
void map_piece(Mirror& m, const SharedPiece& piece, int device) {
  for (auto at = m.pieces.begin(); at != m.pieces.end();) {
    const bool apart =
        at->first + at->second.nbytes <= piece.place || piece.place + piece.nbytes <= at->first;
    if (apart) {
      ++at;
      continue;
    }
    driver().MemUnmap(m.base + at->first, at->second.nbytes);
    driver().MemRelease(at->second.handle);
    at = m.pieces.erase(at);
  }
  CUmemHandle handle = 0;
  must(driver().MemImport(&handle, reinterpret_cast<void*>(intptr_t(piece.descriptor)),
                          kHandleFileDescriptor),
       kName);
  const CUmemAccess access{{kLocationDevice, device}, kAccessReadWrite};
  CUresult done = driver().MemMap(m.base + piece.place, piece.nbytes, 0, handle, 0);
  if (done == kSuccess) {
    done = driver().MemSetAccess(m.base + piece.place, piece.nbytes, &access, 1);
    if (done != kSuccess) driver().MemUnmap(m.base + piece.place, piece.nbytes);
  }
  if (done != kSuccess) driver().MemRelease(handle);
  must(done, kName);
  m.pieces[piece.place] = {piece.serial, size_t(piece.nbytes), handle};
}

CUdeviceptr open_pieces(const SharedBlock& b) {
  Received& r = received();
  std::lock_guard lock(r.mutex);
  const RelaxedCapture relaxed;
  Mirror& m = r.mirrors[{b.process, b.range}];
  if (!m.base) {
    must(driver().MemAddressReserve(&m.base, b.range_size, 0, 0, 0), kName);
    m.size = b.range_size;
  }
  for (const SharedPiece& piece : b.pieces) {
    const auto known = m.pieces.find(piece.place);
    if (known != m.pieces.end() && known->second.serial == piece.serial) continue;
    check(piece.descriptor >= 0, ErrorKind::Runtime, kName,
          "a piece of the memory did not arrive with the message");
    check(piece.place + piece.nbytes <= m.size, ErrorKind::Value, kName,
          "a piece lies outside of its range");
    map_piece(m, piece, b.device);
  }
  return m.base + b.offset;
}

CUdeviceptr open_segment(const SharedBlock& b) {
  Received& r = received();
  std::lock_guard lock(r.mutex);
  const RelaxedCapture relaxed;
  auto found = r.segments.find(b.handle);
  if (found == r.segments.end()) {
    CUdeviceptr base = 0;
    must(driver().IpcOpenMemHandle(&base, handle_from(b.handle), kIpcLazyPeerAccess), kName);
    found = r.segments.emplace(b.handle, OpenSegment{base, 0}).first;
  }
  ++found->second.users;
  return found->second.base + b.offset;
}

void close_segment(const std::string& handle) noexcept {
  Received& r = received();
  std::lock_guard lock(r.mutex);
  const auto found = r.segments.find(handle);
  if (found == r.segments.end() || --found->second.users > 0) return;
  const RelaxedCapture relaxed;
  driver().IpcCloseMemHandle(found->second.base);
  r.segments.erase(found);
}

void wait_for_sender(const std::string& bytes, int device) {
  if (bytes.empty()) return;
  Received& r = received();
  std::lock_guard lock(r.mutex);
  CUevent& event = r.events[bytes];
  if (!event) {
    const RelaxedCapture relaxed;
    must(driver().IpcOpenEventHandle(&event, handle_from(bytes)), kName);
  }
  must(driver().StreamWaitEvent(current_stream(device)->handle(), event, 0), kName);
}

struct Holder {
  int device;
  std::string segment;
  void (*released)(void*);
  void* context;
};

void let_go(void* p) {
  std::unique_ptr<Holder> holder(static_cast<Holder*>(p));
  if (!holder->segment.empty()) close_segment(holder->segment);
  holder->released(holder->context);
}

// The sender uses the block again as soon as it hears that we are done: our queued work must be.
void release_received(void* p) noexcept {
  release_when_passed(static_cast<Holder*>(p)->device, let_go, p);
}

}  // namespace

SharedBlock share_block(const Storage& storage) {
  check(storage.device().is_cuda() && !storage.is_foreign(), ErrorKind::Runtime, kName,
        "only memory of the library's own can be sent to another process: clone() the tensor");
  const int device = storage.device().index;
  bind(device);
  refuse_capture(kName, "the memory of a graph is its own");
  auto* arena = static_cast<Arena*>(storage.home());
  check(!arena->owner, ErrorKind::Runtime, kName,
        "the tensor lies in the memory of a CUDA graph; clone() it first");
  check(gpu_caching(), ErrorKind::Runtime, kName, "the caching allocator is switched off");
  SharedBlock b{};
  b.process = this_process();
  b.device = device;
  b.nbytes = storage.nbytes();
  if (b.nbytes == 0) return b;
  CachingPool& pool = arena->pool_for(storage.nbytes());
  const auto [base, size] = pool.segment_of(storage.data());
  b.range = reinterpret_cast<uint64_t>(base);
  b.offset = uint64_t(static_cast<char*>(storage.data()) - base);
  for (const auto& piece : pool.pieces_behind(storage.data(), storage.nbytes())) {
    int descriptor = -1;
    const CUresult done = driver().MemExport(&descriptor, piece.piece, kHandleFileDescriptor, 0);
    if (done != kSuccess) {
      for (const SharedPiece& open : b.pieces) close(open.descriptor);
      fail(ErrorKind::Runtime, kName, "the driver cannot share this memory: ", describe(done),
           ". Switch expandable segments off (rushlight.config.cuda_expandable_segments = False) "
           "before the first tensor, or send tensor.cpu()");
    }
    b.pieces.push_back({piece.serial, uint64_t(piece.p - base), piece.size, descriptor});
  }
  if (b.pieces.empty()) {
    CUipcHandle handle{};
    must(driver().IpcGetMemHandle(&handle, reinterpret_cast<CUdeviceptr>(base)), kName);
    b.handle = bytes_of(handle);
  } else {
    b.range_size = size;
  }
  b.event = point_behind(current_stream(device));
  return b;
}

bool has_piece(uint64_t process, uint64_t range, uint64_t serial) {
  Received& r = received();
  std::lock_guard lock(r.mutex);
  const auto found = r.mirrors.find({process, range});
  if (found == r.mirrors.end()) return false;
  for (const auto& [place, piece] : found->second.pieces)
    if (piece.serial == serial) return true;
  return false;
}

Ref<Storage> open_block(const SharedBlock& b, void (*released)(void*), void* context) {
  check(b.process != this_process(), ErrorKind::Runtime, kName,
        "the memory came back to the process that sent it");
  const int device = check_device(kName, b.device);
  bind(device);
  refuse_capture(kName, "memory cannot be mapped meanwhile");
  CUdeviceptr p = 0;
  if (b.nbytes) p = b.range_size ? open_pieces(b) : open_segment(b);
  wait_for_sender(b.event, device);
  auto holder = std::make_unique<Holder>(Holder{device, b.handle, released, context});
  auto storage =
      Storage::wrap(reinterpret_cast<void*>(p), b.nbytes, Device{DeviceType::CUDA, int8_t(device)},
                    release_received, holder.get());
  holder.release();
  return storage;
}

bool is_received(const Storage& storage) { return storage.deleter() == release_received; }

}  // namespace rush::cuda
