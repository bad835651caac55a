#include "cuda/vendor/cudnn_rnn.h"

#include "core/dynamic_library.h"

namespace rush::cuda::dnn {
namespace {

RnnLibrary open() {
  RnnLibrary l;
  l.missing = library().missing;
  if (!l.missing.empty()) return l;
  // The same library once more: the loader gives the one that is open already.
  void* found = open_library({"libcudnn.so.9"}, {"nvidia/cudnn/lib", "nvidia/cu13/lib", ""});
  bool whole = found != nullptr;
#define RUSH_LOAD(symbol, name, params)                                        \
  l.name = reinterpret_cast<decltype(l.name)>(library_symbol(found, #symbol)); \
  whole = whole && l.name;
  RUSH_CUDNN_RNN(RUSH_LOAD)
#undef RUSH_LOAD
  if (!whole) l.missing = "this cuDNN has no recurrent networks";
  return l;
}

}  // namespace

const RnnLibrary& rnn_library() {
  static const RnnLibrary found = open();
  return found;
}

}  // namespace rush::cuda::dnn
