// datasets.h: where examples come from.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "frontend/data/transforms.h"

namespace rush::data::datasets {

template <class D, class T>
class MapDataset;

// A dataset that gives whole batches: get_batch(request) and size().
template <class Self, class Batch, class Request = std::span<const size_t>>
class BatchDataset {
 public:
  using SelfType = Self;
  using BatchType = Batch;
  using BatchRequestType = Request;
  virtual ~BatchDataset() = default;
  virtual Batch get_batch(Request request) = 0;
  virtual std::optional<size_t> size() const = 0;

  // This dataset, its batches transformed. It goes into the new one.
  template <class T>
  MapDataset<Self, T> map(T transform) & {
    return MapDataset<Self, T>(static_cast<Self&>(*this), std::move(transform));
  }
  template <class T>
  MapDataset<Self, T> map(T transform) && {
    return MapDataset<Self, T>(std::move(static_cast<Self&>(*this)), std::move(transform));
  }
};

// A dataset that gives examples by number.
template <class Self, class SingleExample = Example<>>
class Dataset : public BatchDataset<Self, std::vector<SingleExample>> {
 public:
  using ExampleType = SingleExample;
  virtual ExampleType get(size_t index) = 0;
  std::vector<SingleExample> get_batch(std::span<const size_t> indices) override {
    std::vector<SingleExample> batch;
    batch.reserve(indices.size());
    for (const size_t i : indices) batch.push_back(get(i));
    return batch;
  }
};

template <class D, class T>
class MapDataset : public BatchDataset<MapDataset<D, T>, typename T::OutputBatchType,
                                       typename D::BatchRequestType> {
 public:
  using DatasetType = D;
  using TransformType = T;
  MapDataset(D dataset, T transform)
      : dataset_(std::move(dataset)), transform_(std::move(transform)) {}
  typename T::OutputBatchType get_batch(typename D::BatchRequestType request) override {
    return transform_.apply_batch(dataset_.get_batch(std::move(request)));
  }
  std::optional<size_t> size() const override { return dataset_.size(); }
  const D& dataset() const { return dataset_; }
  const T& transform() const { return transform_; }

 private:
  D dataset_;
  T transform_;
};

// The slices of a tensor along its first dim.
class TensorDataset : public Dataset<TensorDataset, TensorExample> {
 public:
  explicit TensorDataset(Tensor tensor) : tensor_(std::move(tensor)) {}
  explicit TensorDataset(const std::vector<Tensor>& tensors) : TensorDataset(stack(tensors)) {}
  TensorExample get(size_t index) override { return select(tensor_, 0, int64_t(index)); }
  std::optional<size_t> size() const override { return size_t(tensor_.size(0)); }

 private:
  Tensor tensor_;
};

// Handwritten digits, from the four files of Yann LeCun's page, unpacked into one folder. Pictures
// are (1, 28, 28) floats between 0 and 1, targets int64.
class RUSH_API MNIST : public Dataset<MNIST> {
 public:
  enum class Mode : uint8_t { kTrain, kTest };
  explicit MNIST(const std::string& root, Mode mode = Mode::kTrain);
  Example<> get(size_t index) override;
  std::optional<size_t> size() const override;
  bool is_train() const { return mode_ == Mode::kTrain; }
  const Tensor& images() const { return images_; }
  const Tensor& targets() const { return targets_; }

 private:
  Mode mode_;
  Tensor images_, targets_;
};

}  // namespace rush::data::datasets
