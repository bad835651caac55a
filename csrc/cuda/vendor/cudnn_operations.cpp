#include "cuda/vendor/cudnn_operations.h"

namespace rush::cuda::dnn {

Shape4 contiguous_strides(const Shape4& sizes) {
  return {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1};
}

GraphBuilder::Value GraphBuilder::add(DataType type, const Shape4& sizes, const Shape4& strides,
                                      Place place) {
  constexpr int64_t kAlignment = 16;
  const Value made{int64_t(tensors_.size()) + 1};
  tensors_.push_back(tensor_descriptor(made.id, type, sizes, strides, kAlignment, place));
  sizes_.push_back(sizes);
  return made;
}

GraphBuilder::Value GraphBuilder::memory(DataType type, const Shape4& sizes,
                                         const Shape4& strides) {
  return add(type, sizes, strides, Place::Memory);
}
GraphBuilder::Value GraphBuilder::between(DataType type, const Shape4& sizes,
                                          const Shape4& strides) {
  return add(type, sizes, strides, Place::Virtual);
}
GraphBuilder::Value GraphBuilder::number() {
  return add(kFloat, {1, 1, 1, 1}, {1, 1, 1, 1}, Place::Host);
}

void GraphBuilder::add(Descriptor config, Descriptor operation) {
  operation.finish();
  configs_.push_back(std::move(config));
  operations_.push_back(std::move(operation));
}

void GraphBuilder::matmul(Value a, Value b, Value c) {
  const DataType compute = kFloat;
  Descriptor config(kMatmul), op(kMatmulOperation);
  config.set(kMatmulCompute, kDataTypeValue, 1, &compute);
  config.finish();
  op.set(kMatmulA, of(a));
  op.set(kMatmulB, of(b));
  op.set(kMatmulC, of(c));
  op.set(kMatmulConfig, config);
  add(std::move(config), std::move(op));
}

void GraphBuilder::reshape(Value x, Value y) {
  Descriptor op(kReshapeOperation);
  op.set(kReshapeX, of(x));
  op.set(kReshapeY, of(y));
  op.finish();
  operations_.push_back(std::move(op));
}

void GraphBuilder::reduce(ReductionMode mode, Value x, Value y) {
  const DataType compute = kFloat;
  Descriptor config(kReduction), op(kReductionOperation);
  config.set(kReductionCompute, kDataTypeValue, 1, &compute);
  config.set(kReductionOperator, kReductionOperatorValue, 1, &mode);
  config.finish();
  op.set(kReductionX, of(x));
  op.set(kReductionY, of(y));
  op.set(kReductionConfig, config);
  add(std::move(config), std::move(op));
}

void GraphBuilder::pointwise(PointwiseMode mode, const Inputs& in, Value y, DataType compute) {
  Descriptor config(kPointwise), op(kPointwiseOperation);
  config.set(kPointwiseMode, kPointwiseModeValue, 1, &mode);
  config.set(kPointwiseCompute, kDataTypeValue, 1, &compute);
  if (in.axis) config.set(kPointwiseAxis, *in.axis);
  config.finish();
  op.set(kPointwiseConfig, config);
  op.set(kPointwiseX, of(in.x));
  if (in.b.defined()) op.set(kPointwiseB, of(in.b));
  if (in.t.defined()) op.set(kPointwiseT, of(in.t));
  op.set(kPointwiseY, of(y));
  add(std::move(config), std::move(op));
}

GraphBuilder::Value GraphBuilder::pointwise(PointwiseMode mode, const Inputs& in, DataType type,
                                            DataType compute) {
  const Value y = between(type, sizes_[size_t(in.x.id - 1)]);
  pointwise(mode, in, y, compute);
  return y;
}

}  // namespace rush::cuda::dnn
