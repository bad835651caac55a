#include "core/version.h"

namespace rush {

const char* version() { return RUSH_VERSION; }

}  // namespace rush
