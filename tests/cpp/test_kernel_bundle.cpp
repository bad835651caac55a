// Bundles of compiled kernels: what is read back, and what is not taken for one.
#include <stdlib.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "cuda/runtime/kernel_bundle.h"
#include "cuda/runtime/nvrtc.h"
#include "testing.h"

namespace {

namespace fs = std::filesystem;
using rush::cuda::bundle_for;
using rush::cuda::CachedKernel;
using rush::cuda::KernelBundle;
using rush::cuda::KernelName;

// A folder of its own, gone at the end.
struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "bundle.XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path); }
  std::string at(const char* name) const { return (path / name).string(); }
};

const KernelName kExp{"pointwise.cu", "rush::pointwise<rush::Exp, float>"};
const KernelName kSum{"reduce.cu", "rush::reduce<rush::Sum, float>"};
const std::array<std::pair<KernelName, CachedKernel>, 2> kKernels{
    {{kExp, {"_exp", std::string("\n\0code\n\n of exp", 15)}}, {kSum, {"_sum", "code of sum"}}}};

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void rewrite(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace

TEST(what_was_written_is_read) {
  const Folder folder;
  KernelBundle::write(folder.at("b"), "digest", kKernels);
  const KernelBundle bundle(folder.at("b"), "digest");
  EXPECT(bundle.size() == 2);
  for (const auto& [name, kernel] : kKernels) {
    const auto found = bundle.find(name);
    EXPECT(found && found->name == kernel.name && found->cubin == kernel.cubin);
  }
  EXPECT(!bundle.find({"pointwise.cu", "rush::pointwise<rush::Exp, double>"}));
  EXPECT(!bundle.find({"reduce.cu", kExp.second}));
}

TEST(other_sources_and_missing_files_have_none) {
  const Folder folder;
  KernelBundle::write(folder.at("b"), "digest", kKernels);
  EXPECT(KernelBundle(folder.at("b"), "another").size() == 0);
  EXPECT(KernelBundle(folder.at("c"), "digest").size() == 0);
  EXPECT(KernelBundle(folder.path.string(), "digest").size() == 0);
}

TEST(damage_is_noticed) {
  const Folder folder;
  KernelBundle::write(folder.at("b"), "digest", kKernels);
  const std::string whole = bytes_of(folder.at("b"));
  for (size_t length = 0; length < whole.size(); ++length) {
    rewrite(folder.at("b"), whole.substr(0, length));
    EXPECT(KernelBundle(folder.at("b"), "digest").size() == 0);
  }
  // A bit of the last kernel: the others are still there.
  std::string changed = whole;
  changed.back() = char(changed.back() ^ 1);
  rewrite(folder.at("b"), changed);
  const KernelBundle bundle(folder.at("b"), "digest");
  EXPECT(bundle.find(kExp) && !bundle.find(kSum));
  rewrite(folder.at("b"), "RUSHBUNDLE1 digest\nmany\tof\tthem\n\n");
  EXPECT(KernelBundle(folder.at("b"), "digest").size() == 0);
}

TEST(a_folder_that_is_not_there) {
  const Folder folder;
  const std::string told =
      testing::message_of([&] { KernelBundle::write(folder.at("no/b"), "digest", kKernels); });
  EXPECT(told.find("cannot be written") != std::string::npos);
}

TEST(an_earlier_architecture_serves) {
  const Folder folder;
  for (const char* name : {"sm_80.kernels", "sm_90.kernels", "sm_103.kernels"})
    rewrite(folder.at(name), "");
  EXPECT(bundle_for(folder.path.string(), 80) == folder.at("sm_80.kernels"));
  EXPECT(bundle_for(folder.path.string(), 89) == folder.at("sm_80.kernels"));
  EXPECT(bundle_for(folder.path.string(), 90) == folder.at("sm_90.kernels"));
  EXPECT(bundle_for(folder.path.string(), 75).empty());
  EXPECT(bundle_for(folder.path.string(), 100).empty());  // later code does not run
  EXPECT(bundle_for(folder.path.string(), 103) == folder.at("sm_103.kernels"));
  EXPECT(bundle_for(folder.path.string(), 120).empty());
  EXPECT(bundle_for(folder.at("nowhere"), 90).empty());
}

TEST(a_bundle_answers_before_cache_and_compiler) {
  const Folder folder;
  setenv("RUSHLIGHT_KERNEL_BUNDLES", folder.path.c_str(), 1);
  setenv("RUSHLIGHT_KERNEL_CACHE", folder.at("cache").c_str(), 1);
  // No compiler would take these for kernels.
  KernelBundle::write(folder.at("sm_90.kernels"), rush::cuda::kernel_source_digest(), kKernels);
  const CachedKernel found = rush::cuda::find_kernel(kExp.first, kExp.second, 90);
  EXPECT(found.name == "_exp" && found.cubin == kKernels[0].second.cubin && !found.compiled);
  EXPECT(!fs::exists(folder.at("cache")));
  unsetenv("RUSHLIGHT_KERNEL_BUNDLES");
  unsetenv("RUSHLIGHT_KERNEL_CACHE");
}
