// file_store.h: a store in a file that all processes can reach.
//
// The file begins with a header of its own, and then is a log: each record is a key and its new value, or the mark of a deletion. Whoever
// calls locks the file (flock), reads what others have written since, and writes its own record
// at the end. Waiting is asking again and again, as nobody can be woken. A log that is mostly history
// is written anew under another name, which then takes the place of the old file.
#pragma once

#include "core/mutex.h"
#include "distributed/key_values.h"

namespace rush::distributed {

class RUSH_API FileStore final : public Store {
 public:
  // With a number of users, the last of them to close the store removes the file.
  FileStore(std::string path, int64_t world_size);
  ~FileStore() override;
  Answer perform(const Command& command, Milliseconds timeout) override;
  const std::string& path() const { return path_; }

 private:
  std::optional<Answer> attempt(const Command& command);
  void read_header(int fd, int64_t& size);
  void read_log(int fd, int64_t size);
  void write_record(int fd, const std::string& key);
  void rewrite();

  Mutex mutex_{LockRank::Store};
  std::string path_;
  int64_t world_size_;
  int64_t position_ = 0;  // how far the log is read
  std::string header_;    // of the file that was read: no two have the same
  int64_t next_rewrite_ = 0;
  KeyValues values_;
};

}  // namespace rush::distributed
