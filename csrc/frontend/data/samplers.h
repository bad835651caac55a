// samplers.h: the order in which examples are taken.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "core/tensor.h"
#include "ops/ops.h"

namespace rush::data::samplers {

class Sampler {
 public:
  explicit Sampler(size_t size) : size_(size) {}
  virtual ~Sampler() = default;
  virtual void reset(std::optional<size_t> new_size = std::nullopt) {
    if (new_size) size_ = *new_size;
    at_ = 0;
  }
  // Up to batch_size numbers; none when all were given.
  std::optional<std::vector<size_t>> next(size_t batch_size) {
    const size_t count = std::min(batch_size, size_ - at_);
    if (count == 0) return std::nullopt;
    std::vector<size_t> indices;
    for (size_t i = 0; i < count; ++i) indices.push_back(place(at_ + i));
    at_ += count;
    return indices;
  }
  size_t size() const { return size_; }
  size_t index() const { return at_; }  // how many were given

 protected:
  virtual size_t place(size_t i) const = 0;

 private:
  size_t size_, at_ = 0;
};

class SequentialSampler : public Sampler {
 public:
  using Sampler::Sampler;

 protected:
  size_t place(size_t i) const override { return i; }
};

// A new order at each reset; the same seed gives the same orders.
class RandomSampler : public Sampler {
 public:
  explicit RandomSampler(size_t size) : Sampler(size) {}
  void reset(std::optional<size_t> new_size = std::nullopt) override {
    Sampler::reset(new_size);
    order_ = randperm(int64_t(size()));
  }

 protected:
  size_t place(size_t i) const override { return size_t(order_.data<int64_t>()[i]); }

 private:
  Tensor order_;
};

}  // namespace rush::data::samplers
