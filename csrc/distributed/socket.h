// socket.h: TCP connections: an owned descriptor, connecting and listening with deadlines.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "core/export.h"
#include "distributed/store.h"

namespace rush::distributed {

class RUSH_API Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() { close(); }
  void close();
  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// `patient`: tries again until the deadline, as the other side may not listen yet.
RUSH_API Socket connect_to(const std::string& host, uint16_t port, Clock::time_point deadline,
                           bool patient);

// Listens at the address that `host` names. Where that is none of this machine's (behind a
// translation of addresses), at all of them. Port 0 takes a free one.
RUSH_API Socket listen_at(const std::string& host, uint16_t port);
RUSH_API uint16_t port_of(const Socket& socket);

// All of the bytes, or NetworkError when the other side is gone or the deadline has passed. Waiting
// for bytes can be interrupted.
RUSH_API void send_all(const Socket& socket, const std::string& bytes, Clock::time_point deadline);
RUSH_API std::string receive_exactly(const Socket& socket, size_t size, Clock::time_point deadline);

}  // namespace rush::distributed
