#include "frontend/from_data.h"

#include <memory>
#include <utility>

#include "autograd/meta.h"
#include "core/storage.h"
#include "ops/ops.h"

namespace rush {

NestedNumbers::NestedNumbers(std::initializer_list<NestedNumbers> items) {
  sizes_.push_back(int64_t(items.size()));
  if (items.size() == 0) return;
  const Dims& inner = items.begin()->sizes_;
  for (const int64_t n : inner) sizes_.push_back(n);
  for (const NestedNumbers& item : items) {
    check(item.sizes_ == inner, ErrorKind::Value, "tensor",
          "nested braces must have the same number of items at each depth, got one item of shape ",
          inner, " and one of shape ", item.sizes_);
    numbers_.insert(numbers_.end(), item.numbers_.begin(), item.numbers_.end());
  }
}

DType NestedNumbers::dtype() const {
  Category widest = numbers_.empty() ? kind_ : Category::Bool;
  for (const Scalar& n : numbers_) widest = std::max(widest, n.category());
  return widest == Category::Bool      ? DType::Bool
         : widest == Category::Integer ? DType::Int64
                                       : default_dtype();
}

Tensor tensor(const NestedNumbers& numbers, const TensorOptions& options) {
  const DType dtype = options.dtype().value_or(numbers.dtype());
  Tensor out = make_tensor(numbers.sizes(), dtype);
  char* to = static_cast<char*>(out.data());
  for (const Scalar& n : numbers.numbers()) {
    store_scalar(to, dtype, n);
    to += element_size(dtype);
  }
  const Device device = options.device().value_or(default_device());
  if (!device.is_cpu()) out = rush::to(out, device);
  if (options.requires_grad()) set_requires_grad(out, true);
  return out;
}

namespace {

// The bytes from the first element to behind the last.
size_t extent(const Dims& sizes, const Dims& strides, DType dtype) {
  int64_t last = 0;
  for (uint32_t d = 0; d < sizes.size(); ++d) {
    check_argument(sizes[d] >= 0, "from_blob", "sizes must be at least 0, got ", sizes);
    check_argument(strides[d] >= 0, "from_blob", "strides must be at least 0, got ", strides);
    if (sizes[d] == 0) return 0;
    last += (sizes[d] - 1) * strides[d];
  }
  return size_t(last + 1) * size_t(element_size(dtype));
}

struct Owner {
  void* data;
  std::function<void(void*)> deleter;
};

void let_go(void* context) noexcept {
  const std::unique_ptr<Owner> owner(static_cast<Owner*>(context));
  if (owner->deleter) owner->deleter(owner->data);
}

Tensor wrapped(void* data, const Dims& sizes, const Dims& strides,
               std::function<void(void*)> deleter, const TensorOptions& options) {
  const DType dtype = options.dtype().value_or(default_dtype());
  const size_t bytes = extent(sizes, strides, dtype);
  check_argument(data || bytes == 0, "from_blob", "the address is null");
  auto owner = std::make_unique<Owner>(data, std::move(deleter));
  const Tensor out = make_tensor(
      Storage::wrap(data, bytes, options.device().value_or(Device{}), let_go, owner.get()), sizes,
      strides, 0, dtype);
  owner.release();
  if (options.requires_grad()) set_requires_grad(out, true);
  return out;
}

}  // namespace

Tensor from_blob(void* data, const IntArrayRef& sizes, const TensorOptions& options) {
  return from_blob(data, sizes, std::function<void(void*)>(), options);
}

Tensor from_blob(void* data, const IntArrayRef& sizes, const IntArrayRef& strides,
                 const TensorOptions& options) {
  const Dims size_list(sizes.list()), stride_list(strides.list());
  check_shape(size_list.size() == stride_list.size(), "from_blob", "there are ", size_list.size(),
              " sizes and ", stride_list.size(), " strides");
  return wrapped(data, size_list, stride_list, {}, options);
}

Tensor from_blob(void* data, const IntArrayRef& sizes, std::function<void(void*)> deleter,
                 const TensorOptions& options) {
  const Dims size_list(sizes.list());
  return wrapped(data, size_list, contiguous_strides(size_list), std::move(deleter), options);
}

}  // namespace rush
