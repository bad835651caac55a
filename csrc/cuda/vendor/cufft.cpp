#include "cuda/vendor/cufft.h"

#include "core/dynamic_library.h"

namespace rush::cuda::fft {
namespace {

Library open() {
  Library l;
  void* library = open_library({"libcufft.so.12", "libcufft.so.11"},
                               {"nvidia/cu13/lib", "nvidia/cufft/lib", ""});
  bool whole = library != nullptr;
#define RUSH_LOAD(symbol, name, params)                                          \
  l.name = reinterpret_cast<decltype(l.name)>(library_symbol(library, #symbol)); \
  whole = whole && l.name;
  RUSH_CUFFT(RUSH_LOAD)
#undef RUSH_LOAD
  if (!whole) l.missing = "cuFFT was not found: pip install 'rushlight[cuda]'";
  return l;
}

}  // namespace

const Library& library() {
  static const Library found = open();
  return found;
}

}  // namespace rush::cuda::fft
