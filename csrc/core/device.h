// device.h: where a tensor's bytes live, and how they may be laid out.
#pragma once

#include <cstdint>
#include <ostream>
#include <string_view>

#include "core/export.h"

namespace rush {

enum class DeviceType : int8_t { CPU, CUDA, Meta };
inline constexpr int kDeviceTypeCount = 3;

struct Device {
  DeviceType type = DeviceType::CPU;
  int8_t index = -1;  // -1: the current one

  constexpr bool is_cpu() const { return type == DeviceType::CPU; }
  constexpr bool is_cuda() const { return type == DeviceType::CUDA; }
  constexpr bool is_meta() const { return type == DeviceType::Meta; }
  constexpr bool operator==(const Device&) const = default;
};

RUSH_API std::string_view name(DeviceType type);
RUSH_API std::ostream& operator<<(std::ostream& os, Device device);
// "cpu", "cuda:1", "meta"; anything else raises with the accepted forms.
RUSH_API Device parse_device(std::string_view text);

// Where factories put a tensor when the call names no device; one setting per thread.
RUSH_API Device default_device();
RUSH_API void set_default_device(Device device);

enum class MemoryFormat : uint8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };
RUSH_API std::ostream& operator<<(std::ostream& os, MemoryFormat format);

enum class Layout : uint8_t { Strided };

}  // namespace rush
