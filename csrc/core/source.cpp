#include "core/source.h"

namespace rush {

constinit SourceHost g_source_host;

std::string at_source(SourcePoint p) {
  if (!p || !g_source_host.describe) return {};
  const std::string text = g_source_host.describe(p);
  return text.empty() ? text : " at " + text;
}

}  // namespace rush
