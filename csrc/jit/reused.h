// reused.h: objects that stay where they are, and are used again.
#pragma once

#include <memory>
#include <vector>

namespace rush::jit {

template <class T>
class Pool {
 public:
  T& next() {
    if (used_ == all_.size()) all_.push_back(std::make_unique<T>());
    return *all_[used_++];
  }
  void clear() {
    while (used_ > 0) *all_[--used_] = T();
  }

 private:
  std::vector<std::unique_ptr<T>> all_;
  size_t used_ = 0;
};

}  // namespace rush::jit
