// testing.h: the least that C++ tests need. TEST(name) { EXPECT(a == b); } in a file test_*.cpp is
// a whole test program; it prints each failure and exits with 1 when there was one.
#pragma once

#include <exception>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

namespace testing {

struct Case {
  std::string_view name;
  void (*run)();
};

inline std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}
inline int failures = 0;

struct Register {
  Register(std::string_view name, void (*run)()) { cases().push_back({name, run}); }
};

inline void expect(bool ok, const char* what, const char* file, int line) {
  if (ok) return;
  ++failures;
  std::cerr << file << ":" << line << ": expected " << what << "\n";
}

// The message of the exception that `f` throws, "" when it throws none.
template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace testing

#define EXPECT(cond) ::testing::expect(static_cast<bool>(cond), #cond, __FILE__, __LINE__)
#define TEST(name)                                                      \
  static void test_##name();                                            \
  static const ::testing::Register register_##name(#name, test_##name); \
  static void test_##name()

// The optional argument runs the cases whose name contains it.
int main(int argc, char** argv) {
  const std::string_view wanted = argc > 1 ? argv[1] : "";
  int ran = 0;
  for (const auto& [name, run] : testing::cases()) {
    if (name.find(wanted) == std::string_view::npos) continue;
    ++ran;
    try {
      run();
    } catch (const std::exception& error) {
      ++testing::failures;
      std::cerr << name << ": threw " << error.what() << "\n";
    }
  }
  std::cout << ran << " cases, " << testing::failures << " failures\n";
  return testing::failures != 0 || ran == 0;
}
