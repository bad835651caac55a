#include "frontend/cuda.h"

#include "cuda/runtime/stream.h"

namespace rush::cuda {

void use_device(int device) {
  device = check_device("use_device", device);
  set_current_device(device);
  bind(device);
}

void* current_stream_handle(int device) {
  device = check_device("current_stream", device);
  bind(device);
  leave_batches("the handle of a stream was given to the program");
  return find_current_stream(device)->handle();
}

void wait_for_device(int device) { synchronize(check_device("synchronize", device)); }

}  // namespace rush::cuda
