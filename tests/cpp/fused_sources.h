// fused_sources.h: generated kernels of fused steps, several in one program.
#pragma once

#include <dlfcn.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "cuda/pointwise/fused_launch.h"
#include "cuda/runtime/nvrtc.h"
#include "fused_works.h"
#include "testing.h"

namespace fused_works {

using cuda::FusedLaunch;
using cuda::GeneratedSource;

// Several sources in one program, whose struct `Work` becomes Work0, Work1, ...
struct Sources {
  std::string text;
  std::vector<std::string> expressions;

  void add(GeneratedSource source) {
    const std::string name = "Work" + std::to_string(expressions.size());
    const size_t at = source.text.find("struct Work {");
    EXPECT(at != std::string::npos);
    text += source.text.replace(at, 11, "struct " + name);
    const size_t used = source.expression.find("rush::Work");
    expressions.push_back(source.expression.replace(used, 10, "rush::" + name));
  }
  void add(const OwnedWork& work) {
    const FusedWork view = work.view();
    add(cuda::fused_source(view, FusedLaunch(view).form()));
  }
};

// Kernels compiled by g++; null: that failed. `calls` are functions that launch them.
inline void* library_on_cpu(const Sources& sources, const std::string& calls) {
  char folder[] = "/tmp/rushlight_fused_XXXXXX";
  EXPECT(mkdtemp(folder));
  const std::string path = folder;
  std::ofstream(path + "/kernels.cpp") << "#include \"cuda_on_cpu.h\"\n" << sources.text << calls;
  const std::string command = "g++ -std=c++20 -O1 -w -shared -fPIC -ffp-contract=off -I'" +
                              cuda::kernel_source_folder() + "' -I'" + RUSH_TESTS_FOLDER + "' " +
                              path + "/kernels.cpp -o " + path + "/kernels.so";
  const bool done = std::system(command.c_str()) == 0;
  void* library = done ? dlopen((path + "/kernels.so").c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  std::filesystem::remove_all(path);
  return library;
}

// The numbers of all functors, and one more, for no array is empty.
inline std::vector<Number> numbers_of(const FusedWork& work) {
  std::vector<Number> params(1);
  for (const FusedStep& s : work.steps) {
    for (size_t i = 0; i < s.params_count; ++i) {
      const Scalar& p = s.params[i];
      params.insert(params.end() - 1, p.is_floating() ? Number{p.to_double(), 0, 0, false}
                                                      : Number{0, 0, p.to_int(), true});
    }
  }
  return params;
}

template <class T>
bool is_nan(T v) {
  if constexpr (requires { v.re; })
    return v.re != v.re || v.im != v.im;
  else if constexpr (std::is_arithmetic_v<T>)
    return v != v;
  else  // of two bytes
    return is_nan(float(v));
}

// Which bits a NaN has depends on the instruction that the compiler chose (a minimum, or a comparison
// and a choice), and not on the program.
inline bool same_but_for_kinds_of_nan(const Tensor& a, const Tensor& b) {
  return dispatch_storage("test", a.dtype(), [&]<typename T>() {
    const T *x = a.data<T>(), *y = b.data<T>();
    for (int64_t i = 0; i < a.numel(); ++i) {
      if (std::memcmp(x + i, y + i, sizeof(T)) == 0 || (is_nan(x[i]) && is_nan(y[i]))) continue;
      std::cerr << "element " << i << ": " << load_scalar(x + i, a.dtype()) << " instead of "
                << load_scalar(y + i, a.dtype()) << "\n";
      return false;
    }
    return true;
  });
}

}  // namespace fused_works
