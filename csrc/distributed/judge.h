// judge.h: finds out why a group does not go on, and tells every rank.
//
// Note [The judge]
// A collective that some rank does not join never ends, and MPI says nothing. So each rank has a
// thread beside the collectives, which about once per second writes into the store that the rank
// lives, what it has issued and finished (recorder.h), and reads whether somebody found a fault.
// - Always: it compares its neighbour's list with its own. Two ranks that did different things
//   under one number are a fault, whether or not anybody hangs.
// - When a collective of this rank waits for more than a second, it looks at all the others: one
//   that ended, raised, left the group, is stopped, or gives no sign of life is a fault. Of a
//   message that waits, only the other rank is looked at; where anybody may send, all are, and
//   leaving is a fault only of the last.
// - Whoever finds a fault first puts the verdict into the store; all ranks read it, and their
//   collectives, those that wait and all later ones, raise it. Everything goes through the store,
//   never through the engine that may be stuck, so the judge cannot hang with it.
// - A rank that is late but alive is no fault before the timeout of the collective. Then the
//   verdict says who has not come, and what it did last.
#pragma once

#include <condition_variable>
#include <map>
#include <set>
#include <thread>

#include "core/mutex.h"
#include "distributed/rank_status.h"

namespace rush::distributed {

class RUSH_API Judge {
 public:
  Judge(std::shared_ptr<Store> store, int rank, int size, std::string group,
        const Recorder& recorder);
  ~Judge();

  // The verdict, once there is one; "" before. Never waits.
  std::string verdict() const;
  bool has_verdict() const { return decided_.load(std::memory_order_acquire); }
  // A fault that this rank saw itself. Tells the others; returns the verdict that counts, which may
  // be another rank's.
  std::string report(const std::string& fault);
  // The fault of a collective that took too long: who has not come?
  std::string report_timeout(int64_t number, Milliseconds timeout);
  std::string report_message_timeout(int64_t number, Milliseconds timeout);
  // An engine's error is often the echo of another fault: waits for a verdict for a moment.
  std::string explain(const std::string& engine_error);
  // This rank raised an error outside of collectives, or leaves in order.
  void say_raised(const std::string& error);
  void leave();

 private:
  struct Seen {  // of another rank
    int64_t beat = -1;
    Clock::time_point since = Clock::now();
  };

  void run();
  void stop();
  void beat();
  void publish();
  bool read_verdict();
  void decide(const std::string& verdict);
  RankStatus read(int rank);
  std::string compare(int other, const RankStatus& status);
  struct Waits {  // what of this rank has waited for long
    bool collective = false, from_anybody = false;
    std::set<int> peers;
    bool any() const { return collective || from_anybody || !peers.empty(); }
  };
  Waits waits() const;
  std::string look_after(int other, const RankStatus& status, const Waits& waits);
  std::string others_at(int64_t number);
  std::string report_late(const std::string& what, int64_t number, Milliseconds timeout);
  std::string disagreement(int64_t number);
  std::string describe_rank(int rank, const RankStatus& status) const;
  std::string own_place() const;

  std::shared_ptr<Store> store_;
  const int rank_, size_;
  const std::string group_;
  const Recorder& recorder_;
  mutable Mutex mutex_{LockRank::Judge};  // guards what follows; not held while the store is asked
  std::condition_variable_any wake_;
  bool stop_ = false, beat_now_ = false;
  std::atomic<bool> decided_{false};
  std::string verdict_;
  RankStatus mine_;
  Mutex publishing_{LockRank::Publishing};
  std::map<int, Seen> seen_;  // of the thread only
  std::thread thread_;
};

}  // namespace rush::distributed
