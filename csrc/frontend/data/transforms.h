// transforms.h: what happens to examples between a dataset and a batch.
#pragma once

#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "ops/ops.h"

namespace rush::data {

template <class Data = Tensor, class Target = Tensor>
struct Example {
  Example() = default;
  Example(Data d, Target t) : data(std::move(d)), target(std::move(t)) {}
  Data data;
  Target target;
};
using TensorExample = Example<Tensor, void>;
template <class Data>
struct Example<Data, void> {
  Example() = default;
  Example(Data d) : data(std::move(d)) {}
  operator Data&() { return data; }
  operator const Data&() const { return data; }
  Data data;
};

namespace transforms {

// From all examples of a batch to something else.
template <class Input, class Output>
class BatchTransform {
 public:
  using InputBatchType = Input;
  using OutputBatchType = Output;
  virtual ~BatchTransform() = default;
  virtual Output apply_batch(Input batch) = 0;
};

// From one example to another.
template <class Input, class Output>
class Transform : public BatchTransform<std::vector<Input>, std::vector<Output>> {
 public:
  using InputType = Input;
  using OutputType = Output;
  virtual Output apply(Input input) = 0;
  std::vector<Output> apply_batch(std::vector<Input> batch) override {
    std::vector<Output> out;
    out.reserve(batch.size());
    for (Input& example : batch) out.push_back(apply(std::move(example)));
    return out;
  }
};

// Any function of one example.
template <class Input, class Output = Input>
class Lambda : public Transform<Input, Output> {
 public:
  explicit Lambda(std::function<Output(Input)> f) : f_(std::move(f)) {}
  Output apply(Input input) override { return f_(std::move(input)); }

 private:
  std::function<Output(Input)> f_;
};

// Any function of an example's data; its target stays.
template <class Target = Tensor>
class TensorTransform : public Transform<Example<Tensor, Target>, Example<Tensor, Target>> {
 public:
  using E = Example<Tensor, Target>;
  virtual Tensor operator()(Tensor input) = 0;
  E apply(E example) override {
    example.data = (*this)(std::move(example.data));
    return example;
  }
};

template <class Target = Tensor>
class TensorLambda : public TensorTransform<Target> {
 public:
  explicit TensorLambda(std::function<Tensor(Tensor)> f) : f_(std::move(f)) {}
  Tensor operator()(Tensor input) override { return f_(std::move(input)); }

 private:
  std::function<Tensor(Tensor)> f_;
};

// (x - mean) / stddev; with several numbers, one per channel of (C, H, W).
template <class Target = Tensor>
class Normalize : public TensorTransform<Target> {
 public:
  Normalize(double mean, double stddev)
      : Normalize(std::vector<double>{mean}, std::vector<double>{stddev}) {}
  Normalize(const std::vector<double>& mean, const std::vector<double>& stddev)
      : mean_(column(mean)), stddev_(column(stddev)) {}
  Tensor operator()(Tensor input) override { return div(sub(input, mean_), stddev_); }

 private:
  static Tensor column(const std::vector<double>& numbers) {
    const Tensor t = make_tensor(Dims{int64_t(numbers.size()), 1, 1}, DType::Float32);
    for (size_t i = 0; i < numbers.size(); ++i) t.data<float>()[i] = float(numbers[i]);
    return t;
  }
  Tensor mean_, stddev_;
};

// Examples stacked to one, along a new first dim.
template <class E = Example<>>
class Stack;

template <>
class Stack<Example<>> : public BatchTransform<std::vector<Example<>>, Example<>> {
 public:
  Example<> apply_batch(std::vector<Example<>> batch) override {
    std::vector<Tensor> data, targets;
    for (Example<>& example : batch) {
      data.push_back(std::move(example.data));
      targets.push_back(std::move(example.target));
    }
    return {stack(data), stack(targets)};
  }
};

template <>
class Stack<TensorExample> : public BatchTransform<std::vector<TensorExample>, TensorExample> {
 public:
  TensorExample apply_batch(std::vector<TensorExample> batch) override {
    std::vector<Tensor> data;
    for (TensorExample& example : batch) data.push_back(std::move(example.data));
    return {stack(data)};
  }
};

}  // namespace transforms
}  // namespace rush::data
