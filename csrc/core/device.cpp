#include "core/device.h"

#include <charconv>
#include <iterator>
#include <optional>

#include "core/error.h"
#include "core/foreign_device.h"

namespace rush {

namespace {

thread_local Device t_default_device;

// Ours, as DeviceType counts them, then the foreign ones.
constexpr std::string_view kNames[] = {
    "cpu", "cuda", "meta", "mps",  "xpu",  "mtia",   "hpu",    "xla",    "vulkan", "ipu",
    "hip", "ve",   "fpga", "maia", "lazy", "mkldnn", "opengl", "opencl", "ideep",  "privateuseone"};
constexpr int kNameCount = int(std::size(kNames));

// Among the first `count` names.
std::optional<Device> find_device(std::string_view text, int count) {
  const auto colon = text.find(':');
  for (int t = 0; t < count; ++t) {
    if (text.substr(0, colon) != kNames[t]) continue;
    if (colon == std::string_view::npos) return Device{DeviceType(t), -1};
    const std::string_view digits = text.substr(colon + 1);
    int index = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error == std::errc{} && end == digits.data() + digits.size() && index >= 0 && index < 128) {
      return Device{DeviceType(t), int8_t(index)};
    }
    fail(ErrorKind::Runtime, "device", "invalid index in '", text,
         "': write a number from 0 to 127, as in 'cuda:0'");
  }
  return std::nullopt;
}

}  // namespace

Device default_device() { return t_default_device; }
void set_default_device(Device device) { t_default_device = device; }

std::string_view name(DeviceType type) { return kNames[static_cast<int>(type)]; }

std::ostream& operator<<(std::ostream& os, Device device) {
  os << name(device.type);
  return device.index < 0 ? os : os << ':' << int(device.index);
}

Device parse_device(std::string_view text) {
  if (const auto found = find_device(text, kDeviceTypeCount)) return *found;
  const std::string_view type = text.substr(0, text.find(':'));
  const bool gpu = type == "gpu" || type == "GPU" || type == "nvidia";
  fail(ErrorKind::Runtime, "device", "unknown device '", text,
       "': expected 'cpu', 'cuda', 'cuda:N' or 'meta'", gpu ? "; a GPU's name is 'cuda'" : "");
}

std::optional<Device> find_foreign_device(std::string_view text) {
  const auto found = find_device(text, kNameCount);
  return found && is_foreign(*found) ? found : std::nullopt;
}

std::ostream& operator<<(std::ostream& os, MemoryFormat format) {
  constexpr std::string_view names[] = {"contiguous_format", "preserve_format", "channels_last",
                                        "channels_last_3d"};
  return os << "rushlight." << names[static_cast<int>(format)];
}

}  // namespace rush
