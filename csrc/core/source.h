// source.h: a place in the user's program, kept in eight bytes and turned into text only when an
// error needs it.
//
// The core knows no Python: whoever hosts it (the bindings) installs two functions. Without a host,
// in a C++ program, every place is unknown and messages leave it out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/export.h"

namespace rush {

// What the two numbers mean is the host's business; a zero `code` means unknown.
struct SourcePoint {
  uint32_t code = 0;
  uint32_t offset = 0;
  explicit operator bool() const { return code != 0; }
};

struct SourceHost {
  SourcePoint (*here)() noexcept = nullptr;  // of the calling thread; cheap
  // The calls that are under way there, the innermost first, at most `most` of them: how many.
  size_t (*calls)(SourcePoint* to, size_t most) noexcept = nullptr;
  std::string (*describe)(SourcePoint) = nullptr;  // "train.py:12 in step: y = x.exp()"
};
extern RUSH_API constinit SourceHost g_source_host;

inline SourcePoint source_here() noexcept {
  return g_source_host.here ? g_source_host.here() : SourcePoint{};
}
// " at train.py:12 in step: ...", or nothing when the place is unknown. For messages.
RUSH_API std::string at_source(SourcePoint p);

}  // namespace rush
