#include "core/object_pool.h"

#include <new>

#include "core/allocator.h"

namespace rush {
namespace {

constexpr size_t kStep = 64, kLargest = 512;
constexpr int kMostKept = 256;  // of each size

struct FreeObject {
  FreeObject* next;
};
struct List {
  FreeObject* head;
  int count;
};
// Plain data, as objects may still die while a thread's other variables are being destroyed.
struct Pool {
  List lists[kLargest / kStep];
  bool has_cleaner, closed;
};
constinit thread_local Pool t_pool{};

struct Cleaner {
  ~Cleaner() {
    t_pool.closed = true;
    for (List& list : t_pool.lists) {
      while (FreeObject* o = list.head) {
        list.head = o->next;
        ::operator delete(o);
      }
      list.count = 0;
    }
  }
};
[[gnu::noinline]] void register_cleaner() {
  static thread_local Cleaner cleaner;
  t_pool.has_cleaner = true;
}

// Objects of up to 64 bytes share the first list, those of up to 128 the second, and so on.
size_t list_of(size_t bytes) { return (bytes - 1) / kStep; }

}  // namespace

void* pool_allocate(size_t bytes) {
  if (detail::kBypassCache || bytes > kLargest || bytes == 0) return ::operator new(bytes);
  List& list = t_pool.lists[list_of(bytes)];
  FreeObject* o = list.head;
  if (!o) return ::operator new((list_of(bytes) + 1) * kStep);
  list.head = o->next;
  --list.count;
  return o;
}

void pool_free(void* p, size_t bytes) noexcept {
  if (detail::kBypassCache || bytes > kLargest || bytes == 0 || t_pool.closed)
    return ::operator delete(p);
  List& list = t_pool.lists[list_of(bytes)];
  if (list.count >= kMostKept) return ::operator delete(p);
  if (!t_pool.has_cleaner) register_cleaner();
  FreeObject* o = new (p) FreeObject{list.head};
  list.head = o;
  ++list.count;
}

}  // namespace rush
