// recorder.h: what this rank has asked its group to do, for the judge to compare with the others.
//
// Each collective gets the next number, a text that says what it is (kind, dtype, shape) and the
// user's line. A running hash over the texts stands for all that came before: where two ranks have
// the same hash at one number, they have agreed up to there.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "core/export.h"
#include "core/mutex.h"
#include "core/source.h"
#include "distributed/store.h"

namespace rush::distributed {

struct RUSH_API Entry {
  int64_t number = 0;
  uint64_t hash = 0;
  std::string what;   // "all_reduce(SUM) of float32 [4, 2]"
  std::string where;  // "train.py:12 in step `dist.all_reduce(x)`", or ""
  std::string text() const;
};

// A send or recv that is on its way. The ranks do not agree on messages, so these have no part in
// the numbers and hashes.
struct RUSH_API Message {
  int peer = 0;  // kAnySource: whoever sends
  std::string text;
  Clock::time_point since = Clock::now();
};

class RUSH_API Recorder {
 public:
  // Returns the number of the collective. `where` is asked for with the GIL held.
  int64_t issue(std::string what, SourcePoint where);
  void finish(int64_t number);
  // The same for messages; the numbers are a count of their own.
  int64_t issue_message(std::string what, int peer, SourcePoint where);
  void finish_message(int64_t number);
  std::map<int64_t, Message> messages() const;  // those that are on their way, oldest first
  int64_t issued() const;
  int64_t finished() const;  // all up to this number are
  // Since when the oldest collective that is not finished has waited; nothing when there is none.
  std::optional<Clock::time_point> waiting_since() const;
  std::optional<Entry> find(int64_t number) const;
  // The last `most` entries, and of those before them one in kStride, oldest first.
  std::deque<Entry> latest(size_t most) const;

 private:
  static constexpr size_t kRing = 512;
  static constexpr int64_t kStride = 256;
  static constexpr size_t kMilestones = 16;

  const std::string& described(SourcePoint where);

  mutable Mutex mutex_{LockRank::Recorder};
  int64_t issued_ = 0;
  std::set<int64_t> open_;  // issued and not finished; on GPUs they end later than on the host
  uint64_t hash_ = 0;
  Clock::time_point changed_ = Clock::now();  // when the oldest unfinished one became that
  std::deque<Entry> ring_, milestones_;
  std::map<int64_t, Message> messages_;
  int64_t messages_issued_ = 0;
  std::unordered_map<uint64_t, std::string> places_;  // a line is described once
};

}  // namespace rush::distributed
