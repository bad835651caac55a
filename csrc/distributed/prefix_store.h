// prefix_store.h: a part of another store: all keys get a prefix, so that parts do not meet.
#pragma once

#include "distributed/store.h"

namespace rush::distributed {

class RUSH_API PrefixStore final : public Store {
 public:
  PrefixStore(std::string prefix, std::shared_ptr<Store> store)
      : prefix_(std::move(prefix)), store_(std::move(store)) {
    timeout_ = store_->timeout();
  }
  Answer perform(const Command& command, Milliseconds timeout) override {
    Command full = command;
    for (std::string& key : full.keys) key = prefix_ + "/" + key;
    return store_->perform(full, timeout);
  }
  const std::shared_ptr<Store>& underlying_store() const { return store_; }

 private:
  std::string prefix_;
  std::shared_ptr<Store> store_;
};

}  // namespace rush::distributed
