// rank_status.h: what a rank tells the others about itself through the store.
#pragma once

#include <deque>

#include "distributed/recorder.h"

namespace rush::distributed {

// Lines of text in the store. Everything in it was written by another process, so reading it never
// fails: what is not understood is left out.
struct RUSH_API RankStatus {
  std::string host;
  std::string machine;  // where pid means something: unlike that of another host or container
  int64_t pid = 0;
  int64_t beat = 0;               // grows about once per second
  std::string state = "running";  // or "left", "raised"
  std::string why;                // of "raised": the error
  int64_t issued = 0, finished = 0;
  std::deque<Entry> entries;
  std::deque<std::string> messages;  // the oldest of those that are on their way

  std::string text() const;
  static RankStatus parse(const std::string& text);
  const Entry* find(int64_t number) const;
  const Entry* last() const { return entries.empty() ? nullptr : &entries.back(); }
};

RUSH_API RankStatus own_status();  // pid, machine and host of this process

enum class ProcessState { Running, Stopped, Gone, Unknown };
RUSH_API ProcessState state_of(const RankStatus& other);  // Unknown on another machine

}  // namespace rush::distributed
