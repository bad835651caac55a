// The GPU's answers to device/runtime.h.
#include "cuda/runtime/capture.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/memory.h"
#include "cuda/runtime/stream.h"
#include "device/runtime.h"

namespace rush::cuda {
namespace {

Stream* own(DeviceStream* stream) { return static_cast<Stream*>(stream); }

const bool g_registered = [] {
  device_traits(DeviceType::CUDA) = {
      .asynchronous = true, .separate_memory = true, .autocast_dtype = DType::Float16};
  device_runtime(DeviceType::CUDA) = {
      .current_stream = [](Device device) -> DeviceStream* { return current_stream(device.index); },
      .set_current_stream = [](DeviceStream* stream) { set_current_stream(own(stream)); },
      .stream_by_id = [](Device device, int64_t id) -> DeviceStream* {
        return stream_by_id(device.index, id);
      },
      .wait_for =
          [](DeviceStream* later, DeviceStream* earlier) {
            Event reached;
            reached.record(own(earlier));
            reached.make_wait(own(later));
          },
      .record_stream = [](const Storage& storage,
                          DeviceStream* stream) { record_stream(storage, own(stream)); },
      .is_recorded = is_recorded,
      .is_capturing = is_capturing_on,
      .refuse_capture = refuse_capture,
      .note_wait = note_wait,
  };
  return true;
}();

}  // namespace
}  // namespace rush::cuda
