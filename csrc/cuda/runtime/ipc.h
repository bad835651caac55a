// ipc.h: GPU memory shared with other processes.
//
// - What is sent is memory of the allocator, where it is: the pieces of virtual memory behind a
//   storage, as file descriptors. The kernel counts who has them, so the sender may end first.
// - A receiver mirrors the sender's range of addresses and maps each piece once, at its place; so a
//   storage that spans several pieces lies end to end there, too.
// - Where there is no virtual memory, a segment is sent by the driver's own handle; then the sender
//   must stay.
// - A block must not be used again while another process reads it: rushlight/multiprocessing keeps
//   it, and counts the holders in shared memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/export.h"
#include "core/storage.h"

namespace rush::cuda {

struct SharedPiece {
  uint64_t serial, place, nbytes;  // place: in the range
  int descriptor;                  // when sent: the receiver's; the caller closes it. -1: mapped
};

struct SharedBlock {
  uint64_t process;            // a number that no other process has
  uint64_t range, range_size;  // addresses of the sender; range_size 0: `handle` is all there is
  uint64_t offset, nbytes;     // the storage, in the range or segment
  int device;
  std::string handle;  // the driver's, of a whole segment
  std::string event;   // to wait for before the memory is read; empty: it is ready
  std::vector<SharedPiece> pieces;
};

// Describes a storage's memory and opens descriptors for its pieces. What is queued on the current
// stream is part of what is sent.
RUSH_API SharedBlock share_block(const Storage& storage);
// Which of the pieces are mapped here already: their descriptors need not come.
RUSH_API bool has_piece(uint64_t process, uint64_t range, uint64_t serial);
// Maps the memory and makes the current stream wait for the sender's work. The context is given to
// `released` once nobody here uses the memory any more.
RUSH_API Ref<Storage> open_block(const SharedBlock& block, void (*released)(void*), void* context);
// Did another process send this storage?
RUSH_API bool is_received(const Storage& storage);

}  // namespace rush::cuda
