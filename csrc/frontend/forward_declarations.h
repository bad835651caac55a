// forward_declarations.h: the types that methods of tensors name, where there is no tensor yet.
#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"
#include "core/scalar.h"
#include "frontend/int_array_ref.h"
#include "frontend/tensor_options.h"
#include "frontend/text.h"

namespace rush {

class Generator;
class Operand;
class TensorListRef;
template <class T, size_t N>
class TensorAccessor;
namespace indexing {
class TensorIndex;
}

}  // namespace rush
