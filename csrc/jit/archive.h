// archive.h: zip files whose entries are stored as they are.
//
// Reading: nothing is believed before it is checked. Entries are not compressed, encrypted or
// repeated, lie inside the file and not over each other; their local headers say what the directory
// says, and their bytes have the sums that were promised. Sizes beyond 4 GiB follow zip64.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/export.h"

namespace rush::jit {

// Bytes at positions: a file or memory.
class RUSH_API ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual uint64_t size() const = 0;
  // Reads all of `to`; the caller has checked that it lies inside.
  virtual void read(uint64_t at, std::span<char> to) const = 0;

  static std::unique_ptr<ByteSource> file(const std::string& path);
  static std::unique_ptr<ByteSource> memory(std::span<const char> bytes);  // borrowed
};

class RUSH_API ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual void write(std::span<const char> bytes) = 0;
};

// The sum that zip files carry, of more bytes after those that gave `before`.
RUSH_API uint32_t crc32(std::span<const char> bytes, uint32_t before = 0);

struct ArchiveEntry {
  std::string name;
  uint64_t at = 0, size = 0;  // of the bytes in the file
  uint32_t crc = 0;
};

class RUSH_API ArchiveReader {
 public:
  ArchiveReader(const ByteSource& source, std::string what);
  const std::vector<ArchiveEntry>& entries() const { return entries_; }
  const ArchiveEntry* find(std::string_view name) const;
  // All bytes of an entry, whose sum is checked.
  std::string read(const ArchiveEntry& entry) const;
  const ByteSource& source() const { return source_; }
  const std::string& what() const { return what_; }

 private:
  void read_directory(uint64_t at, uint64_t size, uint64_t count);
  void check_local(ArchiveEntry& entry, uint64_t directory);
  void check_apart(uint64_t directory);

  const ByteSource& source_;
  std::string what_;  // for messages
  std::vector<ArchiveEntry> entries_;
};

// Writes entries one after the other; the parts of an entry are known before the first is written.
class RUSH_API ArchiveWriter {
 public:
  explicit ArchiveWriter(ByteSink& sink) : sink_(sink) {}
  // The parts' bytes begin at a multiple of 64.
  void add(const std::string& name, std::span<const std::span<const char>> parts);
  void finish();

 private:
  struct Written : ArchiveEntry {
    uint64_t header = 0;
  };
  void put(std::string_view bytes);
  ByteSink& sink_;
  uint64_t at_ = 0;
  std::vector<Written> written_;
};

}  // namespace rush::jit
