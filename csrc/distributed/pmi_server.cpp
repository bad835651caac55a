#include "distributed/pmi_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <vector>

namespace rush::distributed {
namespace {

// "cmd=put kvsname=a key=b value=c": the word after `name=`, up to the next space.
std::string field_of(const std::string& line, const std::string& name) {
  for (size_t at = line.find(name + "="); at != std::string::npos;
       at = line.find(name + "=", at + 1)) {
    if (at != 0 && line[at - 1] != ' ') continue;
    const size_t begin = at + name.size() + 1;
    return line.substr(begin, line.find(' ', begin) - begin);
  }
  return "";
}

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

std::string random_name() {
  std::random_device source;
  return concat("rushlight-", source(), "-", source());
}

}  // namespace

std::string process_mapping(const std::vector<std::string>& hosts) {
  std::map<std::string, size_t> nodes;
  std::string text = "(vector";
  for (size_t rank = 0; rank < hosts.size();) {
    size_t end = rank;
    while (end < hosts.size() && hosts[end] == hosts[rank]) ++end;
    const size_t node = nodes.try_emplace(hosts[rank], nodes.size()).first->second;
    text += concat(",(", node, ",1,", end - rank, ")");
    rank = end;
  }
  return text + ")";
}

PmiServer::PmiServer(std::shared_ptr<Store> store, int rank, int size, Milliseconds timeout)
    : store_(std::move(store)), rank_(rank), size_(size), timeout_(timeout) {
  // The library names its shared memory after the job, so two jobs must not share a name.
  if (rank == 0) store_->set("pmi/name", random_name());
  name_ = store_->get("pmi/name", timeout_);
  store_->set(concat("pmi/host/", rank), host_name());
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
    throw NetworkError("init_process_group: no descriptors are left");
  ours_ = Socket(pair[0]);
  theirs_ = pair[1];
  setenv("PMI_FD", std::to_string(theirs_).c_str(), 1);
  setenv("PMI_RANK", std::to_string(rank).c_str(), 1);
  setenv("PMI_SIZE", std::to_string(size).c_str(), 1);
  thread_ = std::thread([this] { run(); });
}

PmiServer::~PmiServer() {
  for (const char* name : {"PMI_FD", "PMI_RANK", "PMI_SIZE"}) unsetenv(name);
  shutdown(ours_.fd(), SHUT_RDWR);
  thread_.join();
}

void PmiServer::run() {
  std::string pending;
  char buffer[4096];
  while (true) {
    const ssize_t n = recv(ours_.fd(), buffer, sizeof(buffer), 0);
    if (n <= 0) return;
    pending.append(buffer, size_t(n));
    for (size_t end; (end = pending.find('\n')) != std::string::npos;) {
      std::string reply;
      try {
        reply = answer(pending.substr(0, end)) + "\n";
      } catch (const std::exception& error) {
        failure_ = error.what();
        shutdown(ours_.fd(), SHUT_RDWR);  // the library gives up, instead of waiting for good
        return;
      }
      pending.erase(0, end + 1);
      if (send(ours_.fd(), reply.data(), reply.size(), MSG_NOSIGNAL) < 0) return;
    }
  }
}

std::string PmiServer::answer(const std::string& line) {
  const std::string command = field_of(line, "cmd"), key = "pmi/key/" + field_of(line, "key");
  if (command == "init") return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0";
  if (command == "get_maxes") return "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024 rc=0";
  if (command == "get_appnum") return "cmd=appnum appnum=0 rc=0";
  if (command == "get_my_kvsname") return "cmd=my_kvsname kvsname=" + name_ + " rc=0";
  if (command == "get_universe_size") return concat("cmd=universe_size size=", size_, " rc=0");
  if (command == "put") {
    const size_t at = line.find("value=");
    if (at == std::string::npos) return "cmd=put_result rc=-1";
    store_->set(key, line.substr(at + 6));
    return "cmd=put_result rc=0";
  }
  if (command == "get") {
    if (field_of(line, "key") == "PMI_process_mapping") {
      std::vector<std::string> hosts;
      for (int r = 0; r < size_; ++r)
        hosts.push_back(store_->get(concat("pmi/host/", r), timeout_));
      return "cmd=get_result rc=0 value=" + process_mapping(hosts);
    }
    if (!store_->check({key})) return "cmd=get_result rc=-1 found=FALSE";
    return "cmd=get_result rc=0 value=" + store_->get(key, timeout_);
  }
  if (command == "barrier_in") {
    store_barrier(*store_, concat("pmi/barrier/", barriers_++), size_, timeout_);
    return "cmd=barrier_out rc=0";
  }
  if (command == "finalize") return "cmd=finalize_ack rc=0";
  return "cmd=" + command + "_result rc=-1";
}

}  // namespace rush::distributed
