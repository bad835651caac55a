// pack_kernels: compiles the kernels of a list and writes the package's bundles.
//
//   pack_kernels LIST FOLDER ARCHITECTURE...     such as 80 90; `here`: the GPUs of this machine
//
// See csrc/cuda/runtime/kernel_bundle.h. LIST holds a file, a tab and an expression per line, as
// rushlight.cuda.warmup.record() writes them. What is compiled is kept in the folder that
// RUSHLIGHT_KERNEL_CACHE names, so that a second run compiles only what changed. Without a compiler
// there are no bundles, and programs compile for themselves; so they do with a kernel that is not
// there any more, which is told here and by tests/cuda/test_cuda_without_gpu.py.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/runtime/device.h"
#include "cuda/runtime/kernel_bundle.h"
#include "cuda/runtime/nvrtc.h"

namespace {

using namespace rush::cuda;
namespace fs = std::filesystem;

struct Job {
  KernelName kernel;
  int arch;
};

std::vector<KernelName> read_list(const char* path) {
  std::ifstream in(path);
  std::vector<KernelName> out;
  for (std::string line; std::getline(in, line);) {
    const size_t tab = line.find('\t');
    if (tab != std::string::npos && line[0] != '#')
      out.emplace_back(line.substr(0, tab), line.substr(tab + 1));
  }
  return out;
}

// Files named after an architecture are for it alone.
bool serves(const KernelName& name, int arch) {
  return arch == 90 || !name.first.ends_with("_hopper.cu");
}

// The driver must not be touched by a process that forks: a child asks it.
std::set<int> architectures_here() {
  int ends[2];
  if (pipe(ends)) return {};
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 0, n = device_count(); i < n; ++i) {
      const int arch = device_info(i).arch();
      if (write(ends[1], &arch, sizeof arch) != sizeof arch) _exit(1);
    }
    _exit(0);
  }
  close(ends[1]);
  std::set<int> out;
  for (int arch = 0; read(ends[0], &arch, sizeof arch) == sizeof arch;) out.insert(arch);
  close(ends[0]);
  if (child > 0) waitpid(child, nullptr, 0);
  return out;
}

// The compiler takes turns among threads, so there are processes. Each fills the shared cache.
void compile_all(const std::vector<Job>& jobs) {
  const size_t workers = std::max(1u, std::thread::hardware_concurrency());
  std::vector<pid_t> children;
  for (size_t w = 0; w < workers; ++w) {
    const pid_t child = fork();
    if (child < 0) break;
    if (child > 0) {
      children.push_back(child);
      continue;
    }
    for (size_t i = w; i < jobs.size(); i += workers) {
      try {
        find_kernel(jobs[i].kernel.first, jobs[i].kernel.second, jobs[i].arch);
      } catch (const std::exception&) {
        // Told below.
      }
    }
    _exit(0);
  }
  for (const pid_t child : children) waitpid(child, nullptr, 0);
}

int pack(const char* list, const fs::path& folder, const std::set<int>& archs) {
  const std::vector<KernelName> names = read_list(list);
  std::vector<Job> jobs;
  for (const int arch : archs)
    for (const KernelName& name : names)
      if (serves(name, arch)) jobs.push_back({name, arch});
  // Last time's bundles would answer for what is asked for here.
  fs::remove_all(folder);
  fs::create_directories(folder);
  compile_all(jobs);
  for (const int arch : archs) {
    std::vector<std::pair<KernelName, CachedKernel>> kernels;
    for (const KernelName& name : names) {
      if (!serves(name, arch)) continue;
      try {
        kernels.emplace_back(name, find_kernel(name.first, name.second, arch));
      } catch (const std::exception& error) {
        std::fprintf(stderr, "pack_kernels: sm_%d: %s: %s\n%s\n", arch, name.first.c_str(),
                     name.second.c_str(), error.what());
      }
    }
    const std::string file = "sm_" + std::to_string(arch) + ".kernels";
    KernelBundle::write((folder / file).string(), kernel_source_digest(), kernels);
    std::printf("pack_kernels: %zu kernels in %s\n", kernels.size(), file.c_str());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: pack_kernels LIST FOLDER ARCHITECTURE...\n");
    return 2;
  }
  std::set<int> archs;
  for (int i = 3; i < argc; ++i) {
    if (std::string(argv[i]) == "here")
      archs.merge(architectures_here());
    else
      archs.insert(std::atoi(argv[i]));
  }
  if (archs.empty()) return 0;
  try {
    if (const std::string missing = nvrtc_missing(); !missing.empty()) {
      std::fprintf(stderr, "pack_kernels: none are packed, %s\n", missing.c_str());
      return 0;
    }
    return pack(argv[1], argv[2], archs);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "pack_kernels: %s\n", error.what());
    return 1;
  }
}
