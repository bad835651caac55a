#include "core/modes.h"

namespace rush {

constinit thread_local uint32_t t_modes = 0;

}  // namespace rush
