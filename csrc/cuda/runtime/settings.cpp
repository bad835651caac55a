#include "cuda/runtime/settings.h"

namespace rush::cuda {

Settings& settings() {
  static constinit Settings all;
  return all;
}

}  // namespace rush::cuda
