// caching_pool.h: the caching allocator, written once for every kind of memory.
//
// - A backend hands out large segments (mmap, cuMemAlloc, pinned pages); that is slow. The pool
//   cuts them into blocks, keeps what is freed, and reuses it.
// - Sizes are rounded up to 512 bytes. Best fit: free blocks hang in lists by size, eight lists a
//   power of two with a bitmap over them, so finding one costs a few instructions, not a tree walk.
// - A block is split when the rest is worth keeping and merged with free neighbours at once, so a
//   segment without live blocks is one block again and can go back to the backend.
// - Segments grow step by step: a small program reserves little, a large one asks seldom.
// - Freed bytes are kept up to a cap. When the backend has no more, everything free is released and
//   the request tried again; only then it fails.
// - Where the backend has virtual memory (GPUs), there are no segments: memory is put behind one
//   range of addresses piece by piece, at its first hole that is large enough, and taken away again
//   wherever whole pieces are free. Free blocks and new memory then lie side by side, so lengths
//   that change all the time do not leave gaps that nothing fits into.
// - One lock a pool. Where that hurts, the caller puts thread-local lists in front (allocator.cpp)
//   or makes one pool per stream (CUDA). The pool never touches the memory itself: it may not be ours
//   to touch.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "core/mutex.h"
#include "core/source.h"

namespace rush {

// Where segments come from, and when memory that a device still uses is free. Thread safe.
class MemoryBackend {
 public:
  using Event = uint64_t;  // a point in a stream's work, made by the device's own code

  // Null when there is no more. Both count, so that every pool over a backend is seen in its stats.
  void* reserve(size_t nbytes) noexcept;
  void release(void* p, size_t nbytes) noexcept;

  // ---- virtual memory ----

  // Pieces are multiples of this; 0: there are only whole segments.
  virtual size_t granule() noexcept { return 0; }
  // Addresses without memory behind them; null when there are none left.
  virtual void* reserve_range(size_t) noexcept { return nullptr; }
  virtual void release_range(void*, size_t) noexcept {}
  // Puts a piece of memory there; what it returns takes it away again. 0: there is no more.
  using Piece = uint64_t;
  Piece map(void* p, size_t nbytes) noexcept;
  void unmap(void* p, size_t nbytes, Piece piece) noexcept;
  // Waits until nobody uses memory that was freed, before some of it is taken away. False: that
  // cannot be waited for now, so nothing may be taken away.
  virtual bool quiesce() noexcept { return true; }

  // Has the device passed the event? Memory that only the host uses is free when it is freed.
  virtual bool done(Event) noexcept { return true; }
  virtual void wait(Event) noexcept {}

  std::atomic<int64_t> reserved{0}, peak_reserved{0}, reserves{0}, releases{0};

 protected:
  ~MemoryBackend() = default;
  virtual void* do_reserve(size_t nbytes) noexcept = 0;
  virtual void do_release(void* p, size_t nbytes) noexcept = 0;
  virtual Piece do_map(void*, size_t) noexcept { return 0; }
  virtual void do_unmap(void*, size_t, Piece) noexcept {}

 private:
  void count_reserved(size_t nbytes) noexcept;
};

class CachingPool {
 public:
  static constexpr size_t kRound = 512;

  struct Options {
    size_t segment_round;  // segments are multiples of this
    size_t first_step;     // size of the first segment; later ones grow with what is reserved ...
    size_t largest_step;   // ... up to this. Larger requests get a segment of their own
    size_t least_rest;     // a rest below this stays with its block
    size_t cache_cap;      // free bytes beyond this are released as soon as a segment is whole
    size_t range = 0;  // addresses reserved at a time, where there is virtual memory; 0: segments
  };

  CachingPool(MemoryBackend& backend, const Options& options)
      : backend_(backend), options_(options) {}
  CachingPool(const CachingPool&) = delete;
  ~CachingPool();

  static size_t round(size_t nbytes) { return (nbytes + kRound - 1) / kRound * kRound; }

  struct Allocation {
    void* p;     // null: no memory left, even after releasing what was cached
    bool fresh;  // a segment was reserved for it
  };
  // `label` and `source` come back in the snapshot. `lasting`: it is one of those that room was
  // made for, and goes there.
  Allocation allocate(size_t nbytes, uint8_t label = 0, SourcePoint source = {},
                      bool lasting = false) noexcept;
  void free(void* p) noexcept;
  // Frees once the device has passed `event`; until then nobody gets the block.
  void free_after(void* p, MemoryBackend::Event event) noexcept;

  // Blocks of so many bytes in all will come and live on. Where there is virtual memory, they go
  // behind everything else, into memory that is added for them now, if the backend has as much:
  // what was enough before is enough beside them.
  void make_room(size_t nbytes) noexcept;
  void release_cached() noexcept;
  void set_cache_cap(size_t nbytes) noexcept;
  // While it keeps, nothing goes back to the backend, whatever happens: somebody has addresses.
  void set_keeping(bool on) noexcept;
  size_t reserved() noexcept;

  enum class State : uint8_t { Free, Live, Waiting };  // Waiting: freed, a device still uses it
  struct BlockInfo {
    const char* p;
    size_t size, requested;
    State state;
    uint8_t label;
    SourcePoint source;
  };
  struct SegmentInfo {  // memory end to end
    const char* p;
    size_t size;
    bool expandable;
    std::vector<BlockInfo> blocks;
  };
  std::vector<SegmentInfo> snapshot();

  // The pieces of virtual memory behind [p, p + nbytes), to send them to another process; empty
  // where p lies in a segment.
  struct PieceInfo {
    char* p;
    size_t size;
    MemoryBackend::Piece piece;
    uint64_t serial;  // no other piece of the process ever has it
  };
  std::vector<PieceInfo> pieces_behind(const void* p, size_t nbytes);
  // The segment, or the range of addresses, in which the live block p lies.
  std::pair<char*, size_t> segment_of(const void* p);

  // For fork: the child must not inherit a pool that another thread was changing.
  void lock() noexcept { mutex_.lock(); }
  void unlock() noexcept { mutex_.unlock(); }

 private:
  struct Block {
    char* p = nullptr;
    size_t size = 0;
    Block *before = nullptr, *after = nullptr;   // neighbours in the segment
    Block *previous = nullptr, *next = nullptr;  // in the list of free blocks of like size
    size_t requested = 0;
    SourcePoint source;
    bool free = false, lasting = false;
    bool hole = false;  // addresses of a range without memory
    uint8_t label = 0;
    bool whole() const { return before == nullptr && after == nullptr; }
  };

  // Live blocks by address: open addressing, since a node-based map would call malloc each time.
  class Table {
   public:
    void make_room();  // may throw; insert then does not
    void insert(Block* block) noexcept;
    Block* take(void* p) noexcept;
    Block* find(const void* p) const noexcept;
    const std::vector<Block*>& slots() const { return slots_; }

   private:
    size_t home(const void* p) const noexcept;
    std::vector<Block*> slots_;
    size_t used_ = 0;
  };

  static constexpr int kBins = 512;
  static int bin_of(size_t size) noexcept;

  Block* find(size_t size) noexcept;
  Block* find_lasting(size_t size);
  Block* last_free() const noexcept;
  Block* reserve_segment(size_t size);
  // ---- virtual memory ----
  bool is_growable() noexcept;
  Block* grow(size_t size);
  Block* grow_at(Block* hole, size_t size);
  bool map_pieces(char* p, size_t nbytes) noexcept;
  void take_away(Block* block) noexcept;
  void add_hole(Block* hole) noexcept;
  void drop_hole(Block* hole) noexcept;
  size_t next_segment_size(size_t size) const noexcept;
  void split(Block* block, size_t size, Block* rest) noexcept;
  void put_free(Block* block) noexcept;
  void remove_free(Block* block) noexcept;
  void free_block(Block* block) noexcept;
  void absorb(Block* left, Block* right) noexcept;
  void release_down_to(size_t keep) noexcept;
  void collect_passed(bool wait) noexcept;
  Block* make_block();
  void drop_block(Block* block) noexcept;

  MemoryBackend& backend_;
  Options options_;
  Mutex mutex_{LockRank::Pool};
  std::array<Block*, kBins> bins_{};
  std::array<uint64_t, kBins / 64> occupied_{};
  Table live_;
  std::deque<Block> blocks_;
  Block* spare_blocks_ = nullptr;
  size_t reserved_ = 0, cached_ = 0, whole_free_ = 0;
  // Bytes of lasting blocks: those that are to come, those that live, what was added for them.
  size_t room_ = 0, lasting_ = 0, added_ = 0;
  bool keeping_ = false;
  bool growth_known_ = false;
  size_t granule_ = 0;  // of pieces; 0: the pool has segments
  std::vector<std::pair<void*, size_t>> ranges_;
  std::vector<Block*> holes_;
  struct PieceRecord {
    size_t size;
    MemoryBackend::Piece piece;
    uint64_t serial;
  };
  std::map<char*, PieceRecord> pieces_;
  std::vector<std::pair<Block*, MemoryBackend::Event>> waiting_;
};

}  // namespace rush
