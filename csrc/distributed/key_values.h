// key_values.h: what commands do to a table. No locks: each store has its own way to keep others
// out.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <unordered_map>

#include "distributed/store.h"

namespace rush::distributed {

class RUSH_API KeyValues {
 public:
  // No value may grow beyond `longest` bytes: who sends them on cannot send more.
  explicit KeyValues(size_t longest) : longest_(longest) {}
  KeyValues() = default;
  // Nothing when the command has to wait for keys. Throws StoreError.
  std::optional<Answer> apply(const Command& command);
  const std::string* find(const std::string& key) const;  // null: not there
  const std::unordered_map<std::string, std::string>& all() const { return values_; }

 private:
  bool has_all(const Keys& keys) const;
  void append(const std::string& key, const std::string& more);
  int64_t add(const std::string& key, int64_t amount);
  std::string compare_set(const Command& command);

  size_t longest_ = std::numeric_limits<size_t>::max();
  std::unordered_map<std::string, std::string> values_;
};

}  // namespace rush::distributed
