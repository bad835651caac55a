#include "distributed/rank_status.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace rush::distributed {
namespace {

// Line breaks and tabs separate; they do not occur inside a field.
std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n' || c == '\t' || c == '\r') c = ' ';
  return text;
}

}  // namespace

std::string RankStatus::text() const {
  std::ostringstream out;
  out << "beat\t" << beat << "\npid\t" << pid << "\nmachine\t" << one_line(machine) << "\nhost\t"
      << one_line(host) << "\nstate\t" << state << "\nwhy\t" << one_line(why) << "\nissued\t"
      << issued << "\nfinished\t" << finished << "\n";
  for (const Entry& e : entries)
    out << "entry\t" << e.number << "\t" << e.hash << "\t" << one_line(e.what) << "\t"
        << one_line(e.where) << "\n";
  for (const std::string& m : messages) out << "message\t" << one_line(m) << "\n";
  return std::move(out).str();
}

RankStatus RankStatus::parse(const std::string& text) {
  RankStatus status;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream parts(line);
    std::string name, value;
    std::getline(parts, name, '\t');
    std::getline(parts, value, '\t');
    const int64_t number = std::strtoll(value.c_str(), nullptr, 10);
    if (name == "beat") status.beat = number;
    if (name == "pid") status.pid = number;
    if (name == "machine") status.machine = value;
    if (name == "host") status.host = value;
    if (name == "state") status.state = value;
    if (name == "why") status.why = value;
    if (name == "issued") status.issued = number;
    if (name == "finished") status.finished = number;
    if (name == "message") status.messages.push_back(value);
    if (name == "entry") {
      Entry e;
      std::string hash;
      std::getline(parts, hash, '\t');
      std::getline(parts, e.what, '\t');
      std::getline(parts, e.where, '\t');
      e.number = number;
      e.hash = std::strtoull(hash.c_str(), nullptr, 10);
      status.entries.push_back(std::move(e));
    }
  }
  return status;
}

const Entry* RankStatus::find(int64_t number) const {
  for (const Entry& e : entries)
    if (e.number == number) return &e;
  return nullptr;
}

RankStatus own_status() {
  RankStatus status;
  char text[256] = "";
  gethostname(text, sizeof(text) - 1);
  status.host = text;
  status.pid = getpid();
  // Containers on one machine may share a host name, and not the numbers of processes.
  const ssize_t n = readlink("/proc/self/ns/pid", text, sizeof(text) - 1);
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(boot, id);
  status.machine = id + " " + std::string(text, size_t(n > 0 ? n : 0));
  return status;
}

ProcessState state_of(const RankStatus& other) {
  static const std::string here = own_status().machine;
  if (other.machine != here || other.pid <= 0) return ProcessState::Unknown;
  std::ifstream file("/proc/" + std::to_string(other.pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return ProcessState::Gone;
  const size_t at = line.rfind(')');  // the name before it may hold anything
  const char state = at != std::string::npos && at + 2 < line.size() ? line[at + 2] : '?';
  if (state == 'Z' || state == 'X') return ProcessState::Gone;
  return state == 'T' ? ProcessState::Stopped : ProcessState::Running;
}

}  // namespace rush::distributed
