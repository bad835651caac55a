#include "cuda/runtime/driver.h"

#include "core/dynamic_library.h"
#include "core/error.h"

namespace rush::cuda {

const Driver* g_driver = nullptr;

namespace {

// Virtual memory, graphs and cubins of every architecture we compile for are in it.
constexpr int kOldestDriver = 12000;

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Driver open() {
  Driver d;
  void* library = open_library({"libcuda.so.1", "libcuda.so"}, {""});
  if (!library) {
    d.missing = "no NVIDIA driver: libcuda.so.1 was not found";
    return d;
  }
  const char* absent = nullptr;
#define RUSH_LOAD(symbol, name, params)                                          \
  d.name = reinterpret_cast<decltype(d.name)>(library_symbol(library, #symbol)); \
  if (!d.name && !absent) absent = #symbol;
  RUSH_CUDA_DRIVER(RUSH_LOAD)
#undef RUSH_LOAD
  d.can_batch = true;
#define RUSH_LOAD_NEWER(symbol, name, params)                                    \
  d.name = reinterpret_cast<decltype(d.name)>(library_symbol(library, #symbol)); \
  d.can_batch = d.can_batch && d.name;
  RUSH_CUDA_DRIVER_NEWER(RUSH_LOAD_NEWER)
#undef RUSH_LOAD_NEWER
  int version = 0;
  if (d.DriverGetVersion) d.DriverGetVersion(&version);
  if (version < kOldestDriver) {
    d.missing = "the NVIDIA driver is too old: it is made for CUDA " + version_text(version) +
                ", Rushlight needs one for CUDA " + version_text(kOldestDriver) + " or newer";
  } else if (absent) {
    d.missing = std::string("the NVIDIA driver lacks ") + absent;
  }
  return d;
}

}  // namespace

const Driver& find_driver() {
  static const Driver found = open();
  return found;
}

std::string describe(CUresult error) {
  const char *name = nullptr, *text = nullptr;
  const Driver& d = find_driver();
  if (d.GetErrorName) d.GetErrorName(error, &name);
  if (d.GetErrorString) d.GetErrorString(error, &text);
  return std::string(name ? name : "unknown error") + " (" + std::to_string(error) +
         "): " + (text ? text : "the driver has no text for it");
}

void fail_driver(CUresult error, const char* what) {
  fail(ErrorKind::Runtime, what, "CUDA error: ", describe(error),
       ". The GPU works behind the program: an earlier kernel may be the cause; "
       "RUSHLIGHT_CUDA_BLOCKING=1 waits after each one");
}

}  // namespace rush::cuda
