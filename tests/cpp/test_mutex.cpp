// The lock order of debug builds. See Note [Lock order] in core/mutex.h.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <thread>

#include "core/fork_locks.h"
#include "core/mutex.h"
#include "testing.h"

namespace {

using rush::LockRank;
using rush::Mutex;

// What a child process says on stderr while it runs f; "" when it did not abort.
template <class F>
std::string last_words(F&& f) {
  int ends[2];
  if (pipe(ends) != 0) return "";
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    f();
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[256];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, size_t(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT ? text : "";
}

bool complains(const std::string& text, const char* about) {
  return text.find("lock order") != std::string::npos && text.find(about) != std::string::npos;
}

}  // namespace

TEST(upwards_is_fine) {
  Mutex outer(LockRank::Gradients), inner(LockRank::Pool);
  for (int round = 0; round < 3; ++round) {
    std::scoped_lock one(outer);
    std::scoped_lock two(inner);
  }
  // Released in any order; what is still held still counts.
  outer.lock();
  inner.lock();
  outer.unlock();
  EXPECT(complains(last_words([&] { outer.lock(); }), "a mutex is taken"));
  inner.unlock();
  outer.lock();
  outer.unlock();
  rush::assert_no_lock_held("nothing");
}

// In debug builds a wrong order ends the process, and the test with it.
TEST(forks_take_locks_by_rank) {
  static Mutex low(LockRank::Gradients), middle(LockRank::Hooks), high(LockRank::Pool);
  static const rush::ForkLock locks[] = {
      {LockRank::Hooks, [] { middle.lock(); }, [] { middle.unlock(); }, [] { middle.unlock(); }},
      {LockRank::Gradients, [] { low.lock(); }, [] { low.unlock(); }, [] { low.unlock(); }},
      {LockRank::Pool, [] { high.lock(); }, [] { high.unlock(); }, [] { high.unlock(); }},
  };
  for (const rush::ForkLock& lock : locks) rush::hold_across_forks(lock);
  const pid_t child = fork();
  for (Mutex* mutex : {&low, &middle, &high}) mutex->lock();  // all free, on both sides
  if (child == 0) _exit(7);
  for (Mutex* mutex : {&low, &middle, &high}) mutex->unlock();
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

TEST(downwards_ends_the_process) {
  Mutex outer(LockRank::Gradients), inner(LockRank::Pool);
  EXPECT(complains(last_words([&] {
                     inner.lock();
                     outer.lock();
                   }),
                   "a mutex is taken"));
}

TEST(the_same_rank_goes_by_address) {
  std::array<Mutex, 2> lists{Mutex(LockRank::SizeClass), Mutex(LockRank::SizeClass)};
  for (Mutex& list : lists) list.lock();
  for (Mutex& list : lists) list.unlock();
  EXPECT(complains(last_words([&] {
                     lists[1].lock();
                     lists[0].lock();
                   }),
                   "a mutex is taken"));
  EXPECT(complains(last_words([&] {
                     lists[0].lock();
                     lists[0].lock();
                   }),
                   "a mutex is taken"));
}

TEST(calls_into_python_need_free_hands) {
  Mutex mutex(LockRank::Pool);
  EXPECT(complains(last_words([&] {
                     mutex.lock();
                     rush::assert_no_lock_held("the GIL is taken");
                   }),
                   "the GIL is taken"));
}

TEST(only_the_holder_releases) {
  Mutex mutex(LockRank::Pool);
  EXPECT(complains(last_words([&] { mutex.unlock(); }), "does not hold"));
}

TEST(each_thread_has_its_own_order) {
  Mutex outer(LockRank::Gradients), inner(LockRank::Pool);
  inner.lock();
  std::thread([&] {
    outer.lock();
    outer.unlock();
  }).join();
  inner.unlock();
}
