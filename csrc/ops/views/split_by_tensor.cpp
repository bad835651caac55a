// Splitting where a tensor says.
#include <vector>

#include "ops/framework/op.h"
#include "ops/framework/operators.h"

namespace rush {

struct TensorSplitTensor {
  static constexpr const char* name = "tensor_split";
  static std::vector<Tensor> call(const Tensor& x, const Tensor& given, int64_t dim) {
    check_dtype(given.dtype() == DType::Int64, name, "the numbers to split by must be int64, got ",
                given.dtype());
    check(given.dim() <= 1, ErrorKind::Runtime, name,
          "the numbers to split by must have at most one dimension, got shape ", given.sizes());
    if (given.dim() == 0) return tensor_split(x, given.item().to_int(), dim);
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < given.numel(); ++i)
      indices.push_back(select(given, 0, i).item().to_int());
    return tensor_split(x, IntList(indices), dim);
  }
};

}  // namespace rush

#include "ops/split_by_tensor.inc"
