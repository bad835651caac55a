#include "distributed/key_values.h"

#include <algorithm>
#include <charconv>

namespace rush::distributed {

std::optional<Answer> KeyValues::apply(const Command& command) {
  const Keys& keys = command.keys;
  switch (command.kind) {
    case CommandKind::Set:
      values_[keys[0]] = command.value;
      return Answer{};
    case CommandKind::Append:
      append(keys[0], command.value);
      return Answer{};
    case CommandKind::Add:
      return Answer{.number = add(keys[0], command.amount)};
    case CommandKind::CompareSet:
      return Answer{.text = compare_set(command)};
    case CommandKind::Check:
      return Answer{.number = has_all(keys)};
    case CommandKind::Delete:
      return Answer{.number = int64_t(values_.erase(keys[0]))};
    case CommandKind::Count:
      return Answer{.number = int64_t(values_.size())};
    case CommandKind::Wait:
      return has_all(keys) ? std::optional(Answer{}) : std::nullopt;
    case CommandKind::Get:
      return has_all(keys) ? std::optional(Answer{.text = *find(keys[0])}) : std::nullopt;
  }
  return {};
}

const std::string* KeyValues::find(const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

bool KeyValues::has_all(const Keys& keys) const {
  for (const std::string& key : keys)
    if (!values_.contains(key)) return false;
  return true;
}

void KeyValues::append(const std::string& key, const std::string& more) {
  std::string& value = values_[key];
  if (more.size() > longest_ - std::min(longest_, value.size()))
    throw StoreError(concat("store: a value has at most ", longest_, " bytes, and that of '", key,
                            "' would have more"));
  value += more;
}

int64_t KeyValues::add(const std::string& key, int64_t amount) {
  int64_t number = 0;
  if (const std::string* text = find(key)) {
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
    if (error != std::errc() || end != text->data() + text->size())
      throw StoreError("store: add needs a number, and the value of '" + key + "' is none");
  }
  number = int64_t(uint64_t(number) + uint64_t(amount));  // wraps, as nobody counts that far
  values_[key] = std::to_string(number);
  return number;
}

std::string KeyValues::compare_set(const Command& command) {
  const std::string* value = find(command.keys[0]);
  if (value ? *value == command.expected : command.expected.empty())
    return values_[command.keys[0]] = command.value;
  return value ? *value : command.expected;
}

}  // namespace rush::distributed
