#include "core/shared_arena.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "core/error.h"

namespace rush {
namespace {

constexpr uint64_t kMagic = 0x31616e6572617372;  // "rsarena1"
constexpr char kFolder[] = "/dev/shm/";
constexpr char kPrefix[] = "rushlight-";

size_t whole_pages(size_t nbytes) {
  return (nbytes + SharedArena::kPage - 1) / SharedArena::kPage * SharedArena::kPage;
}

[[noreturn]] void system_failure(const char* what, int error) {
  const bool memory = error == ENOMEM || error == ENOSPC;
  fail(memory ? ErrorKind::OutOfMemory : ErrorKind::Runtime, "shared memory", what, ": ",
       std::strerror(error), error == EMFILE ? " (see ulimit -n)" : "");
}

ArenaId fresh_id() {
  ArenaId id;
  if (getrandom(&id, sizeof(id), 0) != ssize_t(sizeof(id)))
    system_failure("no random numbers", errno);
  return id;
}

int open_file(const std::string& name, int flags) {
  const int fd = open((kFolder + name).c_str(), flags | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) system_failure("cannot open the file of the arena in /dev/shm", errno);
  return fd;
}

}  // namespace

struct SharedArena::Header {
  uint64_t magic;
  ArenaId id;
  uint64_t size, first_page;
  std::atomic<uint32_t> forked, named_messages;
  std::atomic<uint32_t> holders[];  // one a page
};
static_assert(std::atomic<uint32_t>::is_always_lock_free, "the counts are shared by processes");

Ref<SharedArena> SharedArena::create(size_t nbytes, bool named) {
  // The header has a count for each page, its own included.
  const size_t data = whole_pages(nbytes);
  const size_t header = whole_pages(sizeof(Header) + (data / kPage * 4) * 1026 / 1024 + 64);
  const ArenaId id = fresh_id();
  auto arena = Ref<SharedArena>::adopt(new SharedArena);
  if (named) {
    char name[64];
    std::snprintf(name, sizeof(name), "%s%016lx%016lx", kPrefix, static_cast<long>(id.high),
                  static_cast<long>(id.low));
    arena->fd_ = open_file(name, O_CREAT | O_EXCL);
    arena->name_ = name;
    flock(arena->fd_, LOCK_SH);
  } else {
    arena->fd_ = memfd_create("rushlight", MFD_CLOEXEC);
    if (arena->fd_ < 0) system_failure("cannot make a segment", errno);
  }
  if (ftruncate(arena->fd_, off_t(header + data)) != 0)
    system_failure("cannot size a segment", errno);
  arena->reserve(0, header);
  void* p = mmap(nullptr, header + data, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                 arena->fd_, 0);
  if (p == MAP_FAILED) system_failure("cannot map a segment", errno);
  arena->base_ = static_cast<char*>(p);
  arena->size_ = header + data;
  Header& h = arena->header();
  h.id = id;
  h.size = arena->size_;
  h.first_page = header;
  h.magic = kMagic;
  return arena;
}

Ref<SharedArena> SharedArena::map(int fd, std::string name) {
  auto arena = Ref<SharedArena>::adopt(new SharedArena);
  arena->fd_ = fd;
  struct stat info{};
  if (fstat(fd, &info) != 0) system_failure("a received descriptor is not open", errno);
  const size_t size = size_t(info.st_size);
  check(size >= kPage, ErrorKind::Runtime, "shared memory", "a received segment is no arena");
  void* p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (p == MAP_FAILED) system_failure("cannot map a received segment", errno);
  arena->base_ = static_cast<char*>(p);
  arena->size_ = size;
  const Header& h = arena->header();
  check(h.magic == kMagic && h.size == size && h.first_page < size, ErrorKind::Runtime,
        "shared memory", "a received segment is no arena");
  if (!name.empty()) arena->lock_file(std::move(name));
  return arena;
}

// A descriptor that came with a message stands for the sender's lock: it takes one of our own.
void SharedArena::lock_file(std::string name) {
  const int own = open(("/proc/self/fd/" + std::to_string(fd_)).c_str(), O_RDWR | O_CLOEXEC);
  if (own >= 0) {
    close(fd_);
    fd_ = own;
  }
  flock(fd_, LOCK_SH);
  name_ = std::move(name);
}

Ref<SharedArena> SharedArena::open_name(const std::string& name) {
  check(name.starts_with(kPrefix) && name.find('/') == std::string::npos, ErrorKind::Runtime,
        "shared memory", "'", name, "' is not the name of an arena");
  return map(open_file(name, 0), name);
}

SharedArena::~SharedArena() {
  if (base_) munmap(base_, size_);
  if (fd_ < 0) return;
  remove_file_if_last();
  close(fd_);
}

void SharedArena::remove_file_if_last() noexcept {
  if (!name_.empty() && flock(fd_, LOCK_EX | LOCK_NB) == 0) unlink((kFolder + name_).c_str());
}

ArenaId SharedArena::id() const { return header().id; }
size_t SharedArena::first_page() const { return header().first_page; }

void SharedArena::check_range(size_t offset, size_t nbytes) const {
  check(offset >= first_page() && offset <= size_ && nbytes <= size_ - offset, ErrorKind::Runtime,
        "shared memory", "a message names bytes ", offset, " to ", offset, " + ", nbytes,
        " of an arena of ", size_);
}

std::atomic<uint32_t>& SharedArena::count(size_t offset) const noexcept {
  return header().holders[offset / kPage];
}

void SharedArena::reserve(size_t offset, size_t nbytes) {
  if (name_.empty() || nbytes == 0) return;  // memfds have all the memory there is
  while (fallocate(fd_, FALLOC_FL_KEEP_SIZE, off_t(offset), off_t(nbytes)) != 0) {
    if (errno == EOPNOTSUPP) return;
    if (errno != EINTR) system_failure("no room for the file of the arena in /dev/shm", errno);
  }
}

void SharedArena::fill(size_t offset, const void* from, size_t nbytes) noexcept {
  constexpr size_t kMuch = size_t{256} << 10;
  const char* source = static_cast<const char*>(from);
  while (nbytes >= kMuch) {
    const ssize_t written = pwrite(fd_, source, nbytes, off_t(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;  // the copy below says by a signal what is wrong
    source += written;
    offset += size_t(written);
    nbytes -= size_t(written);
  }
  std::memcpy(at(offset), source, nbytes);
}

void SharedArena::hold(size_t offset) noexcept {
  count(offset).fetch_add(1, std::memory_order_relaxed);
}

uint32_t SharedArena::holders(size_t offset) const noexcept {
  return count(offset).load(std::memory_order_acquire);
}

void SharedArena::let_go(size_t offset, size_t nbytes) noexcept {
  if (count(offset).fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (forked()) return;
  const size_t begin = offset / kPage * kPage;
  fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off_t(begin),
            off_t(whole_pages(offset + nbytes) - begin));
}

void SharedArena::count_named_message(int by) noexcept {
  header().named_messages.fetch_add(uint32_t(by), std::memory_order_acq_rel);
}
bool SharedArena::has_named_messages() const noexcept {
  return int32_t(header().named_messages.load(std::memory_order_acquire)) > 0;
}

void SharedArena::mark_forked() noexcept { header().forked.store(1, std::memory_order_release); }
bool SharedArena::forked() const noexcept {
  return header().forked.load(std::memory_order_acquire) != 0;
}

void remove_stale_arenas() noexcept {
  DIR* folder = opendir(kFolder);
  if (!folder) return;
  while (const dirent* entry = readdir(folder)) {
    if (std::strncmp(entry->d_name, kPrefix, sizeof(kPrefix) - 1) != 0) continue;
    const int fd = openat(dirfd(folder), entry->d_name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) continue;  // another user's
    // An owner locks the file right after making it, when it is still empty.
    struct stat info{};
    const bool made = fstat(fd, &info) == 0 && info.st_size > 0;
    if (made && flock(fd, LOCK_EX | LOCK_NB) == 0) unlinkat(dirfd(folder), entry->d_name, 0);
    close(fd);
  }
  closedir(folder);
}

}  // namespace rush
