// serve.cpp: runs a saved program as often as it is told to.
//
//   serve MODEL.rush float|int SIZE...
//
// Prints "ready" after the first result. Then, for each line "THREADS CALLS" on standard input, so many threads make
// so many calls each, and the seconds of the clock and of the processor are printed.
#include <rushlight/rushlight.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

namespace {

void call(const rush::Program& program, const rush::Tensor& input, int calls) {
  const rush::NoGradGuard no_grad;
  for (int i = 0; i < calls; ++i) program({input});
}

double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
}

}  // namespace

int main(int argc, char** argv) {
  const rush::Program program = rush::jit::load(argv[1]);
  std::vector<int64_t> sizes;
  for (int i = 3; i < argc; ++i) sizes.push_back(std::stoll(argv[i]));
  rush::Tensor input = rush::ones(sizes);
  if (std::string(argv[2]) == "int") input = input.to(rush::kLong);
  call(program, input, 1);
  std::puts("ready");
  std::fflush(stdout);
  int threads = 0, calls = 0;
  while (std::cin >> threads >> calls) {
    const double cpu = processor_seconds();
    const auto start = std::chrono::steady_clock::now();
    std::vector<std::thread> others;
    for (int t = 1; t < threads; ++t) others.emplace_back(call, std::cref(program), input, calls);
    call(program, input, calls);
    for (std::thread& t : others) t.join();
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
    std::printf("%.9f %.9f\n", wall.count(), processor_seconds() - cpu);
    std::fflush(stdout);
  }
}
