// kernel_cache.h: compiled kernels on disk, named by what they follow from.
//
// One file per kernel: its name for the linker and its code, with a checksum. A file's name is a hash
// of the sources, the compiler's version, the architecture and the expression, so nothing in the
// cache is ever out of date. Files appear by renaming, so several processes may share a folder; one
// that was cut short, or whose bits changed, is compiled again. The folder keeps to a size: the
// files that were not used for longest go first. A folder that cannot be written is done without.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/export.h"

namespace rush::cuda {

struct CachedKernel {
  std::string name;  // for cuModuleGetFunction
  std::string cubin;
  bool compiled = false;  // just now
};

// A kernel as the bytes of a file; nothing where they were cut short or changed.
std::string pack_kernel(const CachedKernel& kernel);
std::optional<CachedKernel> unpack_kernel(std::string_view text);
// A file that appears whole or not at all. False: it does not.
bool write_whole(const std::string& path, std::string_view bytes);

class RUSH_API KernelCache {
 public:
  // RUSHLIGHT_KERNEL_CACHE, else rushlight/kernels below XDG_CACHE_HOME or ~/.cache.
  static std::string default_folder();

  explicit KernelCache(std::string folder, int64_t limit_bytes = int64_t(512) << 20);

  // The name of a kernel's file.
  static std::string key(const std::string& file, const std::string& expression, int arch);

  std::optional<CachedKernel> load(const std::string& key) const;
  void store(const std::string& key, const CachedKernel& kernel);
  // Deletes the files that were unused for longest until the rest fits.
  void trim();

  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
  int64_t limit_;
  int64_t since_trim_ = -1;  // bytes stored since the last look at the folder's size
};

// From the package's bundles, from the cache, or compiled and cached.
RUSH_API CachedKernel find_kernel(const std::string& file, const std::string& expression, int arch);
// The same for a source that was generated, see compile_source.
RUSH_API CachedKernel find_generated_kernel(const std::string& name, const std::string& source,
                                            const std::string& expression, int arch);

}  // namespace rush::cuda
