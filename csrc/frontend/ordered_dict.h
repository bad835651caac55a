// ordered_dict.h: keys and values in the order in which they came, found by key.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/error.h"

namespace rush {

template <class Key, class Value>
class OrderedDict {
 public:
  class Item {
   public:
    Item(Key key, Value value) : pair_(std::move(key), std::move(value)) {}
    const Key& key() const { return pair_.first; }
    Value& value() { return pair_.second; }
    const Value& value() const { return pair_.second; }
    Value& operator*() { return value(); }
    const Value& operator*() const { return value(); }
    Value* operator->() { return &value(); }
    const Value* operator->() const { return &value(); }
    const std::pair<Key, Value>& pair() const { return pair_; }

   private:
    std::pair<Key, Value> pair_;
  };

  OrderedDict() = default;
  OrderedDict(std::initializer_list<Item> items) {
    for (const Item& item : items) insert(item.key(), item.value());
  }

  size_t size() const { return items_.size(); }
  bool is_empty() const { return items_.empty(); }
  bool contains(const Key& key) const { return find(key) != nullptr; }
  // Null where there is no such key.
  Value* find(const Key& key) {
    for (Item& item : items_) {
      if (item.key() == key) return &item.value();
    }
    return nullptr;
  }
  const Value* find(const Key& key) const { return const_cast<OrderedDict*>(this)->find(key); }
  Value& operator[](const Key& key) {
    Value* found = find(key);
    check(found, ErrorKind::Argument, "OrderedDict", "there is no key '", key, "'");
    return *found;
  }
  const Value& operator[](const Key& key) const { return const_cast<OrderedDict&>(*this)[key]; }
  Item& operator[](size_t i) { return items_.at(i); }
  const Item& operator[](size_t i) const { return items_.at(i); }

  Value& insert(Key key, Value value) {
    check(!contains(key), ErrorKind::Argument, "OrderedDict", "key '", key, "' is there already");
    items_.emplace_back(std::move(key), std::move(value));
    return items_.back().value();
  }
  void erase(const Key& key) {
    std::erase_if(items_, [&](const Item& item) { return item.key() == key; });
  }
  void clear() { items_.clear(); }

  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  std::vector<Key> keys() const {
    std::vector<Key> all;
    for (const Item& item : items_) all.push_back(item.key());
    return all;
  }
  std::vector<Value> values() const {
    std::vector<Value> all;
    for (const Item& item : items_) all.push_back(item.value());
    return all;
  }

 private:
  std::vector<Item> items_;  // few: a search goes through all
};

}  // namespace rush
