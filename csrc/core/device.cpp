#include "core/device.h"

#include <charconv>

#include "core/error.h"

namespace rush {

namespace {

thread_local Device t_default_device;

}  // namespace

Device default_device() { return t_default_device; }
void set_default_device(Device device) { t_default_device = device; }

std::string_view name(DeviceType type) {
  constexpr std::string_view names[kDeviceTypeCount] = {"cpu", "cuda", "meta"};
  return names[static_cast<int>(type)];
}

std::ostream& operator<<(std::ostream& os, Device device) {
  os << name(device.type);
  return device.index < 0 ? os : os << ':' << int(device.index);
}

Device parse_device(std::string_view text) {
  const auto colon = text.find(':');
  const std::string_view type_name = text.substr(0, colon);
  for (int t = 0; t < kDeviceTypeCount; ++t) {
    if (type_name != name(DeviceType(t))) continue;
    if (colon == std::string_view::npos) return {DeviceType(t), -1};
    const std::string_view digits = text.substr(colon + 1);
    int index = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error == std::errc{} && end == digits.data() + digits.size() && index >= 0 && index < 128) {
      return {DeviceType(t), int8_t(index)};
    }
    fail(ErrorKind::Runtime, "device", "invalid index in '", text,
         "': write a number from 0 to 127, as in 'cuda:0'");
  }
  const bool gpu = type_name == "gpu" || type_name == "GPU" || type_name == "nvidia";
  fail(ErrorKind::Runtime, "device", "unknown device '", text,
       "': expected 'cpu', 'cuda', 'cuda:N' or 'meta'", gpu ? "; a GPU's name is 'cuda'" : "");
}

std::ostream& operator<<(std::ostream& os, MemoryFormat format) {
  constexpr std::string_view names[] = {"contiguous_format", "preserve_format", "channels_last",
                                        "channels_last_3d"};
  return os << "rushlight." << names[static_cast<int>(format)];
}

}  // namespace rush
