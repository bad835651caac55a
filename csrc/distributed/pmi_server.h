// pmi_server.h: lets an MPI library start in processes that no mpiexec started.
//
// MPI libraries learn from a process manager who the others are, over a few lines of text (PMI-1):
// put, get, barrier. Here the other end of that connection is a thread of the same process, which
// answers out of a store that all ranks share.
#pragma once

#include <thread>

#include "distributed/socket.h"
#include "distributed/store.h"

namespace rush::distributed {

class RUSH_API PmiServer {
 public:
  // Sets PMI_FD, PMI_RANK and PMI_SIZE for the library to find; `timeout` limits its barriers.
  PmiServer(std::shared_ptr<Store> store, int rank, int size, Milliseconds timeout);
  ~PmiServer();
  const std::string& failure() const { return failure_; }  // why it stopped answering, or ""

 private:
  void run();
  std::string answer(const std::string& line);

  std::shared_ptr<Store> store_;
  int rank_, size_;
  Milliseconds timeout_;
  int64_t barriers_ = 0;
  std::string name_;  // of this job, unlike that of any other on the machine
  std::string failure_;
  Socket ours_;
  int theirs_ = -1;  // the library closes it
  std::thread thread_;
};

// Which ranks are on one machine, in the words of PMI: "(vector,(node,nodes,ranks),...)".
RUSH_API std::string process_mapping(const std::vector<std::string>& hosts);

}  // namespace rush::distributed
