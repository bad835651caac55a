#include "distributed/tcp_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace rush::distributed {
namespace {

// A connection that has not said Hello by then is closed, and so many of them are kept at most.
constexpr auto kHelloTime = std::chrono::seconds(10);
constexpr size_t kMostClients = 16384;

// Takes as long for a wrong token as for a right one.
bool same_token(const std::string& a, const std::string& b) {
  unsigned char difference = a.size() != b.size();
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace

TcpServer::TcpServer(Socket listening, std::string token)
    : listening_(std::move(listening)), token_(std::move(token)), port_(port_of(listening_)) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    throw NetworkError("TCPStore: no descriptors are left");
  wake_ = Socket(pair[0]);
  woken_ = Socket(pair[1]);
  thread_ = std::thread([this] { run(); });
}

TcpServer::~TcpServer() {
  wake_.close();
  thread_.join();
}

void TcpServer::run() {
  while (true) {
    std::vector<pollfd> asked{{woken_.fd(), POLLIN, 0}, {listening_.fd(), POLLIN, 0}};
    for (const Client& c : clients_)
      asked.push_back({c.socket.fd(), short(c.out.empty() ? POLLIN : POLLIN | POLLOUT), 0});
    if (poll(asked.data(), asked.size(), next_timeout()) < 0 && errno != EINTR) return;
    if (asked[0].revents) return;
    size_t at = 2;
    for (auto c = clients_.begin(); c != clients_.end() && at < asked.size(); ++at) {
      const bool silent = !c->known && Clock::now() - c->since > kHelloTime;
      const bool fine = !silent && (!asked[at].revents || read(*c)) && write(*c);
      c = fine ? std::next(c) : clients_.erase(c);
    }
    if (asked[1].revents) accept_clients();
    serve_waiting();
  }
}

void TcpServer::accept_clients() {
  while (true) {
    Socket s(accept4(listening_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!s) return;
    if (clients_.size() >= kMostClients) continue;
    const int on = 1;
    setsockopt(s.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    clients_.emplace_back().socket = std::move(s);
  }
}

bool TcpServer::read(Client& client) {
  char buffer[1 << 16];
  while (true) {
    const ssize_t n = recv(client.socket.fd(), buffer, sizeof(buffer), MSG_DONTWAIT);
    if (n == 0) return false;
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    client.in.append(buffer, size_t(n));
    while (client.in.size() >= sizeof(uint32_t)) {
      const uint32_t size = read_length(client.in);
      if (size == 0 || size > (client.known ? kLongestMessage : kLongestHello)) return false;
      if (client.in.size() < sizeof(uint32_t) + size) break;
      if (!answer(client, std::string_view(client.in).substr(sizeof(uint32_t), size))) return false;
      client.in.erase(0, sizeof(uint32_t) + size);
    }
  }
}

bool TcpServer::write(Client& client) {
  while (!client.out.empty()) {
    const ssize_t n =
        send(client.socket.fd(), client.out.data(), client.out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    client.out.erase(0, size_t(n));
  }
  return true;
}

bool TcpServer::answer(Client& client, std::string_view message) {
  if (!client.known) return greet(client, message);
  std::optional<Command> command = decode(message, client.timeout);
  if (!command || client.waits) return false;  // whoever waits sends nothing else
  if (serve(client, *command)) return true;
  client.until = Clock::now() + client.timeout;
  client.waits = std::move(command);
  return true;
}

bool TcpServer::greet(Client& client, std::string_view message) {
  Fields fields(message.substr(1));
  const auto greeting = fields.text(), token = fields.text();
  if (uint8_t(message[0]) != kHello || !greeting || *greeting != kGreeting) return false;
  if (!token || !same_token(*token, token_)) return false;
  client.known = true;
  client.out += Message(uint8_t(Reply::Done)).bytes();
  return true;
}

bool TcpServer::serve(Client& client, const Command& command) {
  try {
    const std::optional<Answer> answer = values_.apply(command);
    if (!answer) return false;
    client.out += Message(uint8_t(Reply::Done)).add(answer->text).add(answer->number).bytes();
  } catch (const StoreError& error) {
    client.out += Message(uint8_t(Reply::Failed)).add(error.message()).bytes();
  }
  return true;
}

void TcpServer::serve_waiting() {
  const auto now = Clock::now();
  for (Client& c : clients_) {
    if (!c.waits) continue;
    if (!serve(c, *c.waits)) {
      if (now < c.until) continue;
      c.out += Message(uint8_t(Reply::TimedOut)).bytes();
    }
    c.waits.reset();
    write(c);  // what fails here fails again at the next turn, and is closed there
  }
}

int TcpServer::next_timeout() const {
  auto next = Clock::now() + std::chrono::seconds(5);
  for (const Client& c : clients_) {
    if (c.waits) next = std::min(next, c.until);
    if (!c.known) next = std::min(next, c.since + kHelloTime);
  }
  const auto left = std::chrono::duration_cast<Milliseconds>(next - Clock::now()).count();
  return int(std::max<int64_t>(0, left) + 1);
}

}  // namespace rush::distributed
