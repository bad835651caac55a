// warn.h: warnings from the core; the bindings turn them into Python's.
#pragma once

#include <string>

#include "core/export.h"

namespace rush {

// Hands the text to the handler (stderr without one). The handler may throw.
RUSH_API void warn(const std::string& text);
using WarningHandler = void (*)(const char* text);
RUSH_API void set_warning_handler(WarningHandler handler);

}  // namespace rush
