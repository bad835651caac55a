// hash_store.h: a store for the threads of one process.
#pragma once

#include <condition_variable>

#include "core/mutex.h"
#include "distributed/key_values.h"

namespace rush::distributed {

class RUSH_API HashStore final : public Store {
 public:
  Answer perform(const Command& command, Milliseconds timeout) override;

 private:
  Mutex mutex_{LockRank::Store};
  std::condition_variable_any changed_;
  KeyValues values_;
};

}  // namespace rush::distributed
