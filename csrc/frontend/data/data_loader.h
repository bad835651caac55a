// data_loader.h: batches of a dataset, made by threads ahead of the program.
#pragma once

#include <condition_variable>
#include <exception>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <queue>
#include <thread>
#include <utility>
#include <vector>

#include "core/mutex.h"
#include "frontend/arg.h"
#include "frontend/data/datasets.h"
#include "frontend/data/samplers.h"

namespace rush::data {

struct DataLoaderOptions {
  DataLoaderOptions(size_t batch_size = 1) : batch_size_(batch_size) {}
  RUSH_ARG(size_t, batch_size);
  RUSH_ARG(size_t, workers) = 0;  // threads; with none, the program makes its batches itself
  RUSH_ARG(std::optional<size_t>,
           max_jobs) = std::nullopt;        // batches ahead; 2 per worker by default
  RUSH_ARG(bool, enforce_ordering) = true;  // or whichever batch is ready first
  RUSH_ARG(bool, drop_last) = false;
};

template <class D, class S>
class DataLoader {
 public:
  using BatchType = typename D::BatchType;

  // One pass over the dataset.
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = BatchType;
    using difference_type = std::ptrdiff_t;
    using pointer = BatchType*;
    using reference = BatchType&;
    Iterator() = default;
    explicit Iterator(DataLoader* loader) : loader_(loader) { ++*this; }
    BatchType& operator*() { return *batch_; }
    BatchType* operator->() { return &*batch_; }
    Iterator& operator++() {
      batch_ = loader_->next();
      if (!batch_) loader_ = nullptr;
      return *this;
    }
    bool operator==(const Iterator& other) const { return loader_ == other.loader_; }

   private:
    DataLoader* loader_ = nullptr;
    std::optional<BatchType> batch_;
  };

  // With workers, each has a copy of the dataset.
  DataLoader(D dataset, S sampler, const DataLoaderOptions& options)
      : dataset_(std::move(dataset)), sampler_(std::move(sampler)), options_(options) {
    check_argument(options.batch_size() > 0, "DataLoader", "batch_size must be at least 1");
    for (size_t i = 0; i < options.workers(); ++i)
      threads_.emplace_back([this, copy = dataset_]() mutable { work(copy); });
  }
  ~DataLoader() {
    {
      const std::lock_guard lock(mutex_);
      stops_ = true;
    }
    jobs_wait_.notify_all();
    for (std::thread& t : threads_) t.join();
  }
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  Iterator begin() {
    drain();
    sampler_.reset(dataset_.size());
    for (size_t i = 0; i < ahead(); ++i) ask();
    return Iterator(this);
  }
  Iterator end() { return {}; }
  const DataLoaderOptions& options() const { return options_; }

 private:
  struct Job {
    size_t number;
    std::vector<size_t> indices;
  };
  struct Result {
    std::optional<BatchType> batch;
    std::exception_ptr error;
  };

  size_t ahead() const {
    return threads_.empty()
               ? 0
               : std::max<size_t>(1, options_.max_jobs().value_or(2 * threads_.size()));
  }

  std::optional<std::vector<size_t>> next_indices() {
    auto indices = sampler_.next(options_.batch_size());
    if (indices && options_.drop_last() && indices->size() < options_.batch_size())
      return std::nullopt;
    return indices;
  }

  // Puts one more job into the queue, if there is one.
  void ask() {
    auto indices = next_indices();
    if (!indices) return;
    {
      const std::lock_guard lock(mutex_);
      jobs_.push({asked_++, std::move(*indices)});
    }
    jobs_wait_.notify_one();
  }

  std::optional<BatchType> next() {
    if (threads_.empty()) {
      const auto indices = next_indices();
      if (!indices) return std::nullopt;
      return dataset_.get_batch(*indices);
    }
    if (given_ == asked_) return std::nullopt;
    Result result = take();
    ++given_;
    ask();
    if (result.error) std::rethrow_exception(result.error);
    return std::move(result.batch);
  }

  Result take() {
    std::unique_lock lock(mutex_);
    const auto ready = [&] {
      return options_.enforce_ordering() ? results_.find(given_) : results_.begin();
    };
    results_wait_.wait(lock, [&] { return ready() != results_.end(); });
    const auto at = ready();
    Result result = std::move(at->second);
    results_.erase(at);
    return result;
  }

  // What an earlier pass that was left early still has under way.
  void drain() {
    {
      const std::lock_guard lock(mutex_);
      asked_ -= jobs_.size();
      jobs_ = {};
    }
    while (given_ != asked_) {
      std::unique_lock lock(mutex_);
      results_wait_.wait(lock, [&] { return !results_.empty(); });
      given_ += results_.size();
      results_.clear();
    }
    asked_ = given_ = 0;
  }

  void work(D& dataset) {
    for (;;) {
      Job job;
      {
        std::unique_lock lock(mutex_);
        jobs_wait_.wait(lock, [&] { return stops_ || !jobs_.empty(); });
        if (stops_) return;
        job = std::move(jobs_.front());
        jobs_.pop();
      }
      Result result;
      try {
        result.batch = dataset.get_batch(job.indices);
      } catch (...) {
        result.error = std::current_exception();
      }
      {
        const std::lock_guard lock(mutex_);
        results_.emplace(job.number, std::move(result));
      }
      results_wait_.notify_one();
    }
  }

  D dataset_;
  S sampler_;
  DataLoaderOptions options_;
  size_t asked_ = 0, given_ = 0;       // jobs of this pass; only the program's thread counts
  Mutex mutex_{LockRank::DataLoader};  // guards what follows
  std::condition_variable_any jobs_wait_, results_wait_;
  std::queue<Job> jobs_;
  std::map<size_t, Result> results_;
  bool stops_ = false;
  std::vector<std::thread> threads_;
};

template <class D, class S>
  requires std::derived_from<S, samplers::Sampler>
std::unique_ptr<DataLoader<D, S>> make_data_loader(D dataset, S sampler,
                                                   const DataLoaderOptions& options = {}) {
  return std::make_unique<DataLoader<D, S>>(std::move(dataset), std::move(sampler), options);
}

template <class S = samplers::RandomSampler, class D>
  requires std::derived_from<S, samplers::Sampler>
std::unique_ptr<DataLoader<D, S>> make_data_loader(D dataset,
                                                   const DataLoaderOptions& options = {}) {
  const std::optional<size_t> size = dataset.size();
  check(size.has_value(), ErrorKind::Runtime, "make_data_loader",
        "the dataset does not know its size, so that a sampler must be given");
  return make_data_loader(std::move(dataset), S(*size), options);
}

}  // namespace rush::data
