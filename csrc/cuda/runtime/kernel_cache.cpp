#include "cuda/runtime/kernel_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <vector>

#include "core/error.h"
#include "core/mutex.h"
#include "core/sha256.h"
#include "cuda/runtime/kernel_bundle.h"
#include "cuda/runtime/nvrtc.h"

namespace rush::cuda {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "RUSHKRN1";

std::string checksum(std::string_view payload) {
  Sha256 sum;
  sum.add(payload);
  return sum.finish_hex();
}

}  // namespace

bool write_whole(const std::string& path, std::string_view bytes) {
  std::string pattern = path + ".XXXXXX";
  const int file = mkstemp(pattern.data());
  if (file < 0) return false;
  bool good = true;
  for (size_t at = 0; good && at < bytes.size();) {
    const ssize_t n = write(file, bytes.data() + at, bytes.size() - at);
    if (n > 0)
      at += size_t(n);
    else
      good = n < 0 && errno == EINTR;
  }
  good = fchmod(file, 0644) == 0 && good;
  good = close(file) == 0 && good;
  good = good && std::rename(pattern.c_str(), path.c_str()) == 0;
  if (!good) unlink(pattern.c_str());
  return good;
}

std::string KernelCache::default_folder() {
  if (const char* own = std::getenv("RUSHLIGHT_KERNEL_CACHE"); own && *own) return own;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache)
    return std::string(cache) + "/rushlight/kernels";
  const char* home = std::getenv("HOME");
  return std::string(home && *home ? home : "/tmp") + "/.cache/rushlight/kernels";
}

KernelCache::KernelCache(std::string folder, int64_t limit_bytes)
    : folder_(std::move(folder)), limit_(limit_bytes) {
  std::error_code ignored;
  fs::create_directories(folder_, ignored);
}

std::string KernelCache::key(const std::string& file, const std::string& expression, int arch) {
  Sha256 sum;
  for (const std::string& part : {kernel_source_digest(), std::to_string(nvrtc_version()),
                                  std::to_string(arch), file, expression}) {
    sum.add(part);
    sum.add(std::string_view("\0", 1));
  }
  return sum.finish_hex();
}

// Layout: magic, checksum of the rest, length of the name (4 bytes), name, code.
std::string pack_kernel(const CachedKernel& kernel) {
  const auto length = uint32_t(kernel.name.size());
  std::string payload(reinterpret_cast<const char*>(&length), 4);
  payload += kernel.name;
  payload += kernel.cubin;
  return concat(kMagic, checksum(payload), payload);
}

std::optional<CachedKernel> unpack_kernel(std::string_view text) {
  constexpr size_t head = kMagic.size() + 64;
  uint32_t length = 0;
  if (text.size() < head + 4 || !text.starts_with(kMagic)) return {};
  const std::string_view payload = text.substr(head);
  if (checksum(payload) != text.substr(kMagic.size(), 64)) return {};
  std::memcpy(&length, payload.data(), 4);
  if (payload.size() < 4 + size_t(length)) return {};
  return CachedKernel{std::string(payload.substr(4, length)),
                      std::string(payload.substr(4 + length))};
}

std::optional<CachedKernel> KernelCache::load(const std::string& key) const {
  const fs::path path = fs::path(folder_) / key;
  std::ifstream in(path, std::ios::binary);
  if (!in.good()) return {};
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  auto kernel = unpack_kernel(text);
  if (kernel) utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // used now
  return kernel;
}

void KernelCache::store(const std::string& key, const CachedKernel& kernel) {
  const std::string text = pack_kernel(kernel);
  if (!write_whole(fs::path(folder_) / key, text)) return;
  // Looking at the whole folder costs more than a file: once at the start, then now and again.
  const bool first = since_trim_ < 0;
  since_trim_ = std::max<int64_t>(since_trim_, 0) + int64_t(text.size());
  if (first || since_trim_ > limit_ / 16) trim();
}

void KernelCache::trim() {
  struct File {
    fs::file_time_type used;
    int64_t size;
    fs::path path;
  };
  std::vector<File> files;
  int64_t total = 0;
  std::error_code error;
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
    // Another process may delete a file while we look at it.
    std::error_code gone;
    const auto used = it->last_write_time(gone);
    const auto size = int64_t(it->file_size(gone));
    if (gone) continue;
    files.push_back({used, size, it->path()});
    total += size;
  }
  since_trim_ = 0;
  std::sort(files.begin(), files.end(),
            [](const File& a, const File& b) { return a.used < b.used; });
  for (const File& f : files) {
    if (total <= limit_) return;
    if (fs::remove(f.path, error)) total -= f.size;
  }
}

namespace {

struct SharedCache {
  Mutex mutex{LockRank::Kernels};
  KernelCache cache{KernelCache::default_folder()};
};
SharedCache& shared_cache() {
  static auto* shared = new SharedCache;  // for good: kernels are compiled until the very end
  return *shared;
}

template <class Compile>
CachedKernel find_or(const std::string& key, Compile compile) {
  SharedCache& shared = shared_cache();
  {
    std::lock_guard lock(shared.mutex);
    if (auto found = shared.cache.load(key)) return *std::move(found);
  }
  CompiledKernels fresh = compile();
  CachedKernel kernel{std::move(fresh.names[0]), std::move(fresh.cubin), true};
  std::lock_guard lock(shared.mutex);
  shared.cache.store(key, kernel);
  return kernel;
}

}  // namespace

CachedKernel find_kernel(const std::string& file, const std::string& expression, int arch) {
  if (auto bundled = find_bundled_kernel({file, expression}, arch)) return *std::move(bundled);
  return find_or(KernelCache::key(file, expression, arch),
                 [&] { return compile_kernels(file, std::span(&expression, 1), arch); });
}

CachedKernel find_generated_kernel(const std::string& name, const std::string& source,
                                   const std::string& expression, int arch) {
  return find_or(KernelCache::key(name, source + expression, arch),
                 [&] { return compile_source(name, source, std::span(&expression, 1), arch); });
}

}  // namespace rush::cuda
