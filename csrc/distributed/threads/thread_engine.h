// thread_engine.h: collectives between threads of one process, each of which is a rank.
//
// The memory is shared, so a collective is a meeting: each rank leaves its operation, and the last
// to come computes all results, in the order of the ranks. A message is handed over when both sides
// have come. What ranks disagree about stays undone, as with any engine; the judge finds it.
#pragma once

#include <map>

#include "core/mutex.h"
#include "distributed/operation.h"

namespace rush::distributed::threads {

struct Room;  // where the ranks of one group meet

// What the ranks of one simulation share.
class RUSH_API Hub {
 public:
  // The room of a name, which the first to ask makes.
  std::shared_ptr<Room> room(const std::string& name, int size);

 private:
  Mutex mutex_{LockRank::Store};
  std::map<std::string, std::shared_ptr<Room>> rooms_;
};

RUSH_API std::unique_ptr<Engine> make_engine(Hub& hub, const std::string& name, int size, int rank);

}  // namespace rush::distributed::threads
