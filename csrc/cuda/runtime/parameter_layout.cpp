#include "cuda/runtime/parameter_layout.h"

namespace rush::cuda {

const ParameterLayout& ParameterLayouts::of(CUfunction f) {
  const auto [at, fresh] = known_.try_emplace(f);
  ParameterLayout& l = at->second;
  if (!fresh) return l;
  size_t offset = 0, size = 0, end = 0;
  while (driver().FuncGetParamInfo(f, l.count, &offset, &size) == kSuccess) {
    end = offset + size;
    if (l.count == kMostParameters || end > UINT16_MAX) return l;
    l.offsets[l.count] = uint16_t(offset);
    l.sizes[l.count++] = uint16_t(size);
  }
  l.bytes = (end + 15) / 16 * 16;
  return l;
}

}  // namespace rush::cuda
