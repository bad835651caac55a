// node_name.h: what a node is called in public, by PyTorch's convention: "MulBackward0".
#pragma once

#include <string>

#include "autograd/node.h"

namespace rush {

RUSH_API std::string node_name(const Node& node);

}  // namespace rush
