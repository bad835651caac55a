/* An allocator that counts, for tests/c/test_allocator.py. */
#include <stdatomic.h>
#include <stdlib.h>

static atomic_long taken, given_back, bytes;
static atomic_int refuses, misaligns;

void* counted_alloc(size_t size) {
  if (refuses) return NULL;
  taken++;
  bytes += (long)size;
  char* p = aligned_alloc(64, (size + 127) / 64 * 64);
  return misaligns ? p + 8 : p;
}
void counted_free(void* p, size_t size) {
  given_back++;
  bytes -= (long)size;
  free(misaligns ? (char*)p - 8 : p);
}
long count_taken(void) { return taken; }
long count_given_back(void) { return given_back; }
long count_bytes(void) { return bytes; }
void set_refuses(int on) { refuses = on; }
void set_misaligns(int on) { misaligns = on; }
