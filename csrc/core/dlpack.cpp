#include "core/dlpack.h"

namespace rush::dl {

namespace {

uint8_t floating_code(DType t) {
  switch (t) {
    case DType::BFloat16:
      return kBfloat;
    case DType::Float8E4M3FN:
      return kFloat8E4M3FN;
    case DType::Float8E5M2:
      return kFloat8E5M2;
    case DType::Float8E4M3FNUZ:
      return kFloat8E4M3FNUZ;
    case DType::Float8E5M2FNUZ:
      return kFloat8E5M2FNUZ;
    case DType::Float8E8M0FNU:
      return kFloat8E8M0FNU;
    default:
      return kFloat;
  }
}

}  // namespace

Type dl_type(DType t) {
  const auto bits = uint8_t(8 * element_size(t));
  switch (category(t)) {
    case Category::Bool:
      return {kBool, bits, 1};
    case Category::Integer:
      return {info(t).is_signed ? kInt : kUInt, bits, 1};
    case Category::Floating:
      return {floating_code(t), bits, 1};
    default:
      return {kComplex, bits, 1};
  }
}

DType dtype_from(Type type) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const Type own = dl_type(DType(i));
    if (own.code == type.code && own.bits == type.bits && type.lanes == 1) return DType(i);
  }
  fail(ErrorKind::DType, "from_dlpack", "no dtype fits DLPack's code ", type.code, " with ",
       type.bits, " bits and ", type.lanes, " lanes");
}

Device dl_device(rush::Device d) {
  if (d.is_cpu()) return {kCPU, 0};
  check(d.is_cuda(), ErrorKind::Device, "__dlpack_device__", "DLPack knows no device ", d);
  return {kCUDA, std::max<int>(d.index, 0)};
}

rush::Device device_from(Device d) {
  if (d.type == kCPU || d.type == kCUDAHost) return {};
  check(d.type == kCUDA || d.type == kCUDAManaged, ErrorKind::Device, "from_dlpack",
        "unsupported device type ", d.type, " of DLPack");
  return {DeviceType::CUDA, int8_t(d.id)};
}

Tensor tensor_over(const Array& array, Storage::Deleter deleter, void* context, bool read_only) {
  const DType t = dtype_from(array.dtype);
  const rush::Device device = device_from(array.device);
  check_shape(array.ndim >= 0 && array.ndim <= kMaxDims, "from_dlpack", "the array has ",
              array.ndim, " dimensions, tensors have at most ", kMaxDims);
  const IntList sizes(array.shape, size_t(array.ndim));
  const int64_t n = checked_numel("from_dlpack", sizes);
  const Dims strides =
      array.strides ? Dims(IntList(array.strides, sizes.size())) : contiguous_strides(sizes);
  int64_t last = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    check(strides[i] >= 0 || sizes[i] < 2, ErrorKind::Value, "from_dlpack",
          "negative strides are not supported: copy the array first");
    last += (sizes[i] - 1) * strides[i];
  }
  const size_t bytes = n == 0 ? 0 : size_t((last + 1) * element_size(t));
  auto storage = Storage::wrap(static_cast<char*>(array.data) + array.byte_offset, bytes, device,
                               deleter, context);
  storage->set_read_only(read_only);
  return make_tensor(std::move(storage), sizes, strides, 0, t);
}

}  // namespace rush::dl
