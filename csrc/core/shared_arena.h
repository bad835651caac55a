// shared_arena.h: a piece of memory that several processes map, and the counts that lie in it.
//
// - An arena is a memfd (or, by choice, a file in /dev/shm). Every process maps it once. Its memory
//   lives as long as anyone maps it or a message with its descriptor is under way: the kernel
//   counts, so nothing is left behind by a process that is killed.
// - Its creator hands out blocks from front to back and never hands out the same bytes twice. Small
//   blocks share pages, larger ones begin a page of their own.
// - Each page where blocks begin has a count of holders: storages in any process, and messages
//   under way. Whoever takes the last one away gives the pages back to the kernel by punching a
//   hole. These counts only save memory: one that stays too high because a process was killed
//   costs memory until the arena dies, and nothing else.
// - A fork copies storages without counting them. So every arena mapped at that moment is marked:
//   no holes are punched there any more, and no block is used again.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/export.h"
#include "core/intrusive.h"

namespace rush {

struct ArenaId {
  uint64_t high = 0, low = 0;
  bool operator==(const ArenaId&) const = default;
};

class RUSH_API SharedArena : public Counted<SharedArena> {
 public:
  static constexpr size_t kPage = 4096;

  // Room for `nbytes` in whole pages. Named: a file in /dev/shm that others can open.
  static Ref<SharedArena> create(size_t nbytes, bool named);
  // Maps what another process made. Takes the descriptor, also when it throws.
  static Ref<SharedArena> map(int fd, std::string name = {});
  static Ref<SharedArena> open_name(const std::string& name);

  ArenaId id() const;
  int fd() const { return fd_; }
  const std::string& name() const { return name_; }
  char* at(size_t offset) const { return base_ + offset; }
  size_t first_page() const;  // where blocks may begin
  size_t size() const { return size_; }
  // Throws unless the bytes lie in the part for blocks.
  void check_range(size_t offset, size_t nbytes) const;

  // Makes sure that there is memory for fresh bytes, where /dev/shm may be full: a write there
  // would end the process by a signal. Throws.
  void reserve(size_t offset, size_t nbytes);
  // Fills fresh bytes. Through the descriptor where that is much: the kernel then neither zeroes
  // the pages first nor takes a fault for each, which costs more than the copy.
  void fill(size_t offset, const void* from, size_t nbytes) noexcept;

  void hold(size_t offset) noexcept;
  // The last one gives the pages of the block back.
  void let_go(size_t offset, size_t nbytes) noexcept;
  uint32_t holders(size_t offset) const noexcept;

  // Messages that name the arena instead of carrying its descriptor: the sender keeps it for them.
  void count_named_message(int by) noexcept;
  bool has_named_messages() const noexcept;

  void mark_forked() noexcept;
  bool forked() const noexcept;

  // Removes the file, if there is one and no other process has it open. The memory stays.
  void remove_file_if_last() noexcept;

  static void destroy(SharedArena* arena) noexcept { delete arena; }
  ~SharedArena();

 private:
  struct Header;
  SharedArena() = default;
  void lock_file(std::string name);
  Header& header() const { return *reinterpret_cast<Header*>(base_); }
  std::atomic<uint32_t>& count(size_t offset) const noexcept;

  int fd_ = -1;
  char* base_ = nullptr;
  size_t size_ = 0;
  std::string name_;
};

// Removes files of arenas that no process has open any more; they were left by killed ones.
RUSH_API void remove_stale_arenas() noexcept;

}  // namespace rush
