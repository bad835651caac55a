#include "core/dynamic_library.h"

#include <dirent.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>
#include <vector>

#include "core/mutex.h"

namespace rush {

namespace {

Mutex& folder_mutex() {
  static Mutex mutex{LockRank::LibraryFolders};
  return mutex;
}
std::vector<std::string>& added_folders() {
  static std::vector<std::string> folders;
  return folders;
}

// .../site-packages/rushlight/lib/librushlight.so -> .../site-packages
std::string own_site_folder() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&add_library_folder), &info) == 0 || !info.dli_fname)
    return "";
  std::string path = info.dli_fname;
  for (int level = 0; level < 3; ++level) {
    const size_t slash = path.find_last_of('/');
    if (slash == std::string::npos) return "";
    path.resize(slash);
  }
  return path;
}

std::vector<std::string> folders_to_search() {
  std::vector<std::string> folders;
  if (const char* text = std::getenv("RUSHLIGHT_LIBRARY_PATH")) {
    std::istringstream parts(text);
    for (std::string folder; std::getline(parts, folder, ':');)
      if (!folder.empty()) folders.push_back(folder);
  }
  {
    std::lock_guard lock(folder_mutex());
    folders.insert(folders.end(), added_folders().begin(), added_folders().end());
  }
  if (std::string own = own_site_folder(); !own.empty()) folders.push_back(std::move(own));
  return folders;
}

}  // namespace

void add_library_folder(std::string folder) {
  std::lock_guard lock(folder_mutex());
  added_folders().push_back(std::move(folder));
}

void* open_library(std::initializer_list<const char*> names,
                   std::initializer_list<const char*> places) {
  for (const std::string& folder : folders_to_search())
    for (const char* place : places)
      for (const char* name : names) {
        const std::string path = folder + "/" + place + "/" + name;
        if (access(path.c_str(), R_OK) != 0) continue;
        if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
      }
  for (const char* name : names)
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  return nullptr;
}

void* open_library_like(const char* place, const char* beginning) {
  for (const std::string& folder : folders_to_search()) {
    const std::string where = folder + "/" + place;
    const std::unique_ptr<DIR, int (*)(DIR*)> listing(opendir(where.c_str()), closedir);
    while (const dirent* entry = listing ? readdir(listing.get()) : nullptr) {
      if (std::strncmp(entry->d_name, beginning, std::strlen(beginning)) != 0) continue;
      const std::string path = where + "/" + entry->d_name;
      if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    }
  }
  return nullptr;
}

void* library_symbol(void* library, const char* name) {
  return library ? dlsym(library, name) : nullptr;
}

}  // namespace rush
