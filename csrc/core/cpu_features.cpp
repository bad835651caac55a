#include "core/cpu_features.h"

#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/mutex.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace rush {

namespace {

struct Detected {
  IsaLevel level = IsaLevel::Baseline;
  bool avx512_bf16 = false;
  bool amx_claimed = false;  // CPUID, XCR0 and a non-empty tile palette; not yet executed
};

#if defined(__x86_64__)

struct CpuidWords {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

CpuidWords cpuid(unsigned leaf, unsigned subleaf) {
  CpuidWords w;
  __get_cpuid_count(leaf, subleaf, &w.a, &w.b, &w.c, &w.d);
  return w;
}

bool bit(unsigned word, int index) { return (word >> index) & 1u; }

// Which register files the operating system saves. Inline assembly, since the intrinsic would need
// this file to be compiled with -mxsave.
uint64_t saved_state() {
  unsigned lo = 0, hi = 0;
  __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
  return (uint64_t(hi) << 32) | lo;
}

Detected detect() {
  Detected out;
  const CpuidWords one = cpuid(1, 0);
  const bool osxsave = bit(one.c, 27);
  if (!osxsave) return out;
  const uint64_t saved = saved_state();
  const bool saves_ymm = (saved & 0x6) == 0x6, saves_zmm = (saved & 0xe6) == 0xe6;
  const bool saves_tiles = (saved & 0x60000) == 0x60000;

  const CpuidWords seven = cpuid(7, 0), seven_one = cpuid(7, 1);
  const bool fma = bit(one.c, 12), f16c = bit(one.c, 29), avx = bit(one.c, 28);
  const bool bmi = bit(seven.b, 3) && bit(seven.b, 8), avx2 = bit(seven.b, 5);
  if (!(saves_ymm && avx && avx2 && fma && f16c && bmi)) return out;
  out.level = IsaLevel::Avx2;

  const bool f = bit(seven.b, 16), dq = bit(seven.b, 17), cd = bit(seven.b, 28);
  const bool bw = bit(seven.b, 30), vl = bit(seven.b, 31);
  if (!(saves_zmm && f && dq && cd && bw && vl)) return out;
  out.level = IsaLevel::Avx512;
  out.avx512_bf16 = bit(seven_one.a, 5);

  const bool amx_bf16 = bit(seven.d, 22), amx_tile = bit(seven.d, 24);
  const bool has_palette = cpuid(0x1d, 0).a >= 1 && cpuid(0x1d, 1).a != 0;
  out.amx_claimed = saves_tiles && amx_bf16 && amx_tile && has_palette;
  return out;
}

#else

Detected detect() { return {}; }

#endif

const Detected& detected() {
  static const Detected value = detect();
  return value;
}

constinit Mutex g_level_mutex{LockRank::IsaLevel};

IsaLevel environment_limit() {
  const char* text = std::getenv("RUSHLIGHT_ISA");
  if (text == nullptr || *text == '\0') return IsaLevel::Avx512;
  for (IsaLevel level : {IsaLevel::Baseline, IsaLevel::Avx2, IsaLevel::Avx512})
    if (std::string_view(text) == isa_name(level)) return level;
  fail(ErrorKind::Argument, "RUSHLIGHT_ISA", "expected baseline, avx2 or avx512, got '", text, "'");
}

}  // namespace

constinit std::atomic<int> detail::g_isa_level{-1};

IsaLevel detail::choose_isa_level() {
  std::lock_guard lock(g_level_mutex);
  if (const int level = g_isa_level.load(); level >= 0) return IsaLevel(level);
  const IsaLevel level = std::min(detected().level, environment_limit());
  g_isa_level.store(int(level));
  return level;
}

const char* isa_name(IsaLevel level) {
  switch (level) {
    case IsaLevel::Baseline:
      return "baseline";
    case IsaLevel::Avx2:
      return "avx2";
    case IsaLevel::Avx512:
      return "avx512";
  }
  return "unknown";
}

IsaLevel processor_isa_level() { return detected().level; }

void set_isa_level(IsaLevel level) {
  check(level <= detected().level, ErrorKind::Argument, "set_isa_level", "the processor has ",
        isa_name(detected().level), ", and not ", isa_name(level));
  std::lock_guard lock(g_level_mutex);
  detail::g_isa_level.store(int(level));
}

bool has_avx512_bf16() { return isa_level() == IsaLevel::Avx512 && detected().avx512_bf16; }

// ---- Executing code that may trap --------------------------------------------------------------
//
// A forked child would be the cleaner room, but forking a process that may hold gigabytes and a GPU
// costs milliseconds and runs everyone's fork handlers. So: a handler for the time of the probe,
// which jumps only when the probing thread itself trapped and otherwise restores what was there,
// so that a genuine crash of another thread ends as it would have ended.

namespace {

constexpr int kTraps[] = {SIGILL, SIGSEGV, SIGBUS};
constinit Mutex g_probe_mutex{LockRank::Probe};
constinit thread_local bool t_probing = false;
sigjmp_buf g_probe_return;
struct sigaction g_previous[3];

void on_trap(int signal) {
  if (t_probing) siglongjmp(g_probe_return, 1);
  for (int i = 0; i < 3; ++i)
    if (kTraps[i] == signal) sigaction(signal, &g_previous[i], nullptr);  // the trap repeats
}

}  // namespace

bool detail::runs_without_trap(void (*code)()) {
  std::lock_guard lock(g_probe_mutex);
  struct sigaction action;
  std::memset(&action, 0, sizeof action);
  action.sa_handler = on_trap;
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < 3; ++i) sigaction(kTraps[i], &action, &g_previous[i]);
  volatile bool ok = false;
  t_probing = true;
  if (sigsetjmp(g_probe_return, 1) == 0) {
    code();
    ok = true;
  }
  t_probing = false;
  for (int i = 0; i < 3; ++i) sigaction(kTraps[i], &g_previous[i], nullptr);
  return ok;
}

#if defined(__x86_64__)

namespace {

// One product of ones: (16x32) @ (32x16) in bfloat16 gives 32 everywhere.
constinit bool g_tiles_right = false;

__attribute__((target("amx-tile,amx-bf16"))) void multiply_tiles() {
  struct alignas(64) Config {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t bytes_a_row[16] = {64, 64, 64};
    uint8_t rows[16] = {16, 16, 16};
  };
  const Config config;
  alignas(64) uint16_t ones[16 * 32];
  alignas(64) float product[16 * 16];
  for (uint16_t& one : ones) one = 0x3f80;
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_loadd(1, ones, 64);
  _tile_loadd(2, ones, 64);
  _tile_dpbf16ps(0, 1, 2);
  _tile_stored(0, product, 64);
  _tile_release();
  bool right = true;
  for (float p : product) right = right && p == 32.0f;
  g_tiles_right = right;
}

bool probe_amx() {
  constexpr int kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XTILEDATA
  if (!detected().amx_claimed) return false;
  if (syscall(SYS_arch_prctl, kRequestPermission, kTileData) != 0) return false;
  return detail::runs_without_trap(multiply_tiles) && g_tiles_right;
}

}  // namespace

bool amx_usable() {
  static const bool usable = probe_amx();
  return usable && isa_level() == IsaLevel::Avx512;
}

#else

bool amx_usable() { return false; }

#endif

int physical_cores() {
  static const int count = [] {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
      const long online = sysconf(_SC_NPROCESSORS_ONLN);
      return online > 0 ? int(online) : 1;
    }
    std::set<std::pair<int, int>> cores;  // (package, core)
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &allowed)) continue;
      const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
      int package = -1, core = -1;
      const bool known = (std::ifstream(folder + "physical_package_id") >> package) &&
                         (std::ifstream(folder + "core_id") >> core);
      cores.insert(known ? std::pair(package, core) : std::pair(-1, cpu));
    }
    return cores.empty() ? 1 : int(cores.size());
  }();
  return count;
}

}  // namespace rush
