// file_sink.h: a file that takes its place when it is whole.
#pragma once

#include <string>

#include "jit/archive.h"

namespace rush::jit {

// Bytes go to a new file beside the old one, which takes its place, and its rights, at the end. A
// symbolic link goes on pointing to the file; pipes and devices are written as they are.
class FileSink final : public ByteSink {
 public:
  explicit FileSink(const std::string& path);
  ~FileSink() override;
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;
  void write(std::span<const char> bytes) override;
  void place();  // without it the old file stays

 private:
  void check_done(bool ok) const;
  std::string path_, target_, temporary_;
  int file_ = -1;
  bool replaces_ = false;  // the temporary file is there
};

}  // namespace rush::jit
