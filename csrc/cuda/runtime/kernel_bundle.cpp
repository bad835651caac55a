#include "cuda/runtime/kernel_bundle.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "core/error.h"
#include "core/mutex.h"
#include "cuda/runtime/nvrtc.h"

namespace rush::cuda {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "RUSHBUNDLE1 ";

std::string spelled(const KernelName& name) { return concat(name.first, "\t", name.second); }

}  // namespace

KernelBundle::KernelBundle(std::string path, const std::string& digest) : path_(std::move(path)) {
  std::ifstream in(path_, std::ios::binary);
  std::string line;
  if (!std::getline(in, line) || line != concat(kMagic, digest)) return;
  std::unordered_map<std::string, Place> places;
  int64_t offset = 0;  // behind the text
  while (std::getline(in, line) && !line.empty()) {
    const size_t tab = line.find('\t');
    const int64_t size = std::strtoll(line.c_str(), nullptr, 10);
    if (tab == std::string::npos || size <= 0) return;
    places[line.substr(tab + 1)] = {offset, size};
    offset += size;
  }
  const auto text = int64_t(in.tellg());
  std::error_code error;
  if (text < 0 || text + offset != int64_t(fs::file_size(path_, error)) || error) return;
  for (auto& [name, place] : places) place.offset += text;
  places_ = std::move(places);
}

std::optional<CachedKernel> KernelBundle::find(const KernelName& name) const {
  const auto found = places_.find(spelled(name));
  if (found == places_.end()) return {};
  std::ifstream in(path_, std::ios::binary);
  std::string text(size_t(found->second.size), '\0');
  in.seekg(found->second.offset);
  if (!in.read(text.data(), found->second.size)) return {};
  return unpack_kernel(text);  // nothing where its bits have changed: it is compiled then
}

void KernelBundle::write(const std::string& path, const std::string& digest,
                         std::span<const std::pair<KernelName, CachedKernel>> kernels) {
  std::string text = concat(kMagic, digest, "\n"), code;
  for (const auto& [name, kernel] : kernels) {
    const std::string packed = pack_kernel(kernel);
    text += concat(packed.size(), "\t", spelled(name), "\n");
    code += packed;
  }
  check(write_whole(path, concat(text, "\n", code)), ErrorKind::Runtime, "cuda",
        "the kernels' file ", path, " cannot be written");
}

std::string bundle_for(const std::string& folder, int arch) {
  for (int minor = arch % 10; minor >= 0; --minor) {
    const fs::path path = fs::path(folder) / concat("sm_", arch / 10 * 10 + minor, ".kernels");
    std::error_code missing;
    if (fs::exists(path, missing)) return path.string();
  }
  return "";
}

std::optional<CachedKernel> find_bundled_kernel(const KernelName& name, int arch) {
  struct Bundles {
    Mutex mutex{LockRank::Kernels};
    std::unordered_map<int, std::unique_ptr<KernelBundle>> by_arch;
  };
  static auto* all = new Bundles;  // for good, as the cache is
  const KernelBundle* bundle = nullptr;
  {
    std::lock_guard lock(all->mutex);
    auto& known = all->by_arch[arch];
    if (!known) {
      const std::string path = bundle_for(kernel_bundle_folder(), arch);
      known = std::make_unique<KernelBundle>(path, path.empty() ? "" : kernel_source_digest());
    }
    bundle = known.get();
  }
  return bundle->find(name);
}

}  // namespace rush::cuda
