// cudnn_operations.h: graphs of several operations for cuDNN, put together step by step.
//
// A value is a tensor of the graph. Those in between have no memory: cuDNN fuses what makes them
// with what reads them, where it has an engine for the whole graph.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "cuda/vendor/cudnn_graph.h"

namespace rush::cuda::dnn {

enum class PointwiseMode : int {
  Add = 0,
  Mul = 1,
  Div = 6,
  Sub = 9,
  Exp = 13,
  Log = 15,
  Identity = 21,
  GreaterEqual = 303,
  Index = 501,   // along an axis
  Select = 601,  // t ? x : b
};
enum class ReductionMode : int { Add = 0, Max = 3 };

using Shape4 = std::array<int64_t, 4>;
Shape4 contiguous_strides(const Shape4& sizes);

class GraphBuilder {
 public:
  struct Value {
    int64_t id = 0;  // what the plan's run calls it; 0 is none
    bool defined() const { return id != 0; }
  };

  Value memory(DataType type, const Shape4& sizes, const Shape4& strides);
  Value between(DataType type, const Shape4& sizes) {
    return between(type, sizes, contiguous_strides(sizes));
  }
  Value between(DataType type, const Shape4& sizes, const Shape4& strides);
  Value number();  // a float of the host's

  void matmul(Value a, Value b, Value c);
  void reshape(Value x, Value y);
  void reduce(ReductionMode mode, Value x, Value y);
  struct Inputs {
    Value x, b = {}, t = {};
    std::optional<int64_t> axis = {};
  };
  void pointwise(PointwiseMode mode, const Inputs& in, Value y, DataType compute = kFloat);
  // The same, with a result in between that has x's sizes.
  Value pointwise(PointwiseMode mode, const Inputs& in, DataType type = kFloat,
                  DataType compute = kFloat);

  // The best plan for all of it; none when cuDNN has no engine for such a graph.
  std::vector<Plan> plan(Handle handle, const Conditions& conditions) const {
    return find_plans(handle, operations_, conditions, 1);
  }

 private:
  // `config` is what its operation refers to.
  void add(Descriptor config, Descriptor operation);
  Value add(DataType type, const Shape4& sizes, const Shape4& strides, Place place);
  const Descriptor& of(Value v) const { return tensors_[size_t(v.id - 1)]; }

  std::vector<Descriptor> tensors_, configs_, operations_;
  std::vector<Shape4> sizes_;
};

}  // namespace rush::cuda::dnn
