// fake_streams.h: streams of the fake driver that really work behind the program.
//
// A stream does its work at once, in the call that queues it, until something is queued that takes
// time: a host function (the fake NCCL's collectives), or a wait for an event that has not come.
// From then on it has a thread, and what comes later waits in line, as on a real device.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace fake {

inline std::mutex& line_mutex() {
  static auto* m = new std::mutex;
  return *m;
}
inline std::condition_variable& line_changed() {
  static auto* c = new std::condition_variable;
  return *c;
}

// How often an event was recorded, and how many of these points have been passed.
struct Point {
  unsigned long long recorded = 0, passed = 0;
};

class Line {
 public:
  // Does it now where nothing is before it, else later.
  void add(std::function<void()> work) {
    {
      const std::lock_guard lock(line_mutex());
      if (busy_) return queue_.push_back(std::move(work));
    }
    work();
  }

  // Something that takes time.
  void add_slow(std::function<void()> work) {
    const std::lock_guard lock(line_mutex());
    queue_.push_back(std::move(work));
    if (busy_) return;
    busy_ = true;
    std::thread([this] { run(); }).detach();
  }

  void record(const std::shared_ptr<Point>& point) {
    std::unique_lock lock(line_mutex());
    const auto number = ++point->recorded;
    if (!busy_) {
      point->passed = number;
      return;
    }
    queue_.push_back([point, number] {
      const std::lock_guard inner(line_mutex());
      point->passed = std::max(point->passed, number);
      line_changed().notify_all();
    });
  }

  void wait_for(const std::shared_ptr<Point>& point) {
    {
      const std::lock_guard lock(line_mutex());
      if (point->passed >= point->recorded) return;
    }
    add_slow([point, number = point->recorded] { await(*point, number); });
  }

  bool is_idle() const {
    const std::lock_guard lock(line_mutex());
    return !busy_;
  }
  void drain() const {
    std::unique_lock lock(line_mutex());
    line_changed().wait(lock, [&] { return !busy_; });
  }

  static bool has_passed(const Point& point) {
    const std::lock_guard lock(line_mutex());
    return point.passed >= point.recorded;
  }
  static void await(const Point& point, unsigned long long number) {
    std::unique_lock lock(line_mutex());
    line_changed().wait(lock, [&] { return point.passed >= number; });
  }

 private:
  void run() {
    while (true) {
      std::function<void()> work;
      {
        const std::lock_guard lock(line_mutex());
        if (queue_.empty()) {
          busy_ = false;
          line_changed().notify_all();
          return;
        }
        work = std::move(queue_.front());
        queue_.pop_front();
      }
      work();
    }
  }

  std::deque<std::function<void()>> queue_;
  bool busy_ = false;  // a thread runs, or is about to
};

}  // namespace fake
