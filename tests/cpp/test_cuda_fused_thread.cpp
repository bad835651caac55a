// The thread that compiles the kernels of fused steps, over a driver without a GPU
// (tests/fake_gpu/fake_driver.cpp): what it does to the program while it works, at its end, and in
// its forked children.
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "core/warn.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/nvrtc.h"
#include "fused_works.h"
#include "testing.h"

using namespace fused_works;
using namespace std::chrono_literals;

namespace {

constexpr int kNotTested = 77;

bool run(const OwnedWork& work, bool wait) {
  FusedWork view = work.view();
  view.wait = wait;
  return fused_loops(DeviceType::CUDA).run(view);
}

// A chain that takes some tenths of a second to compile.
OwnedWork chain(int steps) {
  const Device gpu{DeviceType::CUDA, 0};
  OwnedWork work{{4096}, {}, {}, {}, {1}, gpu};
  work.inputs = {make_tensor(Dims{4096}, DType::Float32, gpu), wrap_number(Scalar(2.0))};
  for (int s = 0; s < steps; ++s)
    work.steps.push_back(binary(s % 2 ? BinaryFn::Mul : BinaryFn::Add, uint16_t(s ? s + 1 : 0), 1));
  work.add_output(size_t(steps - 1));
  return work;
}

// A process of its own, with a cache of its own; it returns how the process ended. The function may
// leave by exit().
template <class F>
int status_of(F&& f) {
  std::cout.flush();
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);  // it must not hang for good
    if (!cuda::nvrtc_missing().empty() || cuda::device_count() == 0) _exit(kNotTested);
    f();
    std::exit(testing::failures ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

template <class F>
void expect_good_end(F&& f) {
  char folder[] = "/tmp/rushlight_fused_XXXXXX";
  EXPECT(mkdtemp(folder));
  setenv("RUSHLIGHT_KERNEL_CACHE", folder, 1);
  const int status = status_of(f);
  std::filesystem::remove_all(folder);
  if (status == kNotTested) std::cout << "not tested: NVRTC or the driver is not here\n";
  EXPECT(status == 0 || status == kNotTested);
}

int warnings = 0;

}  // namespace

TEST(nobody_waits_for_the_compiler) {
  expect_good_end([] {
    const OwnedWork work = chain(20);
    EXPECT(!run(work, false));
    const auto end = std::chrono::steady_clock::now() + 60s;
    while (!run(work, false) && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(1ms);
    EXPECT(run(work, false));
  });
}

TEST(who_wants_to_wait_does) {
  expect_good_end([] { EXPECT(run(chain(8), true)); });
}

TEST(what_cannot_be_compiled_is_said_once) {
  expect_good_end([] {
    set_warning_handler([](const char* text) {
      warnings += std::string_view(text).find("cannot be compiled") != std::string_view::npos;
    });
    OwnedWork work = chain(2);
    work.steps[0] = unary(UnaryFn::Exp, 0, DType::Bool);
    for (int i = 0; i < 3; ++i) EXPECT(!run(work, true));
    EXPECT(warnings == 1);
    EXPECT(run(chain(3), true));
  });
}

// The compiler is at work, or about to begin, or has just ended.
TEST(a_program_may_end_at_any_time) {
  for (const auto delay : {0ms, 1ms, 5ms, 20ms, 60ms, 150ms}) {
    expect_good_end([&] {
      EXPECT(!run(chain(40), false));
      EXPECT(!run(chain(41), false));
      std::this_thread::sleep_for(delay);
    });
  }
}

TEST(a_forked_child_does_without) {
  expect_good_end([] {
    const OwnedWork work = chain(20), other = chain(3);
    EXPECT(!run(work, false));
    std::cout.flush();
    const pid_t child = fork();
    if (child == 0) std::exit(run(work, true) || run(other, true));
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    EXPECT(run(work, true));
  });
}
