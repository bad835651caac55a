#include "distributed/tcp_store.h"

#include <unistd.h>

#include "core/interrupt.h"

namespace rush::distributed {
namespace {

constexpr size_t kIdleConnections = 4;
constexpr auto kAnswerTime = std::chrono::seconds(10);  // of a server that need not wait

// The server would close the connection, and not say why.
void check_size(const Command& command) {
  size_t size = command.value.size() + command.expected.size();
  for (const std::string& key : command.keys) size += sizeof(uint32_t) + key.size();
  if (size > kLongestValue)
    throw StoreError(concat("TCPStore: keys and values of a call have at most ", kLongestValue,
                            " bytes, got ", size, "; a file serves better for so many"));
  if (command.keys.size() > kMostKeys)
    throw StoreError(concat("TCPStore: a call takes at most ", kMostKeys, " keys, got ",
                            command.keys.size(), "; make several calls"));
}

// One message: whatever else its sender claims, no more than `longest` bytes are taken.
std::string receive_message(const Socket& socket, uint32_t longest, Clock::time_point deadline) {
  const uint32_t size = read_length(receive_exactly(socket, sizeof(uint32_t), deadline));
  if (size == 0 || size > longest) throw NetworkError("TCPStore: not a store's answer");
  return receive_exactly(socket, size, deadline);
}

}  // namespace

TcpStore::TcpStore(TcpStoreOptions options) : options_(std::move(options)), process_(getpid()) {
  timeout_ = options_.timeout;
  if (options_.is_master) {
    Socket listening = options_.listen_fd >= 0 ? Socket(options_.listen_fd)
                                               : listen_at(options_.host, options_.port);
    server_ = std::make_unique<TcpServer>(std::move(listening), options_.token);
    options_.port = server_->port();
  }
  // A key of our own, as in PyTorch: it counts who has come.
  const std::string here = "init/";
  const int64_t come = add(here, 1);
  if (!options_.is_master || !options_.wait_for_workers || !options_.world_size) return;
  const auto deadline = Clock::now() + timeout_;
  for (int64_t n = come; n < *options_.world_size; n = add(here, 0)) {
    if (Clock::now() >= deadline)
      throw StoreError(concat("TCPStore: timed out after ", timeout_.count(), " ms: ", n, " of ",
                              *options_.world_size, " workers have come"));
    check_interrupt();
    std::this_thread::sleep_for(Milliseconds(10));
  }
}

Socket TcpStore::take_connection() {
  {
    const std::lock_guard lock(mutex_);
    if (process_ != getpid()) {
      idle_.clear();
      process_ = getpid();
    }
    if (!idle_.empty()) {
      Socket s = std::move(idle_.back());
      idle_.pop_back();
      return s;
    }
  }
  // A store that was there once and is not any more will not come back.
  const bool first = !reached_;
  const auto deadline = Clock::now() + (first ? timeout_ : Milliseconds(kAnswerTime));
  Socket s = connect_to(options_.host, options_.port, deadline, first);
  send_all(s, Message(kHello).add(kGreeting).add(options_.token).bytes(), deadline);
  try {
    if (Reply(receive_message(s, 1, deadline)[0]) != Reply::Done)
      throw NetworkError("TCPStore: not a store's answer");
  } catch (const NetworkError&) {
    throw NetworkError(concat("TCPStore: ", options_.host, ":", options_.port,
                              " does not answer as a store: it is none, or has another token "
                              "(RUSHLIGHT_STORE_TOKEN)"));
  }
  reached_ = true;
  return s;
}

Answer TcpStore::perform(const Command& command, Milliseconds timeout) {
  if (command.keys.empty() && command.kind != CommandKind::Count) return {.number = 1};
  check_size(command);
  Socket s = take_connection();
  send_all(s, encode(command, timeout), Clock::now() + kAnswerTime);
  const Answer answer = read_answer(s, command, timeout);
  const std::lock_guard lock(mutex_);
  if (idle_.size() < kIdleConnections) idle_.push_back(std::move(s));
  return answer;
}

Answer TcpStore::read_answer(const Socket& socket, const Command& command, Milliseconds timeout) {
  const auto deadline = Clock::now() + (command.waits() ? timeout : Milliseconds(0)) + kAnswerTime;
  const std::string message = receive_message(socket, kLongestMessage, deadline);
  const Reply reply = Reply(message[0]);
  if (reply == Reply::TimedOut) throw timed_out(command, timeout);
  Fields fields(std::string_view(message).substr(1));
  auto text = fields.text();
  if (reply == Reply::Failed && text) throw StoreError(*text);
  const auto number = fields.number();
  if (reply != Reply::Done || !text || !number)
    throw NetworkError("TCPStore: not a store's answer");
  return {*std::move(text), *number};
}

}  // namespace rush::distributed
