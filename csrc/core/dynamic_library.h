// dynamic_library.h: finds and opens the libraries that come in wheels of their own.
//
// The core knows no Python, so it looks in this order:
//   1. the folders in RUSHLIGHT_LIBRARY_PATH (separated by colons),
//   2. the folders named by add_library_folder (the Python package names its site-packages),
//   3. the site-packages that librushlight.so itself lies in,
//   4. wherever the system's loader looks.
#pragma once

#include <initializer_list>
#include <string>

#include "core/export.h"

namespace rush {

// A folder like site-packages, below which wheels keep their libraries. Only stores the name.
RUSH_API void add_library_folder(std::string folder);

// Opens the first library found under one of the names, looking into `places` below each folder
// ("" for the folder itself). Null when there is none.
void* open_library(std::initializer_list<const char*> names,
                   std::initializer_list<const char*> places);

// Opens the first library in folder/`place` whose name begins so: wheels add a hash to the names of
// libraries that they carry for themselves. Null when there is none.
void* open_library_like(const char* place, const char* beginning);

// The address of a symbol, or null; `library` may be null.
void* library_symbol(void* library, const char* name);

}  // namespace rush
