// Memory for tensors in which a step outside is seen.
//
// Each block ends against a page that nobody may touch; one in four begins behind one instead. What
// alignment leaves over at the other side is filled with a pattern that is looked at when the block
// goes back. A block that went back may not be touched: its pages stay closed until many others
// have followed it. New memory holds a byte that the caller chooses, so that a result which
// depends on memory that nobody wrote differs between two runs.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { kPage = 4096, kAlign = 64, kPattern = 0xA5, kHeld = 2048 };
static const size_t kHeldBytes = (size_t)256 << 20;

struct Gone {
  char* start;
  size_t bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct Gone held[kHeld];
static size_t first, count, held_bytes, serial;
static unsigned char fill_byte = 0xFF;

static size_t most = (size_t)1 << 40;  // of one block
void guard_limit(size_t bytes) { most = bytes; }
void guard_fill(int byte) { fill_byte = (unsigned char)byte; }

static size_t pages_of(size_t size) { return ((size ? size : 1) + kPage - 1) / kPage * kPage; }
// How far behind the beginning of its pages a block may begin: in them also if it is empty.
static size_t room_for(size_t size) {
  return (pages_of(size) - (size ? size : 1)) / kAlign * kAlign;
}

// A forked child would find the lock taken for ever.
static void take(void) { pthread_mutex_lock(&lock); }
static void give(void) { pthread_mutex_unlock(&lock); }
__attribute__((constructor)) static void at_fork(void) { pthread_atfork(take, give, give); }

void* guard_alloc(size_t size) {
  if (size > most) return NULL;
  size_t inner = pages_of(size);
  char* start = mmap(NULL, inner + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) return NULL;
  char* body = start + kPage;
  if (mprotect(body, inner, PROT_READ | PROT_WRITE)) {
    munmap(start, inner + 2 * kPage);
    return NULL;
  }
  size_t room = room_for(size);
  size_t before = __atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED) % 4 ? room : 0;
  // Long blocks are not filled: fresh pages hold zeros, and would all have to be there.
  if (size <= 1 << 20) {
    memset(body, kPattern, before);
    memset(body + before, fill_byte, size);
  }
  size_t after = inner - before - size;
  memset(body + before + size, kPattern, after < kPage ? after : kPage);
  return body + before;
}

static void damaged(const char* side, size_t at, size_t size) {
  fprintf(stderr, "guard_allocator: a write %zu bytes %s a block of %zu bytes\n", at, side, size);
  abort();
}

void guard_free(void* memory, size_t size) {
  if (!memory) return;
  size_t inner = pages_of(size);
  size_t room = room_for(size);
  char* block = memory;
  char* body = (char*)((uintptr_t)block & ~(uintptr_t)(kPage - 1));
  if ((size_t)(block - body) > room) damaged("off", block - body, size);
  if (size <= 1 << 20)
    for (char* p = body; p < block; ++p)
      if ((unsigned char)*p != kPattern) damaged("before", block - p, size);
  size_t after = inner - (block - body) - size;
  for (size_t i = 0; i < after && i < kPage; ++i)
    if ((unsigned char)block[size + i] != kPattern) damaged("behind", i, size);
  size_t whole = inner + 2 * kPage;
  char* start = body - kPage;
  // A new mapping in the same place: closed, and without the pages that were there.
  if (mmap(start, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
    return;
  take();
  while (count && (count == kHeld || held_bytes + whole > kHeldBytes)) {
    struct Gone old = held[first];
    first = (first + 1) % kHeld, --count, held_bytes -= old.bytes;
    munmap(old.start, old.bytes);
  }
  held[(first + count++) % kHeld] = (struct Gone){start, whole};
  held_bytes += whole;
  give();
}
