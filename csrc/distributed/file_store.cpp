#include "distributed/file_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <string_view>
#include <thread>

#include "core/interrupt.h"

namespace rush::distributed {
namespace {

constexpr uint32_t kDeleted = ~0u;  // in place of a value's length
constexpr uint32_t kLimit = 1u << 30;
constexpr auto kLockTime = std::chrono::seconds(10);
constexpr int64_t kWorthRewriting = 4 << 20;
constexpr std::string_view kMark = "rushlight file store 1\n";
constexpr ssize_t kHeaderSize = 48;
// A key of the store itself; users' keys begin with a slash.
const std::string kUsers = "#users";

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw StoreError(concat("FileStore: cannot ", what, " ", path, ": ", std::strerror(errno)));
}

// The open file with its lock; others wait until this goes.
class LockedFile {
 public:
  explicit LockedFile(const std::string& path) {
    while (true) {
      fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
      if (fd_ < 0) fail(path, "open");
      lock(path);
      // Whoever had the lock before may have put another file in its place.
      struct stat named;
      if (fstat(fd_, &status_) == 0 && stat(path.c_str(), &named) == 0 &&
          named.st_ino == status_.st_ino)
        return;
      close(fd_);
    }
  }
  ~LockedFile() { close(fd_); }
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;
  int fd() const { return fd_; }
  int64_t size() const { return status_.st_size; }

 private:
  // Not by waiting in the kernel: a process that was stopped while it had the lock keeps it.
  void lock(const std::string& path) const {
    const auto deadline = Clock::now() + kLockTime;
    for (auto pause = std::chrono::microseconds(50); flock(fd_, LOCK_EX | LOCK_NB) != 0;
         pause = std::min(pause * 2, std::chrono::microseconds(2000))) {
      if (Clock::now() >= deadline) {
        close(fd_);
        throw NetworkError("FileStore: another process keeps " + path + " locked");
      }
      std::this_thread::sleep_for(pause);
    }
  }

  int fd_ = -1;
  struct stat status_ = {};
};

std::string new_header() {
  std::random_device source;
  std::string header = concat(kMark, source(), " ", source());
  header.resize(kHeaderSize, '\n');
  return header;
}

std::string record_of(const std::string& key, const std::string* value) {
  std::string record;
  const auto put_size = [&](uint32_t size) {
    record.append(reinterpret_cast<const char*>(&size), sizeof(size));
  };
  put_size(uint32_t(key.size()));
  record += key;
  put_size(value ? uint32_t(value->size()) : kDeleted);
  if (value) record += *value;
  return record;
}

}  // namespace

FileStore::FileStore(std::string path, int64_t world_size)
    : path_(std::move(path)), world_size_(world_size) {
  attempt({.kind = CommandKind::Add, .keys = {kUsers}, .amount = 1});
}

FileStore::~FileStore() {
  try {
    const auto left = attempt({.kind = CommandKind::Add, .keys = {kUsers}, .amount = -1});
    if (left->number == 0 && world_size_ > 0) unlink(path_.c_str());
  } catch (const Error&) {
    // The folder is gone, and the file with it.
  }
}

std::optional<Answer> FileStore::attempt(const Command& command) {
  const std::lock_guard lock(mutex_);
  const LockedFile file(path_);
  int64_t size = file.size();
  read_header(file.fd(), size);
  read_log(file.fd(), size);
  const std::optional<Answer> answer = values_.apply(command);
  switch (command.kind) {
    case CommandKind::Set:
    case CommandKind::Append:
    case CommandKind::Add:
    case CommandKind::CompareSet:
    case CommandKind::Delete:
      write_record(file.fd(), command.keys[0]);
      if (position_ > next_rewrite_) rewrite();
      break;
    default:
      break;
  }
  return answer;
}

Answer FileStore::perform(const Command& command, Milliseconds timeout) {
  Command own = command;
  for (std::string& key : own.keys) key = "/" + key;
  const auto deadline = Clock::now() + timeout;
  for (auto pause = Milliseconds(1);; pause = std::min(pause * 2, Milliseconds(20))) {
    if (std::optional<Answer> answer = attempt(own)) {
      if (command.kind == CommandKind::Count) --answer->number;  // without our own
      return *std::move(answer);
    }
    if (Clock::now() >= deadline) throw timed_out(command, timeout);
    check_interrupt();
    std::this_thread::sleep_for(pause);
  }
}

void FileStore::read_header(int fd, int64_t& size) {
  if (size == 0) {
    const std::string fresh = new_header();
    if (pwrite(fd, fresh.data(), kHeaderSize, 0) != kHeaderSize) fail(path_, "write");
    size = kHeaderSize;
  }
  std::string header(kHeaderSize, '\0');
  if (pread(fd, header.data(), kHeaderSize, 0) != kHeaderSize || !header.starts_with(kMark))
    throw StoreError("FileStore: " + path_ + " is not the file of a store");
  if (header == header_) return;
  header_ = header;
  values_ = {};
  position_ = kHeaderSize;
}

void FileStore::read_log(int fd, int64_t size) {
  std::string log(size_t(std::max<int64_t>(0, size - position_)), '\0');
  for (size_t got = 0; got < log.size();) {
    const ssize_t n = pread(fd, log.data() + got, log.size() - got, position_ + int64_t(got));
    if (n <= 0 && errno != EINTR) fail(path_, "read");
    got += size_t(std::max<ssize_t>(0, n));
  }
  size_t at = 0;
  const auto take = [&](uint32_t size) -> std::string {
    if (size > kLimit || log.size() - at < size)
      throw StoreError("FileStore: " + path_ + " is not the file of a store");
    at += size;
    return log.substr(at - size, size);
  };
  const auto take_size = [&] {
    uint32_t size;
    std::memcpy(&size, take(sizeof(size)).data(), sizeof(size));
    return size;
  };
  while (at < log.size()) {
    const std::string key = take(take_size());
    const uint32_t size = take_size();
    if (size == kDeleted)
      values_.apply({.kind = CommandKind::Delete, .keys = {key}});
    else
      values_.apply({.kind = CommandKind::Set, .keys = {key}, .value = take(size)});
  }
  position_ += int64_t(log.size());
}

void FileStore::write_record(int fd, const std::string& key) {
  const std::string record = record_of(key, values_.find(key));
  // One call: a process that is killed leaves a whole record or, where the disk is full, an error.
  if (pwrite(fd, record.data(), record.size(), position_) != ssize_t(record.size()))
    fail(path_, "write");
  position_ += int64_t(record.size());
}

void FileStore::rewrite() {
  std::string log = new_header();
  for (const auto& [key, value] : values_.all()) log += record_of(key, &value);
  next_rewrite_ = std::max(kWorthRewriting, 4 * int64_t(log.size()));
  if (position_ < next_rewrite_) return;
  const std::string fresh = path_ + ".new";
  const int fd = open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const bool written = fd >= 0 && write(fd, log.data(), log.size()) == ssize_t(log.size());
  if (fd >= 0) close(fd);
  if (!written || rename(fresh.c_str(), path_.c_str()) != 0) unlink(fresh.c_str());
}

}  // namespace rush::distributed
