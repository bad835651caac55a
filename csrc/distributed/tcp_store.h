// tcp_store.h: a store that one process holds and the others reach over the network.
//
// Each call takes a connection out of a small pool and puts it back, so that a thread that waits
// for a key keeps no other thread from setting it.
#pragma once

#include <optional>
#include <vector>

#include "core/mutex.h"
#include "distributed/tcp_server.h"

namespace rush::distributed {

struct RUSH_API TcpStoreOptions {
  std::string host;
  uint16_t port = 0;  // 0, as the master: a free one
  std::optional<int> world_size;
  bool is_master = false;
  bool wait_for_workers = true;  // as the master: until world_size stores have come
  Milliseconds timeout = kStoreTimeout;
  int listen_fd = -1;  // as the master: a socket that listens already
  std::string token;   // whoever does not know it is not served
};

class RUSH_API TcpStore final : public Store {
 public:
  explicit TcpStore(TcpStoreOptions options);
  Answer perform(const Command& command, Milliseconds timeout) override;
  const std::string& host() const { return options_.host; }
  uint16_t port() const { return options_.port; }

 private:
  Socket take_connection();
  Answer read_answer(const Socket& socket, const Command& command, Milliseconds timeout);

  TcpStoreOptions options_;
  std::unique_ptr<TcpServer> server_;
  Mutex mutex_{LockRank::Store};
  std::vector<Socket> idle_;
  std::atomic<bool> reached_{false};  // the server answered once
  int process_;                       // a forked child must not use its parent's connections
};

}  // namespace rush::distributed
