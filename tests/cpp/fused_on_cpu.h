// fused_on_cpu.h: generated kernels of fused steps, run here.
#pragma once

#include <map>

#include "fused_sources.h"

namespace fused_works {

// Kernels compiled by g++ into one library.
class OnCpu {
 public:
  // Its number.
  size_t add(const FusedWork& work, const cuda::FusedForm& form) {
    const auto [place, fresh] = known_.emplace(cuda::fused_key(work, form), known_.size());
    if (!fresh) return place->second;
    const std::string number = std::to_string(place->second);
    sources_.add(cuda::fused_source(work, form));
    const std::string nest = form.nest
                                 ? std::string(", *static_cast<const rush::FusedNest<rush::") +
                                       (form.long_nest ? "u64" : "u32") + ">*>(nest)"
                                 : std::string();
    calls_ += "extern \"C\" void run" + number +
              "(const rush::FusedArgs& args, const void* params, const void* nest) {\n"
              "  using Params = rush::FusedParams<rush::Work" +
              number +
              "::kParams>;\n"
              "  launch({2}, {rush::kThreads}, " +
              sources_.expressions.back() + ", args, *static_cast<const Params*>(params)" + nest +
              ");\n}\n";
    return place->second;
  }

  bool compile() {
    library_ = library_on_cpu(sources_, calls_);
    return library_ != nullptr;
  }

  void run(size_t number, const FusedWork& work) const {
    using Run = void (*)(const FusedArgs&, const void* params, const void* nest);
    const auto f = reinterpret_cast<Run>(dlsym(library_, ("run" + std::to_string(number)).c_str()));
    const std::vector<Number> params = numbers_of(work);
    const FusedLaunch l(work);
    if (!l.form().nest) return f(l.args(), params.data(), nullptr);
    cuda::with_nest(l.walk(), [&](const auto& nest) {
      l.walk().peel([&](const FusedLaunch::Offsets& offsets, int64_t n) {
        f(l.part(offsets, n), params.data(), &nest);
      });
    });
  }

 private:
  Sources sources_;
  std::string calls_;
  std::map<std::string, size_t> known_;
  void* library_ = nullptr;
};

}  // namespace fused_works
