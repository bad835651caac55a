// fake_nccl.cpp: a libnccl.so.2 for the fake driver, in which bytes really go from process to
// process: through files in the folder that FAKE_NCCL_FOLDER names.
//
// - Operations are queued in streams (cuLaunchHostFunc) and run behind the program; one whose other
//   ranks do not come stands in its stream until the communicator is aborted, as a kernel would.
// - A send ends when the other rank has taken it, so that ranks which wait for each other do.
// - The first message of a communicator between two ranks keeps the host until both have called.
// - Where FAKE_NCCL_MESSAGES names a file, messages are noted there as they are queued.
// - With FAKE_NCCL_FAIL=n the n-th collective of a communicator fails behind the program.
//
// Compiled by tests/fake_gpu against the declarations of csrc/distributed/nccl/nccl_library.h.
#include "distributed/nccl/nccl_library.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <thread>
#include <tuple>

using rush::cuda::CUstream;
namespace fs = std::filesystem;

struct rush::distributed::nccl::ncclComm {
  fs::path folder;
  int rank, size;
  long collectives = 0;
  std::map<std::pair<int, int>, long> sent, received;
  std::set<std::tuple<int, int, bool>> connected;  // who sends to whom, and which end this is
  std::atomic<bool> aborted{false};
  std::atomic<int> error{kOk};
};
using namespace rush::distributed::nccl;

namespace {

using Bytes = std::string;

bool nap(ncclComm& c) {
  std::this_thread::sleep_for(std::chrono::microseconds(100));
  return !c.aborted;
}

// Whole files only: written beside, then named.
void write_file(const fs::path& path, const Bytes& bytes) {
  const fs::path beside = path.string() + ".new";
  std::ofstream(beside, std::ios::binary).write(bytes.data(), std::streamsize(bytes.size()));
  fs::rename(beside, path);
}
Bytes read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
bool await_file(ncclComm& c, const fs::path& path) {
  while (!fs::exists(path))
    if (!nap(c)) return false;
  return true;
}

size_t width(DataType t) {
  constexpr size_t widths[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return widths[t];
}

float from_half(uint16_t bits, bool brain) {
  if (brain) {
    const uint32_t wide = uint32_t(bits) << 16;
    float f;
    std::memcpy(&f, &wide, 4);
    return f;
  }
  _Float16 h;
  std::memcpy(&h, &bits, 2);
  return float(h);
}
uint16_t to_half(float f, bool brain) {
  uint16_t bits;
  if (brain) {
    uint32_t wide;
    std::memcpy(&wide, &f, 4);
    return uint16_t((wide + 0x7fff + ((wide >> 16) & 1)) >> 16);
  }
  const _Float16 h = _Float16(f);
  std::memcpy(&bits, &h, 2);
  return bits;
}

template <class T>
T combined(T a, T b, RedOp op) {
  return op == kProd  ? T(a * b)
         : op == kMax ? std::max(a, b)
         : op == kMin ? std::min(a, b)
                      : T(a + b);
}

template <class T>
void reduce_plain(const std::vector<Bytes>& parts, T* out, size_t count, RedOp op) {
  for (size_t i = 0; i < count; ++i) {
    T sum = reinterpret_cast<const T*>(parts[0].data())[i];
    for (size_t r = 1; r < parts.size(); ++r)
      sum = combined(sum, reinterpret_cast<const T*>(parts[r].data())[i], op);
    out[i] = op == kAvg ? T(sum / T(parts.size())) : sum;
  }
}

void reduce_halves(const std::vector<Bytes>& parts, uint16_t* out, size_t count, RedOp op,
                   bool brain) {
  for (size_t i = 0; i < count; ++i) {
    float sum = from_half(reinterpret_cast<const uint16_t*>(parts[0].data())[i], brain);
    for (size_t r = 1; r < parts.size(); ++r)
      sum = combined(sum, from_half(reinterpret_cast<const uint16_t*>(parts[r].data())[i], brain),
                     op);
    out[i] = to_half(op == kAvg ? sum / float(parts.size()) : sum, brain);
  }
}

void reduce(const std::vector<Bytes>& parts, void* out, size_t count, DataType type, RedOp op) {
  switch (type) {
    case kInt8:
      return reduce_plain(parts, static_cast<int8_t*>(out), count, op);
    case kUint8:
      return reduce_plain(parts, static_cast<uint8_t*>(out), count, op);
    case kInt32:
      return reduce_plain(parts, static_cast<int32_t*>(out), count, op);
    case kUint32:
      return reduce_plain(parts, static_cast<uint32_t*>(out), count, op);
    case kInt64:
      return reduce_plain(parts, static_cast<int64_t*>(out), count, op);
    case kUint64:
      return reduce_plain(parts, static_cast<uint64_t*>(out), count, op);
    case kFloat32:
      return reduce_plain(parts, static_cast<float*>(out), count, op);
    case kFloat64:
      return reduce_plain(parts, static_cast<double*>(out), count, op);
    default:
      return reduce_halves(parts, static_cast<uint16_t*>(out), count, op, type == kBFloat16);
  }
}

struct Call {
  CUstream stream;
  ncclComm* comm;
  // Begins (a send writes its file), then ends (and waits until it is taken). All of a group begin
  // before one of them ends, and sends end last, as they would run at the same time.
  std::function<void()> begin, end;
  bool sends = false;
  int from = -1, to = -1;  // of a message
};
thread_local int t_depth = 0;
thread_local std::vector<Call> t_calls;

// All of a group call before one of them waits.
bool connect(const std::vector<Call>& calls) {
  std::vector<std::pair<ncclComm*, fs::path>> awaited;
  for (const Call& call : calls) {
    ncclComm& c = *call.comm;
    if (call.from < 0 || !c.connected.insert({call.from, call.to, call.sends}).second) continue;
    const std::string name = "p" + std::to_string(call.from) + "." + std::to_string(call.to);
    write_file(c.folder / (name + (call.sends ? ".sends" : ".receives")), "");
    awaited.emplace_back(&c, c.folder / (name + (call.sends ? ".receives" : ".sends")));
  }
  for (const auto& [c, path] : awaited)
    if (!await_file(*c, path)) return false;
  return true;
}

Result launch(std::vector<Call> calls) {
  if (!connect(calls)) return kRemoteError;
  using Launch = int (*)(CUstream, void (*)(void*), void*);
  static const auto host_function =
      reinterpret_cast<Launch>(dlsym(dlopen("libcuda.so", RTLD_NOW), "cuLaunchHostFunc"));
  const CUstream stream = calls[0].stream;
  auto* kept = new std::vector<Call>(std::move(calls));
  host_function(
      stream,
      [](void* data) {
        auto* group = static_cast<std::vector<Call>*>(data);
        for (const Call& c : *group) c.begin();
        for (const bool sends : {false, true})
          for (const Call& c : *group)
            if (c.sends == sends) c.end();
        delete group;
      },
      kept);
  return kOk;
}

Result add(Call call) {
  if (call.comm->aborted) return kInvalidUsage;
  t_calls.push_back(std::move(call));
  if (t_depth > 0) return kOk;
  std::vector<Call> one = std::move(t_calls);
  t_calls.clear();
  return launch(std::move(one));
}

// All ranks' bytes, once they are there.
using Use = std::function<void(const std::vector<Bytes>&)>;
Result collective(ncclComm* c, CUstream stream, const void* in, size_t bytes, Use use) {
  const long number = ++c->collectives;
  const char* fail = std::getenv("FAKE_NCCL_FAIL");
  const bool fails = fail && std::atol(fail) == number;
  const auto place = [c](long n, int r) {
    return c->folder / ("c" + std::to_string(n) + "." + std::to_string(r));
  };
  const auto begin = [=] {
    if (fails)
      c->error = kRemoteError;
    else
      write_file(place(number, c->rank), Bytes(static_cast<const char*>(in), in ? bytes : 0));
  };
  const auto end = [=] {
    std::vector<Bytes> parts;
    for (int r = 0; r < c->size; ++r) {
      while (fails && nap(*c)) {
      }
      if (!await_file(*c, place(number, r))) return;
      parts.push_back(read_file(place(number, r)));
    }
    use(parts);
    // Whoever is here has read all of the one before.
    std::error_code ignored;
    fs::remove(place(number - 1, c->rank), ignored);
  };
  return add({stream, c, begin, end});
}

fs::path message_at(ncclComm* c, int from, int to, std::map<std::pair<int, int>, long>& counts) {
  if (const char* path = std::getenv("FAKE_NCCL_MESSAGES"))
    std::ofstream(path, std::ios::app) << (from == c->rank ? "send\n" : "receive\n");
  const long number = ++counts[{from, to}];
  return c->folder /
         ("m" + std::to_string(from) + "." + std::to_string(to) + "." + std::to_string(number));
}

}  // namespace

#define FAKE(type, name) extern "C" __attribute__((visibility("default"))) type name

FAKE(Result, ncclGetVersion)(int* version) {
  *version = 22800;
  return kOk;
}
FAKE(const char*, ncclGetErrorString)(Result r) {
  return r == kRemoteError ? "remote process exited or there was a network error" : "fake error";
}
FAKE(const char*, ncclGetLastError)(Comm) { return ""; }
FAKE(Result, ncclGetUniqueId)(UniqueId* id) {
  static std::atomic<int> count{0};
  std::memset(id->bytes, 0, sizeof id->bytes);
  std::snprintf(id->bytes, sizeof id->bytes, "%d.%d", int(getpid()), ++count);
  return kOk;
}
FAKE(Result, ncclCommInitRank)(Comm* comm, int size, UniqueId id, int rank) {
  auto* c = new ncclComm;
  c->folder = fs::path(std::getenv("FAKE_NCCL_FOLDER")) / id.bytes;
  c->rank = rank;
  c->size = size;
  fs::create_directories(c->folder);
  write_file(c->folder / ("rank" + std::to_string(rank)), "");
  for (int r = 0; r < size; ++r)
    if (!await_file(*c, c->folder / ("rank" + std::to_string(r)))) return kRemoteError;
  *comm = c;
  return kOk;
}
FAKE(Result, ncclCommFinalize)(Comm) { return kOk; }
FAKE(Result, ncclCommDestroy)(Comm) { return kOk; }  // (leaked: streams may still point to it)
FAKE(Result, ncclCommAbort)(Comm c) {
  c->aborted = true;
  return kOk;
}
FAKE(Result, ncclCommGetAsyncError)(Comm c, Result* error) {
  *error = Result(c->error.load());
  return kOk;
}
FAKE(Result, ncclGroupStart)() {
  ++t_depth;
  return kOk;
}
FAKE(Result, ncclGroupEnd)() {
  if (--t_depth > 0 || t_calls.empty()) return kOk;
  std::vector<Call> calls = std::move(t_calls);
  t_calls.clear();
  return launch(std::move(calls));
}
FAKE(Result, ncclAllReduce)(const void* in, void* out, size_t n, DataType t, RedOp op, Comm c,
                            CUstream s) {
  return collective(c, s, in, n * width(t), [=](const auto& all) { reduce(all, out, n, t, op); });
}
FAKE(Result, ncclReduce)(const void* in, void* out, size_t n, DataType t, RedOp op, int root,
                         Comm c, CUstream s) {
  return collective(c, s, in, n * width(t), [=](const auto& all) {
    if (c->rank == root) reduce(all, out, n, t, op);
  });
}
FAKE(Result, ncclReduceScatter)(const void* in, void* out, size_t n, DataType t, RedOp op, Comm c,
                                CUstream s) {
  const size_t each = n * width(t);
  return collective(c, s, in, each * size_t(c->size), [=](const auto& all) {
    std::vector<Bytes> parts;
    for (const Bytes& b : all) parts.push_back(b.substr(each * size_t(c->rank), each));
    reduce(parts, out, n, t, op);
  });
}
FAKE(Result, ncclBroadcast)(const void* in, void* out, size_t n, DataType t, int root, Comm c,
                            CUstream s) {
  return collective(c, s, in, n * width(t), [=](const auto& all) {
    std::memcpy(out, all[size_t(root)].data(), n * width(t));
  });
}
FAKE(Result, ncclAllGather)(const void* in, void* out, size_t n, DataType t, Comm c, CUstream s) {
  return collective(c, s, in, n * width(t), [=](const auto& all) {
    for (size_t r = 0; r < all.size(); ++r)
      std::memcpy(static_cast<char*>(out) + r * n * width(t), all[r].data(), n * width(t));
  });
}
FAKE(Result, ncclSend)(const void* in, size_t n, DataType t, int peer, Comm c, CUstream s) {
  const fs::path path = message_at(c, c->rank, peer, c->sent);
  const auto begin = [=] { write_file(path, Bytes(static_cast<const char*>(in), n * width(t))); };
  const auto end = [=] {
    while (fs::exists(path) && nap(*c)) {
    }
  };
  return add({s, c, begin, end, true, c->rank, peer});
}
FAKE(Result, ncclRecv)(void* out, size_t n, DataType t, int peer, Comm c, CUstream s) {
  const fs::path path = message_at(c, peer, c->rank, c->received);
  const auto end = [=] {
    if (!await_file(*c, path)) return;
    const Bytes bytes = read_file(path);
    std::memcpy(out, bytes.data(), std::min(bytes.size(), n * width(t)));
    fs::remove(path);
  };
  return add({s, c, [] {}, end, false, peer, c->rank});
}
