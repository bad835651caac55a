#include "core/device.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>
#include <optional>
#include <string>

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

// What was meant by a name that is not known: "GPU", "CUDA", "cuda0".
std::string device_hint(std::string_view text) {
  std::string type, index;
  for (const char c : text) {
    if (std::isdigit(static_cast<unsigned char>(c))) {
      index += c;
    } else if (c != ':') {
      type += char(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  const char* colon = index.empty() ? "" : ":";
  if (type == "gpu" || type == "nvidia")
    return concat("; a GPU's name is 'cuda", colon, index, "'");
  const auto* end = kNames + kDeviceTypeCount;
  if (std::find(kNames, end, type) != end) return concat("; write '", type, colon, index, "'");
  const bool foreign = std::find(end, std::end(kNames), type) != std::end(kNames);
  return foreign ? "; that name is known for comparisons alone" : "";
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
  fail(ErrorKind::Runtime, "device", "unknown device '", text,
       "': expected 'cpu', 'cuda', 'cuda:N' or 'meta'", device_hint(text));
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
