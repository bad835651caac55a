#include "distributed/store.h"

namespace rush::distributed {

void Store::set(const std::string& key, const std::string& value) {
  perform({.kind = CommandKind::Set, .keys = {key}, .value = value}, timeout_);
}

std::string Store::get(const std::string& key, Milliseconds timeout) {
  return perform({.kind = CommandKind::Get, .keys = {key}}, timeout).text;
}

void Store::append(const std::string& key, const std::string& value) {
  perform({.kind = CommandKind::Append, .keys = {key}, .value = value}, timeout_);
}

int64_t Store::add(const std::string& key, int64_t amount) {
  return perform({.kind = CommandKind::Add, .keys = {key}, .amount = amount}, timeout_).number;
}

std::string Store::compare_set(const std::string& key, const std::string& expected,
                               const std::string& desired) {
  const Command command{
      .kind = CommandKind::CompareSet, .keys = {key}, .value = desired, .expected = expected};
  return perform(command, timeout_).text;
}

bool Store::check(Keys keys) {
  return perform({.kind = CommandKind::Check, .keys = std::move(keys)}, timeout_).number;
}

bool Store::delete_key(const std::string& key) {
  return perform({.kind = CommandKind::Delete, .keys = {key}}, timeout_).number;
}

int64_t Store::num_keys() { return perform({.kind = CommandKind::Count}, timeout_).number; }

void Store::wait(Keys keys, Milliseconds timeout) {
  perform({.kind = CommandKind::Wait, .keys = std::move(keys)}, timeout);
}

StoreError timed_out(const Command& command, Milliseconds timeout) {
  std::string text = concat("store: wait timeout after ", timeout.count(), " ms, keys: ");
  for (const std::string& key : command.keys) text += (&key == &command.keys[0] ? "" : ", ") + key;
  return StoreError(text);
}

void store_barrier(Store& store, const std::string& name, int size, Milliseconds timeout) {
  if (store.add(name + "/count", 1) == size) store.set(name + "/done", "1");
  store.wait({name + "/done"}, timeout);
}

}  // namespace rush::distributed
