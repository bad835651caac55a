#include "distributed/tcp_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace rush::distributed {
namespace {

// A connection that has not said Hello by then is closed.
constexpr auto kHelloTime = std::chrono::seconds(10);
constexpr size_t kMostClients = 16384, kMostStrangers = 1024;
// What one client may ask for before it is the others' turn again.
constexpr int kReadsPerTurn = 16, kAcceptsPerTurn = 64;
// Whoever does not take its answers is not heard until it does.
constexpr size_t kMostUnread = size_t(1) << 20;
constexpr auto kAcceptPause = Milliseconds(100);  // where no descriptors are left

size_t descriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > kMostClients) return kMostClients;
  return size_t(limit.rlim_cur);
}

// Takes as long for a wrong token as for a right one.
bool same_token(const std::string& a, const std::string& b) {
  unsigned char difference = a.size() != b.size();
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace

TcpServer::TcpServer(Socket listening, std::string token)
    : listening_(std::move(listening)),
      token_(std::move(token)),
      port_(port_of(listening_)),
      // The process that holds the store has files of its own to open.
      most_clients_(descriptors() / 4 * 3),
      most_strangers_(std::min(kMostStrangers, descriptors() / 4)) {
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
    try {
      if (!turn()) return;
    } catch (const std::exception&) {  // no memory for the turn: the next may have it
    }
  }
}

bool TcpServer::turn() {
  const bool accepts = Clock::now() >= accept_again_;
  std::vector<pollfd> asked{{woken_.fd(), POLLIN, 0}, {accepts ? listening_.fd() : -1, POLLIN, 0}};
  for (const Client& c : clients_)
    asked.push_back(
        {c.socket.fd(), short((hears(c) ? POLLIN : 0) | (c.out.empty() ? 0 : POLLOUT)), 0});
  if (poll(asked.data(), asked.size(), next_timeout()) < 0 && errno != EINTR) return false;
  if (asked[0].revents) return false;
  size_t at = 2;
  for (auto c = clients_.begin(); c != clients_.end() && at < asked.size(); ++at)
    c = attend(*c, asked[at].revents != 0) ? std::next(c) : clients_.erase(c);
  if (asked[1].revents) accept_clients();
  serve_waiting();
  return true;
}

bool TcpServer::hears(const Client& client) { return client.out.size() <= kMostUnread; }

bool TcpServer::attend(Client& client, bool called) {
  try {
    if (!client.known && Clock::now() - client.since > kHelloTime) return false;
    if (called && hears(client) && !read(client)) return false;
    // Messages that came before their turn are served when the answers before them have gone.
    for (size_t left = 0; left != client.in.size();) {
      left = client.in.size();
      if (!write(client) || !answer_all(client)) return false;
    }
    return write(client);
  } catch (const std::exception&) {  // no memory for what it asks
    return false;
  }
}

void TcpServer::accept_clients() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    Socket s(accept4(listening_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!s) {
      const bool none_left = errno == EMFILE || errno == ENFILE || errno == ENOBUFS;
      if (none_left && !drop_oldest_stranger()) accept_again_ = Clock::now() + kAcceptPause;
      return;
    }
    const auto strange = [](const Client& c) { return !c.known; };
    if (size_t(std::ranges::count_if(clients_, strange)) >= most_strangers_) drop_oldest_stranger();
    if (clients_.size() >= most_clients_ && !drop_oldest_stranger()) continue;
    const int on = 1;
    setsockopt(s.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    clients_.emplace_back().socket = std::move(s);
  }
}

bool TcpServer::drop_oldest_stranger() {
  const auto oldest = std::ranges::find_if(clients_, [](const Client& c) { return !c.known; });
  if (oldest == clients_.end()) return false;
  clients_.erase(oldest);
  return true;
}

bool TcpServer::read(Client& client) {
  char buffer[1 << 16];
  for (int i = 0; i < kReadsPerTurn && hears(client); ++i) {
    const ssize_t n = recv(client.socket.fd(), buffer, sizeof(buffer), MSG_DONTWAIT);
    if (n == 0) return false;
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    client.in.push({buffer, size_t(n)});
    if (!answer_all(client)) return false;
  }
  return true;
}

bool TcpServer::answer_all(Client& client) {
  while (client.in.size() >= sizeof(uint32_t) && hears(client)) {
    const uint32_t size = read_length(client.in.view());
    if (size == 0 || size > (client.known ? kLongestMessage : kLongestHello)) return false;
    if (client.in.size() < sizeof(uint32_t) + size) return true;
    if (!answer(client, client.in.view().substr(sizeof(uint32_t), size))) return false;
    client.in.pop(sizeof(uint32_t) + size);
  }
  return true;
}

bool TcpServer::write(Client& client) {
  while (!client.out.empty()) {
    const std::string_view rest = client.out.view();
    const ssize_t n =
        send(client.socket.fd(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    client.out.pop(size_t(n));
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
  client.out.push(Message(uint8_t(Reply::Done)).bytes());
  return true;
}

bool TcpServer::serve(Client& client, const Command& command) {
  try {
    const std::optional<Answer> answer = values_.apply(command);
    if (!answer) return false;
    client.out.push(Message(uint8_t(Reply::Done)).add(answer->text).add(answer->number).bytes());
  } catch (const StoreError& error) {
    client.out.push(Message(uint8_t(Reply::Failed)).add(error.message()).bytes());
  }
  return true;
}

void TcpServer::serve_waiting() {
  const auto now = Clock::now();
  for (Client& c : clients_) {
    if (!c.waits) continue;
    if (!serve(c, *c.waits)) {
      if (now < c.until) continue;
      c.out.push(Message(uint8_t(Reply::TimedOut)).bytes());
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
  if (Clock::now() < accept_again_) next = std::min(next, accept_again_);
  const auto left = std::chrono::duration_cast<Milliseconds>(next - Clock::now()).count();
  return int(std::max<int64_t>(0, left) + 1);
}

}  // namespace rush::distributed
