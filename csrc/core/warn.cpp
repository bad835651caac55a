#include "core/warn.h"

#include <atomic>
#include <cstdio>

namespace rush {
namespace {

std::atomic<WarningHandler> g_handler{nullptr};

}  // namespace

void warn(const std::string& text) {
  if (WarningHandler handler = g_handler.load()) {
    handler(text.c_str());
  } else {
    std::fprintf(stderr, "rushlight: warning: %s\n", text.c_str());
  }
}

void set_warning_handler(WarningHandler handler) { g_handler.store(handler); }

}  // namespace rush
