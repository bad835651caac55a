#include "jit/file_sink.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "core/error.h"

namespace rush::jit {

FileSink::FileSink(const std::string& path) : path_(path), target_(path) {
  struct stat old;
  const bool there = stat(path.c_str(), &old) == 0;
  if (there) {
    const std::unique_ptr<char, void (*)(void*)> real(realpath(path.c_str(), nullptr), std::free);
    if (real) target_ = real.get();
  }
  replaces_ = !there || S_ISREG(old.st_mode);
  static std::atomic<uint64_t> number{0};
  if (replaces_) temporary_ = concat(target_, ".", getpid(), ".", number++, ".tmp");
  file_ = replaces_ ? open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)
                    : open(target_.c_str(), O_WRONLY | O_CLOEXEC);
  check_done(file_ >= 0);
  if (there && replaces_) check_done(fchmod(file_, old.st_mode & 07777) == 0);
}

FileSink::~FileSink() {
  if (file_ >= 0) close(file_);
  if (replaces_) unlink(temporary_.c_str());
}

void FileSink::write(std::span<const char> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(file_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    check_done(n >= 0);
    bytes = bytes.subspan(size_t(n));
  }
}

void FileSink::place() {
  if (!replaces_) return;
  check_done(fsync(file_) == 0);
  check_done(close(std::exchange(file_, -1)) == 0);
  check_done(std::rename(temporary_.c_str(), target_.c_str()) == 0);
  replaces_ = false;
}

void FileSink::check_done(bool ok) const {
  check(ok, ErrorKind::Runtime, "save", "cannot write '", path_, "': ", std::strerror(errno));
}

}  // namespace rush::jit
