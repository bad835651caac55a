// kernel_bundle.h: kernels that came compiled with the package.
//
// What training programs usually need is compiled as the package is built (tools/pack_kernels.cpp),
// so that the first step on a new machine compiles little, and the compiler is not even loaded. One
// file per architecture: a line of text for the sources' digest and one per kernel, an empty line,
// then the kernels as the cache's files hold them. A bundle of other sources is not used.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/export.h"
#include "cuda/runtime/kernel_cache.h"

namespace rush::cuda {

// A kernel's file and the expression that names its instance.
using KernelName = std::pair<std::string, std::string>;

class RUSH_API KernelBundle {
 public:
  // Empty where there is no such file, or it was made of other sources than `digest` stands for.
  KernelBundle(std::string path, const std::string& digest);

  std::optional<CachedKernel> find(const KernelName& name) const;
  size_t size() const { return places_.size(); }

  // Appears whole or not at all; raises where it cannot be written.
  static void write(const std::string& path, const std::string& digest,
                    std::span<const std::pair<KernelName, CachedKernel>> kernels);

 private:
  struct Place {
    int64_t offset, size;
  };
  std::string path_;
  std::unordered_map<std::string, Place> places_;  // by file, tab, expression
};

// The file of a folder whose code runs on an architecture: its own, or an earlier one of the same
// major version. Empty: there is none.
RUSH_API std::string bundle_for(const std::string& folder, int arch);

// From the package's own bundles.
std::optional<CachedKernel> find_bundled_kernel(const KernelName& name, int arch);

}  // namespace rush::cuda
