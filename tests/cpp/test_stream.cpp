// The stream of ops: what listeners are told, and how they come and go while threads run.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "autograd/engine.h"
#include "autograd/meta.h"
#include "core/modes.h"
#include "ops/framework/cost.h"
#include "ops/ops.h"
#include "profiler/session.h"
#include "testing.h"
#include "trace/stream.h"

using namespace rush;

namespace {

Tensor ones(std::vector<int64_t> sizes) { return rush::ones(IntList(sizes)); }

// "+add" at a begin, "-add" at an end, "!add" at one with an exception.
struct Log final : StreamListener {
  std::vector<std::string> lines;
  std::vector<uint32_t> depths;
  uint64_t sequence = UINT64_MAX;  // of the node that exp recorded

  static std::string name(const StreamEvent& e) {
    if (e.kind == StreamKind::Op) return e.entry->name;
    if (e.kind == StreamKind::Range) return "range";
    return std::string(e.part == NodeObserver::Part::Apply ? "apply " : "node ") + e.node->name();
  }
  void* enter_thread(uint32_t) noexcept override { return this; }
  void* begin(void*, const StreamEvent& e) noexcept override {
    lines.push_back("+" + name(e));
    depths.push_back(e.depth);
    return &lines;
  }
  void end(void* thread, void* begun, const StreamEvent& e) noexcept override {
    EXPECT(thread == this && begun == &lines);
    lines.push_back((e.failed ? "!" : "-") + name(e));
    if (name(e) == "exp" && e.node) sequence = e.node->sequence();
  }
};

template <class F>
std::shared_ptr<Log> logged(F&& f) {
  auto log = std::make_shared<Log>();
  stream::add_listener(log);
  stream::watch_this_thread();
  f();
  stream::remove_listener(log.get());
  return log;
}

using Lines = std::vector<std::string>;

TEST(ops_inside_ops) {
  const Tensor x = ones({4});
  const auto log = logged([&] { reshape(x, Dims{2, 2}); });
  EXPECT((log->lines == Lines{"+reshape", "+view", "-view", "-reshape"}));
  EXPECT((log->depths == std::vector<uint32_t>{0, 1}));
  EXPECT(!stream::watches_this_thread());
}

TEST(failures) {
  const Tensor x = ones({2, 3});
  const auto log = logged([&] { EXPECT(!testing::message_of([&] { mm(x, x); }).empty()); });
  EXPECT((log->lines == Lines{"+mm", "!mm"}));
}

TEST(nodes_of_backward) {
  const Tensor w = ones({2});
  set_requires_grad(w, true);
  uint64_t sequence = 1;
  const auto log = logged([&] {
    const Tensor y = exp(w);
    sequence = grad_fn(y)->sequence();
    const Tensor seeds[] = {ones({2})}, roots[] = {y};
    backward(roots, seeds, {});
  });
  const auto at = [&](const char* line) {
    return std::find(log->lines.begin(), log->lines.end(), line) - log->lines.begin();
  };
  EXPECT(at("-exp") < at("+node exp") && at("+node exp") < at("+apply exp"));
  EXPECT(at("-apply exp") < at("-node exp") && at("-node exp") < at("+node AccumulateGrad"));
  EXPECT(at("-node AccumulateGrad") < ptrdiff_t(log->lines.size()));
  EXPECT(log->sequence == sequence);
}

// An interceptor that leaves calls as they are does not double them.
TEST(one_event_per_call) {
  const Tensor x = ones({4});
  const auto log = logged([&] {
    const CostRecorder recorder;
    exp(x);
    reshape(x, Dims{2, 2});
    EXPECT(recorder.recorded().size() == 2);
  });
  EXPECT((log->lines == Lines{"+exp", "-exp", "+reshape", "+view", "-view", "-reshape"}));
}

TEST(ranges_end_in_any_order) {
  const auto log = logged([&] {
    const uint64_t a = stream::begin_range("a", 0), b = stream::begin_range("b", 0);
    EXPECT(a != 0 && b != 0 && a != b);
    stream::end_range(a, false);
    stream::end_range(b, true);
    stream::end_range(b, true);  // ended already: nothing happens
  });
  EXPECT((log->lines == Lines{"+range", "+range", "-range", "!range"}));
  EXPECT(stream::begin_range("nobody listens", 0) == 0);
}

TEST(a_listener_that_joins_inside_an_event) {
  auto late = std::make_shared<Log>();
  const auto log = logged([&] {
    const uint64_t range = stream::begin_range("around", 0);
    stream::add_listener(late);
    exp(ones({1}));
    stream::end_range(range, false);
    stream::remove_listener(late.get());
    exp(ones({1}));
  });
  EXPECT((late->lines == Lines{"+ones", "-ones", "+exp", "-exp"}));
  EXPECT(log->lines.size() == 10);
}

TEST(four_are_the_most) {
  std::vector<std::shared_ptr<Log>> logs;
  for (size_t i = 0; i < stream::kMostListeners; ++i) {
    logs.push_back(std::make_shared<Log>());
    stream::add_listener(logs.back());
  }
  EXPECT(!testing::message_of([] { stream::add_listener(std::make_shared<Log>()); }).empty());
  for (const auto& log : logs) stream::remove_listener(log.get());
}

// A bit that a guard brought back after the observer had gone.
TEST(a_bit_without_an_observer) {
  set_mode(kObserve, true);
  EXPECT(exp(ones({1})).numel() == 1);
  EXPECT(!stream::watches_this_thread());
}

struct Counter final : StreamListener {
  struct Counts {
    std::atomic<int64_t> begins{0}, ends{0};
  };
  explicit Counter(std::shared_ptr<Counts> to) : counts(std::move(to)) {}
  std::shared_ptr<Counts> counts;
  void* enter_thread(uint32_t) noexcept override { return counts.get(); }
  void* begin(void* c, const StreamEvent&) noexcept override {
    ++static_cast<Counts*>(c)->begins;
    return c;
  }
  void end(void* c, void*, const StreamEvent&) noexcept override {
    ++static_cast<Counts*>(c)->ends;
  }
};

// Listeners come and go while threads run ops: nobody is told anything after it was freed, and
// those that left are freed, whether a thread runs on or sleeps.
TEST(listeners_come_and_go) {
  std::atomic<bool> stop{false}, sleep{false};
  std::atomic<int> sleeping{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      const Tensor x = rush::ones(Dims{4});
      while (!stop) {
        stream::watch_this_thread();
        for (int k = 0; k < 20; ++k) exp(x);
        if (sleep) {
          ++sleeping;
          while (sleep) std::this_thread::yield();
          --sleeping;
        }
      }
    });
  }
  int64_t heard = 0;
  for (int round = 0; round < 200; ++round) {
    auto counts = std::make_shared<Counter::Counts>();
    std::weak_ptr<Counter> alive;
    {
      auto counter = std::make_shared<Counter>(counts);
      alive = counter;
      stream::add_listener(counter);
      while (counts->begins == 0) std::this_thread::yield();
      if (round % 10 == 0) {
        sleep = true;
        while (sleeping < 3) std::this_thread::yield();
      }
      stream::remove_listener(counter.get());
    }
    if (sleep) {
      EXPECT(alive.expired());
      EXPECT(counts->begins == counts->ends);
      sleep = false;
      while (sleeping > 0) std::this_thread::yield();
    }
    heard += counts->begins;
  }
  stop = true;
  for (std::thread& t : threads) t.join();
  EXPECT(heard >= 200);
}

// A recording can be read at any time, and its memory goes with it.
TEST(a_session_is_read_while_threads_write) {
  const int64_t before = profiler::live_bytes();
  {
    auto session = std::make_shared<profiler::Session>(profiler::kShapes | profiler::kFlops);
    stream::add_listener(session);
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([] {
        stream::watch_this_thread();
        const Tensor x = rush::ones(Dims{3});
        for (int k = 0; k < 1000; ++k) exp(x);
      });
    }
    int64_t flops = 0, seen = 0, last = 0;
    const auto read = [&] {
      flops = seen = 0;
      session->for_each([&](const profiler::ThreadBuffer&, const profiler::Event& e) {
        ++seen;
        const bool ended = e.end.load(std::memory_order_acquire) != 0;
        EXPECT(!ended || e.end >= e.begin);
        if (ended) flops += e.flops;
        if (std::string_view(e.entry->name) == "exp")
          EXPECT(profiler::unpack_inputs(e.inputs)[0].tensors[0].sizes[0] == 3);
      });
    };
    for (int i = 0; i < 50; ++i) {
      read();
      EXPECT(seen >= last);
      last = seen;
    }
    for (std::thread& t : threads) t.join();
    stream::remove_listener(session.get());
    session->stop();
    read();
    EXPECT(seen == 2 * 1001 && flops == 2 * 3000);
    EXPECT(profiler::live_bytes() > before);
  }
  EXPECT(profiler::live_bytes() == before);
}

}  // namespace
