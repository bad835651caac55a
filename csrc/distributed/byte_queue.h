// byte_queue.h: bytes that come at one end and go at the other.
#pragma once

#include <string>
#include <string_view>

namespace rush::distributed {

// What has gone is cut off once it is half of the memory, so that many small steps do not move a
// long rest each time; an empty queue keeps little memory.
class ByteQueue {
 public:
  void push(std::string_view bytes) { bytes_ += bytes; }
  void pop(size_t count) {
    gone_ += count;
    if (gone_ == bytes_.size()) {
      bytes_.clear();
      gone_ = 0;
      if (bytes_.capacity() > kKept) bytes_.shrink_to_fit();
    } else if (gone_ > bytes_.size() / 2) {
      bytes_.erase(0, gone_);
      gone_ = 0;
    }
  }
  std::string_view view() const { return std::string_view(bytes_).substr(gone_); }
  size_t size() const { return bytes_.size() - gone_; }
  bool empty() const { return size() == 0; }

 private:
  static constexpr size_t kKept = size_t(1) << 18;
  std::string bytes_;
  size_t gone_ = 0;
};

}  // namespace rush::distributed
