// fused_rows_on_cpu.h: generated kernels of steps over rows, run here.
#pragma once

#include "cuda/pointwise/fused_rows.h"
#include "fused_sources.h"

namespace fused_works {

using cuda::FusedRowsLaunch;

inline constexpr int64_t kProcessors = 132;

// Kernels by g++, each with what it takes to run it.
struct RowsOnCpu {
  Sources sources;
  std::string calls;
  void* library = nullptr;

  size_t add(const OwnedWork& work) {
    const FusedWork view = work.view();
    const auto l = FusedRowsLaunch::of(view, kProcessors);
    EXPECT(l.has_value());
    const size_t number = sources.expressions.size();
    sources.add(l->source());
    const auto is = [&](const char* name) { return l->kernel().find(name) != std::string::npos; };
    const std::string args = is("softmax")     ? "SoftmaxArgs"
                             : is("channel")   ? "BatchNormArgs"
                             : is("group_map") ? "GroupNormArgs"
                                               : "RowNormArgs";
    calls += concat("extern \"C\" void run", number,
                    "(Dim3 grid, const rush::FusedArgs& args, const void* row, const void* params) "
                    "{\n  using Params = rush::FusedParams<rush::Work",
                    number, "::kParams>;\n  launch_together(grid, {rush::kThreads}, ",
                    sources.expressions.back(), ", *static_cast<const rush::", args,
                    "*>(row), args, *static_cast<const Params*>(params));\n}\n");
    return number;
  }
  bool compile() {
    library = library_on_cpu(sources, calls);
    EXPECT(library);
    return library != nullptr;
  }
  // What it finds beside the result: of a backward pass the sums of its blocks.
  Tensor run(size_t number, const OwnedWork& work) const {
    const FusedWork view = work.view();
    auto l = FusedRowsLaunch::of(view, kProcessors);
    struct Dim3 {
      unsigned x, y, z;
    };
    using Run = void (*)(Dim3, const FusedArgs&, const void* row, const void* params);
    const auto f = reinterpret_cast<Run>(dlsym(library, concat("run", number).c_str()));
    Tensor sums;
    if (l->blocks() > 0) {
      sums = make_tensor(Dims{l->blocks(), 2, work.row->width}, cuda::compute_dtype(l->type()));
      l->give_sums(sums);
    }
    std::vector<u32> counters(l->grid().x, 0);
    Tensor parts;
    if (l->segments() > 1) {
      parts = make_tensor(Dims{l->segments(), 2, work.row->width}, cuda::compute_dtype(l->type()));
      l->give_sums(parts, counters.data());
    }
    const auto [x, y, z] = l->grid();
    f({x, y, z}, l->args(), l->row_args(), numbers_of(view).data());
    return sums;
  }
};

}  // namespace fused_works
