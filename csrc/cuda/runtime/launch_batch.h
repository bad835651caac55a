// launch_batch.h: kernels that are queued together, by one call of the driver.
//
// Note [Batches of launches]
// A launch takes the driver 3 to 5 us of the host, a node of a graph 0.7 (to set its arguments), and
// the launch of a graph 3 whatever its length (docs/decisions/segments_of_launches.md). So where the
// host is what a GPU waits for, launches are kept back until there are some, and queued as a graph.
// - A graph is found by its kernels alone, in order: grids, blocks and arguments are set each time
//   (where they differ from the last time's), so nothing else has to repeat. Kernels in an order that
//   was not seen before are launched one by one; at the second sight a graph is made of them.
// - Calls of libraries that repeat to the last address are nodes as well: Note [Calls in batches].
// - There is one batch per process. Whoever needs the driver's name of a stream (Stream::handle), for
//   a copy, an event, a library, a wait, queues the batch by asking for it; so does a launch in
//   another stream. Nothing else sees that kernels are late.
// - A batch ends when it is full, behind kernels that end a batch by their own number (so that
//   batches fall together again after something else was between), and behind a large kernel: what
//   takes long starts at once. A thread queues what the program has left behind for 0.2 ms.
// - While a graph is captured, a profiler listens or launches block, kernels go one by one. So they
//   do while the GPU is behind: then nobody waits for the host.
// - Two launches of one kernel, one behind the other, may become one (JoinRule). For its sake such a
//   kernel is kept back in a capture, too, until the next launch or whatever else comes.
// - Who has an address of GPU memory, or the driver's name of a stream, may queue work of their own
//   that follows ours without asking. From then on nothing is kept back: leave_batches.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "core/export.h"
#include "cuda/runtime/driver.h"

namespace rush::cuda {

class Stream;

struct LaunchShape {
  unsigned grid[3], block[3], shared;
  bool together = false;  // its blocks wait for each other: they run all at once, or not at all
  bool operator==(const LaunchShape&) const = default;
};

// Changes a launch that was kept back so that it does what the next one of its kernel would, too.
// False: it cannot, and nothing was changed. Both are given by their only argument and their shape.
using JoinRule = bool (*)(void* kept, LaunchShape& kept_shape, const void* next,
                          const LaunchShape& next_shape);

// Takes a launch into the batch. False: it has to be queued by the caller, now.
bool add_to_batch(CUfunction f, Stream* stream, const LaunchShape& shape, void** args,
                  JoinRule join);
// Queues what was kept back. An error of it is raised by the next launch or wait.
RUSH_API void queue_batch() noexcept;
// Raises what queue_batch could not.
void raise_batch_error();
// What raise_batch_error would raise, which is then forgotten: a capture has its own way to tell.
CUresult take_batch_error() noexcept;
// A capture of the stream is given up: what was kept back for it is never queued.
void forget_batch(const Stream* stream) noexcept;

// Somebody else may queue work from now on: no more batches. `why` is a constant.
RUSH_API void leave_batches(const char* why) noexcept;
// While it lives, kernels are launched one by one: a library is at work between them.
class RUSH_API SingleLaunches {
 public:
  SingleLaunches() noexcept;
  SingleLaunches(const SingleLaunches&) = delete;
  ~SingleLaunches();
};
// The same from on to off; nests.
RUSH_API void set_single_launches(bool on) noexcept;

// config.coalesce_launches
RUSH_API bool coalesces_launches();
RUSH_API void set_coalesces_launches(bool on);
// How long kernels that nothing asks for are kept back (Note [Batches of launches]).
RUSH_API void set_batch_patience(std::chrono::microseconds time);

struct BatchStats {
  int64_t batched = 0;   // kernels that were queued as nodes of graphs
  int64_t single = 0;    // kernels that were kept back, and then launched one by one
  int64_t calls = 0;     // of libraries that were queued as nodes of graphs
  int64_t launches = 0;  // of graphs
  int64_t graphs = 0;    // that are kept
  int64_t refused = 0;   // graphs that the driver would not launch
  bool engaged = false;  // is the host what the GPU waits for?
  std::string off;       // why there are no batches at all
};
RUSH_API BatchStats batch_stats();

}  // namespace rush::cuda
