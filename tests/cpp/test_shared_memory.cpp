// test_shared_memory.cpp: arenas and shared storages, between threads and between processes; packed
// lists of bytes. Run under the sanitizers as well.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/packed_bytes.h"
#include "core/shared_memory.h"
#include "testing.h"

using namespace rush;

namespace {

char* bytes(const Ref<Storage>& s) { return static_cast<char*>(s->data()); }

// What the process that gets a message does: with its own descriptor, as if it came by a socket.
Ref<Storage> receive(const SharedPlace& place) {
  place.arena->hold(place.offset);
  const Ref<SharedArena> arena = arena_from_descriptor(dup(place.arena->fd()), "");
  return attach_shared({arena, place.offset, place.nbytes});
}

// Runs f in a forked child; true when it returns true there.
template <class F>
bool in_child(F&& f) {
  const pid_t child = fork();
  if (child == 0) _exit(f() ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

TEST(a_storage_moves_in_place) {
  for (const size_t n : {size_t{0}, size_t{1}, size_t{2048}, size_t{2049}, size_t{5'000'000}}) {
    const Ref<Storage> s = Storage::allocate(Device{}, n);
    std::memset(bytes(s), 7, n);
    share(*s);
    EXPECT(s->is_shared() && s->nbytes() == n);
    bool same = true;
    for (size_t i = 0; i < n; ++i) same = same && bytes(s)[i] == 7;
    EXPECT(same);
    share(*s);
  }
  EXPECT(shared_memory_stats().storages == 0);
}

TEST(one_storage_a_block) {
  const Ref<Storage> s = allocate_shared(100);
  const Ref<Storage> again = receive(shared_place(*s));
  EXPECT(s.get() == again.get());
  const SharedPlace place = shared_place(*s);
  EXPECT(place.arena->holders(place.offset) >= 1);
}

TEST(bad_messages_are_refused) {
  const Ref<Storage> s = allocate_shared(100);
  const SharedPlace place = shared_place(*s);
  EXPECT(!testing::message_of([&] { attach_shared({place.arena, 0, 10}); }).empty());
  EXPECT(!testing::message_of([&] {
            attach_shared({place.arena, place.offset, size_t(-1)});
          }).empty());
  EXPECT(
      !testing::message_of([&] { arena_from_descriptor(open("/dev/null", O_RDWR), ""); }).empty());
  EXPECT(!testing::message_of([&] { arena_from_name("../etc/passwd"); }).empty());
}

TEST(pages_go_back) {
  const Ref<Storage> keeps_the_arena = allocate_shared(100);
  const int fd = shared_place(*keeps_the_arena).arena->fd();
  const auto blocks = [fd] {
    struct stat info;
    fstat(fd, &info);
    return info.st_blocks;
  };
  const auto before = blocks();
  for (int i = 0; i < 20; ++i) {
    const Ref<Storage> s = allocate_shared(1 << 20);
    if (shared_place(*s).arena->fd() != fd) break;
    std::memset(bytes(s), 1, s->nbytes());
  }
  EXPECT(blocks() - before < 1000);
}

TEST(children_see_and_keep) {
  Ref<Storage> s = allocate_shared(1 << 16);
  std::memset(bytes(s), 3, s->nbytes());
  EXPECT(in_child([&] {
    bytes(s)[5] = 9;
    return bytes(s)[4] == 3;
  }));
  EXPECT(bytes(s)[5] == 9);
  // A child that inherited a block still has it when the parent has dropped it and made others.
  int go[2];
  EXPECT(pipe(go) == 0);
  const pid_t child = fork();
  if (child == 0) {
    char c;
    if (read(go[0], &c, 1) != 1) _exit(2);
    for (size_t i = 6; i < s->nbytes(); ++i) {
      if (bytes(s)[i] != 3) _exit(1);
    }
    _exit(0);
  }
  s = nullptr;
  std::vector<Ref<Storage>> others;
  for (int i = 0; i < 50; ++i) {
    others.push_back(allocate_shared(1 << 16));
    std::memset(bytes(others.back()), 1, 1 << 16);
  }
  EXPECT(write(go[1], "x", 1) == 1);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(threads_allocate_attach_and_drop) {
  const Ref<Storage> common = allocate_shared(64);
  const auto work = [&](int seed) {
    std::mt19937 random{unsigned(seed)};
    std::vector<Ref<Storage>> kept;
    for (int i = 0; i < 400; ++i) {
      Ref<Storage> s = allocate_shared(random() % 20000);
      if (s->nbytes() > 0) std::memset(bytes(s), seed, s->nbytes());
      const Ref<Storage> same = receive(shared_place(*s));
      const Ref<Storage> shared = receive(shared_place(*common));
      if (same.get() != s.get() || shared.get() != common.get())
        testing::expect(false, "one storage", __FILE__, __LINE__);
      if (random() % 3 == 0) kept.push_back(std::move(s));
      if (kept.size() > 20) kept.erase(kept.begin());
    }
  };
  std::vector<std::thread> threads;
  for (int t = 1; t <= 4; ++t) threads.emplace_back(work, t);
  for (std::thread& t : threads) t.join();
  EXPECT(shared_memory_stats().storages == 1);
}

TEST(a_dying_storage_is_not_revived) {
  // One thread drops the last reference while another attaches the same block.
  for (int round = 0; round < 300; ++round) {
    Ref<Storage> s = allocate_shared(5000);
    const SharedPlace place = shared_place(*s);
    place.arena->hold(place.offset);  // a message under way
    std::thread dropping([&] { s = nullptr; });
    const Ref<Storage> other = attach_shared(place);
    dropping.join();
    bytes(other)[0] = 1;
    EXPECT(other->use_count() == 1);
  }
}

TEST(packed_bytes) {
  std::mt19937 random{5};
  for (const size_t count :
       {size_t{0}, size_t{1}, size_t{15}, size_t{16}, size_t{17}, size_t{5000}}) {
    std::vector<std::string> texts;
    std::set<std::string> seen;
    while (texts.size() < count) {
      std::string text = "/data/" + std::to_string(random() % 100) + "/";
      text.append(random() % 300, char('a' + random() % 3));
      text += std::to_string(texts.size());
      if (random() % 50 == 0) text = std::string(random() % 3, '\0') + std::to_string(texts.size());
      if (seen.insert(text).second) texts.push_back(text);
    }
    PackedBytesWriter writer;
    for (const std::string& text : texts) writer.add(text);
    const std::string memory = writer.finish(true);
    const PackedBytes packed(memory.data(), memory.size());
    EXPECT(packed.size() == count);
    bool same = true;
    std::string found;
    for (size_t i = 0; i < count; ++i) {
      packed.get(i, found);
      same = same && found == texts[i] && packed.find(texts[i]) == int64_t(i);
      same = same && packed.find(texts[i] + "x") ==
                         (seen.count(texts[i] + "x") ? packed.find(texts[i] + "x") : -1);
    }
    EXPECT(same);
    EXPECT(!testing::message_of([&] { packed.get(count, found); }).empty());
    // Cut short, it is refused or reads within its bounds.
    for (const size_t cut : {size_t{0}, size_t{8}, memory.size() / 2}) {
      if (cut < memory.size())
        EXPECT(!testing::message_of([&] { PackedBytes(memory.data(), cut); }).empty());
    }
  }
}
