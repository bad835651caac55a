// key_values.h: what commands do to a table. No locks: each store has its own way to keep others
// out.
#pragma once

#include <optional>
#include <unordered_map>

#include "distributed/store.h"

namespace rush::distributed {

class RUSH_API KeyValues {
 public:
  // Nothing when the command has to wait for keys. Throws StoreError.
  std::optional<Answer> apply(const Command& command);
  const std::string* find(const std::string& key) const;  // null: not there
  const std::unordered_map<std::string, std::string>& all() const { return values_; }

 private:
  bool has_all(const Keys& keys) const;
  int64_t add(const std::string& key, int64_t amount);
  std::string compare_set(const Command& command);

  std::unordered_map<std::string, std::string> values_;
};

}  // namespace rush::distributed
