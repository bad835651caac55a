// Splitting where a tensor says.
#include "ops/framework/data.h"
#include "ops/framework/op.h"
#include "ops/framework/operators.h"

namespace rush {

struct TensorSplitTensor {
  static constexpr const char* name = "tensor_split";
  static std::vector<Tensor> call(const Tensor& x, const Tensor& given, int64_t dim) {
    check(given.device().type == DeviceType::CPU, ErrorKind::Device, name,
          "the numbers to split by must be on the CPU, got ", given.device());
    check_dtype(given.dtype() == DType::Int64, name, "the numbers to split by must be int64, got ",
                given.dtype());
    check(given.dim() <= 1, ErrorKind::Runtime, name,
          "the numbers to split by must have at most one dimension, got shape ", given.sizes());
    if (given.dim() == 0) return tensor_split(x, given.item().to_int(), dim);
    const Tensor numbers = contiguous_data(given);
    return tensor_split(x, IntList(numbers.data<int64_t>(), size_t(numbers.numel())), dim);
  }
};

}  // namespace rush

#include "ops/split_by_tensor.inc"
