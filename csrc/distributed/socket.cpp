#include "distributed/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "core/interrupt.h"

namespace rush::distributed {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses look_up(const std::string& host, uint16_t port, int flags) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = flags;
  const int error = getaddrinfo(host.empty() ? nullptr : host.c_str(), std::to_string(port).c_str(),
                                &wanted, &found);
  if (error != 0)
    throw NetworkError(
        concat("TCPStore: cannot find the host '", host, "': ", gai_strerror(error)));
  return {found, freeaddrinfo};
}

// Is the socket ready for `events`? Throws at the deadline, and asks for interrupts meanwhile.
void wait_ready(int fd, short events, Clock::time_point deadline) {
  while (true) {
    const auto left = std::chrono::duration_cast<Milliseconds>(deadline - Clock::now());
    pollfd asked{fd, events, 0};
    const auto step = std::clamp<int64_t>(left.count() + 1, 0, kInterruptInterval.count());
    if (poll(&asked, 1, int(step)) > 0) return;
    if (Clock::now() >= deadline) throw NetworkError("TCPStore: the store does not answer");
    check_interrupt();
  }
}

// One attempt; an empty socket when nobody listens there.
Socket try_connect(const addrinfo& address, Clock::time_point deadline) {
  Socket s(socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!s) return s;
  if (connect(s.fd(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return {};
    wait_ready(s.fd(), POLLOUT, deadline);
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(s.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return {};
  }
  const int on = 1;
  setsockopt(s.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return s;
}

Socket try_listen(const addrinfo& address) {
  Socket s(socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!s) return s;
  const int on = 1;
  setsockopt(s.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(s.fd(), address.ai_addr, address.ai_addrlen) != 0 || listen(s.fd(), 1024) != 0)
    return {};
  return s;
}

}  // namespace

void Socket::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Socket connect_to(const std::string& host, uint16_t port, Clock::time_point deadline,
                  bool patient) {
  for (auto pause = Milliseconds(5);; pause = std::min(pause * 2, Milliseconds(200))) {
    const Addresses addresses = look_up(host, port, 0);
    for (const addrinfo* a = addresses.get(); a; a = a->ai_next)
      if (Socket s = try_connect(*a, deadline)) return s;
    if (!patient || Clock::now() + pause >= deadline)
      throw NetworkError(concat("TCPStore: nobody answers at ", host, ":", port,
                                "; is rank 0 (MASTER_ADDR, MASTER_PORT) running?"));
    check_interrupt();
    std::this_thread::sleep_for(pause);
  }
}

Socket listen_at(const std::string& host, uint16_t port) {
  int error = 0;
  for (const std::string& place : {host, std::string()}) {
    const Addresses addresses = look_up(place, port, AI_PASSIVE);
    for (const addrinfo* a = addresses.get(); a; a = a->ai_next) {
      if (Socket s = try_listen(*a)) return s;
      error = errno;
    }
    if (error != EADDRNOTAVAIL) break;
  }
  throw NetworkError(
      concat("TCPStore: cannot listen at ", host, ":", port, ": ", std::strerror(error)));
}

uint16_t port_of(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

void send_all(const Socket& socket, const std::string& bytes, Clock::time_point deadline) {
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t n =
        send(socket.fd(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0)
      sent += size_t(n);
    else if (errno == EAGAIN || errno == EINTR)
      wait_ready(socket.fd(), POLLOUT, deadline);
    else
      throw NetworkError(concat("TCPStore: the connection is lost: ", std::strerror(errno)));
  }
}

std::string receive_exactly(const Socket& socket, size_t size, Clock::time_point deadline) {
  // The length may be a stranger's claim: memory grows with what has come.
  constexpr size_t kFirst = size_t(1) << 16;
  std::string bytes;
  for (size_t got = 0; got < size;) {
    bytes.resize(std::min(size, got + std::max(got, kFirst)));
    const ssize_t n = recv(socket.fd(), bytes.data() + got, bytes.size() - got, MSG_DONTWAIT);
    if (n > 0)
      got += size_t(n);
    else if (n < 0 && (errno == EAGAIN || errno == EINTR))
      wait_ready(socket.fd(), POLLIN, deadline);
    else
      throw NetworkError(concat("TCPStore: the process that holds the store is gone",
                                n < 0 ? std::string(": ") + std::strerror(errno) : ""));
  }
  return bytes;
}

}  // namespace rush::distributed
