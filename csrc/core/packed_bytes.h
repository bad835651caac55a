// packed_bytes.h: a read-only list of byte strings in one block of memory, with an optional index
// from a string to its place. For lists of millions of file names that processes share: a string
// costs its own bytes, less what it has in common with its neighbours, and no pointers.
//
// Strings stand in groups of 16. The first of a group is complete; the others say how many bytes
// they share with it. Reading one walks through at most one group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/export.h"

namespace rush {

class RUSH_API PackedBytesWriter {
 public:
  void add(std::string_view text);
  // The packed bytes; with an index for PackedBytes::find if wanted. Strings must then differ.
  std::string finish(bool with_index);

 private:
  uint64_t count_ = 0;
  std::vector<uint64_t> groups_;  // where each begins in data_
  std::string data_, first_;
};

class RUSH_API PackedBytes {
 public:
  // Over memory that lives longer. Throws when that was not packed by a writer.
  PackedBytes(const void* memory, size_t nbytes);

  size_t size() const { return count_; }
  // Puts the i-th string into `out`.
  void get(size_t i, std::string& out) const;
  // The place of a string, or -1. Needs the index.
  int64_t find(std::string_view text) const;

 private:
  const char* memory_;
  size_t count_, slots_;
  const uint64_t* groups_;
  const uint32_t* table_;
  const char *data_, *end_;
};

}  // namespace rush
