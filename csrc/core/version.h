#pragma once

#include "core/export.h"

namespace rush {

// The package's version, "0.1.0"; pyproject.toml holds it.
RUSH_API const char* version();

}  // namespace rush
