// tcp_server.h: the side of a TCPStore that holds the table: one thread with poll(), which answers
// everybody and never waits for anybody.
//
// Strangers may send it anything. It keeps what has come and no memory for what a length claims; a
// connection that has not shown the token in time is closed, the oldest one earlier where there
// are many of them; nobody is heard for long while others have something to say.
#pragma once

#include <list>
#include <thread>

#include "distributed/byte_queue.h"
#include "distributed/key_values.h"
#include "distributed/socket.h"
#include "distributed/store_message.h"

namespace rush::distributed {

class RUSH_API TcpServer {
 public:
  TcpServer(Socket listening, std::string token);
  ~TcpServer();  // ends the thread and closes all connections
  uint16_t port() const { return port_; }

 private:
  struct Client {
    Socket socket;
    Clock::time_point since = Clock::now();
    bool known = false;  // it said Hello with the right token
    ByteQueue in, out;
    std::optional<Command> waits;  // for keys
    Clock::time_point until;
    Milliseconds timeout{0};
  };

  void run();
  bool turn();  // false: the end
  void accept_clients();
  bool drop_oldest_stranger();               // false: there is none
  bool attend(Client& client, bool called);  // false: close the connection
  static bool hears(const Client& client);   // or are too many answers on their way?
  bool answer_all(Client& client);           // all messages that are whole; false: close
  bool read(Client& client);                 // false: close the connection
  bool write(Client& client);                // the same
  bool answer(Client& client, std::string_view message);
  bool greet(Client& client, std::string_view message);
  bool serve(Client& client, const Command& command);  // false: it has to wait
  void serve_waiting();
  int next_timeout() const;  // milliseconds for poll

  Socket listening_, wake_, woken_;
  std::string token_;
  uint16_t port_;
  size_t most_clients_, most_strangers_;
  Clock::time_point accept_again_{};
  KeyValues values_{kLongestValue};
  std::list<Client> clients_;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace rush::distributed
