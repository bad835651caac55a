// store.h: keys and values that several processes share while they find each other.
//
// A value is bytes. `get` and `wait` wait until the keys are there, and no longer than a timeout.
// Every call is a Command, which a kind of store carries out in its own way: on a table of its own
// (hash_store.h), through a file (file_store.h), or at another process (tcp_store.h). Every store
// may be used from several threads at once.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/export.h"

namespace rush::distributed {

using Milliseconds = std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
using Keys = std::vector<std::string>;
inline constexpr Milliseconds kStoreTimeout = std::chrono::minutes(5);

// What the bindings raise as DistStoreError, DistNetworkError and DistBackendError.
class RUSH_API StoreError : public Error {
 public:
  explicit StoreError(std::string message) : Error(ErrorKind::Runtime, std::move(message)) {}
};
class RUSH_API NetworkError : public Error {
 public:
  explicit NetworkError(std::string message) : Error(ErrorKind::Runtime, std::move(message)) {}
};
class RUSH_API BackendError : public Error {
 public:
  explicit BackendError(std::string message) : Error(ErrorKind::Runtime, std::move(message)) {}
};

enum class CommandKind : uint8_t { Set, Get, Append, Add, CompareSet, Check, Delete, Count, Wait };
inline constexpr int kCommandKinds = 9;

struct Command {
  CommandKind kind = CommandKind::Count;
  Keys keys = {};
  std::string value = {};     // set, append: the value; compare_set: what is wanted
  std::string expected = {};  // compare_set
  int64_t amount = 0;         // add
  bool waits() const { return kind == CommandKind::Get || kind == CommandKind::Wait; }
};

// A text (get, compare_set) or a number (add, check, delete_key, num_keys).
struct Answer {
  std::string text = {};
  int64_t number = 0;
};

class RUSH_API Store {
 public:
  Store() = default;
  virtual ~Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // The timeout is that of commands that wait.
  virtual Answer perform(const Command& command, Milliseconds timeout) = 0;

  void set(const std::string& key, const std::string& value);
  std::string get(const std::string& key, Milliseconds timeout);
  void append(const std::string& key, const std::string& value);
  // Adds to a number that is kept as decimal text; a new key counts from 0. Returns the sum.
  int64_t add(const std::string& key, int64_t amount);
  // Sets the key to `desired` when its value is `expected`, or when it is not there and `expected`
  // is empty. Returns the value that is there then, or `expected` when there is none.
  std::string compare_set(const std::string& key, const std::string& expected,
                          const std::string& desired);
  bool check(Keys keys);                    // are all of them there?
  bool delete_key(const std::string& key);  // was it there?
  int64_t num_keys();
  void wait(Keys keys, Milliseconds timeout);

  Milliseconds timeout() const { return timeout_; }
  void set_timeout(Milliseconds timeout) { timeout_ = timeout; }

 protected:
  Milliseconds timeout_ = kStoreTimeout;  // of calls that do not say another
};

// Waits in a store until `size` callers have come to the barrier of that name.
RUSH_API void store_barrier(Store& store, const std::string& name, int size, Milliseconds timeout);

// The error about keys that did not come in time.
StoreError timed_out(const Command& command, Milliseconds timeout);

}  // namespace rush::distributed
