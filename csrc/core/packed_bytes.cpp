#include "core/packed_bytes.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/error.h"

namespace rush {
namespace {

constexpr uint64_t kMagic = 0x314b434150485352;  // "RSHPACK1"
constexpr size_t kGroup = 16;

struct Header {
  uint64_t magic, count, slots, data_bytes;
};

void put_number(std::string& out, size_t n) {  // seven bits per byte, the last without the top bit
  for (; n >= 128; n >>= 7) out.push_back(char(n | 128));
  out.push_back(char(n));
}

size_t take_number(const char*& p, const char* end) {
  size_t n = 0;
  for (int shift = 0; p < end && shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(*p++);
    n |= size_t(byte & 127) << shift;
    if (byte < 128) return n;
  }
  fail(ErrorKind::Runtime, "packed list", "the packed bytes are damaged");
}

uint64_t hash(std::string_view text) {  // FNV-1a, then mixed: its low bits alone are poor
  uint64_t h = 0xcbf29ce484222325;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  h ^= h >> 32;
  return h * 0x9e3779b97f4a7c15 >> 16;
}

size_t groups_of(size_t count) { return (count + kGroup - 1) / kGroup; }

}  // namespace

void PackedBytesWriter::add(std::string_view text) {
  size_t shared = 0;
  if (count_ % kGroup == 0) {
    groups_.push_back(data_.size());
    first_ = text;
  } else {
    const size_t most = std::min(first_.size(), text.size());
    while (shared < most && first_[shared] == text[shared]) ++shared;
  }
  put_number(data_, shared);
  put_number(data_, text.size() - shared);
  data_.append(text.substr(shared));
  ++count_;
}

std::string PackedBytesWriter::finish(bool with_index) {
  check(count_ < UINT32_MAX, ErrorKind::Value, "packed list", "too many strings: ", count_);
  const size_t slots = with_index ? std::bit_ceil(size_t(count_) * 3 / 2 + 1) : 0;
  const Header header{kMagic, count_, slots, data_.size()};
  std::string out;
  out.reserve(sizeof(header) + groups_.size() * 8 + slots * 4 + data_.size());
  out.append(reinterpret_cast<const char*>(&header), sizeof(header));
  out.append(reinterpret_cast<const char*>(groups_.data()), groups_.size() * 8);
  const size_t table_at = out.size();
  out.append(slots * 4, '\0');
  out.append(data_);
  std::string().swap(data_);
  if (!with_index) return out;

  const PackedBytes packed(out.data(), out.size());
  std::string text;
  for (uint32_t i = 0; i < count_; ++i) {
    packed.get(i, text);
    size_t slot = hash(text) & (slots - 1);
    const auto entry = [&](size_t s) { return out.data() + table_at + 4 * s; };
    const uint32_t value = i + 1;
    for (uint32_t taken = 1;; slot = (slot + 1) & (slots - 1)) {
      std::memcpy(&taken, entry(slot), 4);
      if (taken == 0) break;
    }
    std::memcpy(entry(slot), &value, 4);
  }
  return out;
}

PackedBytes::PackedBytes(const void* memory, size_t nbytes)
    : memory_(static_cast<const char*>(memory)) {
  Header header{};
  if (nbytes >= sizeof(header)) std::memcpy(&header, memory, sizeof(header));
  const size_t groups = groups_of(header.count);
  const size_t tables = sizeof(header) + groups * 8 + header.slots * 4;
  check(header.magic == kMagic && header.count < UINT32_MAX && header.slots <= nbytes &&
            tables <= nbytes && header.data_bytes <= nbytes - tables,
        ErrorKind::Runtime, "packed list", "this memory holds no packed list");
  count_ = header.count;
  slots_ = header.slots;
  groups_ = reinterpret_cast<const uint64_t*>(memory_ + sizeof(header));
  table_ = reinterpret_cast<const uint32_t*>(memory_ + sizeof(header) + groups * 8);
  data_ = memory_ + tables;
  end_ = data_ + header.data_bytes;
}

void PackedBytes::get(size_t i, std::string& out) const {
  check_index(i < count_, "packed list", "index ", i, " is out of range for ", count_, " items");
  const char* p = data_ + groups_[i / kGroup];
  take_number(p, end_);
  const size_t first_size = take_number(p, end_);
  const char* first = p;
  p += first_size;
  check(p <= end_, ErrorKind::Runtime, "packed list", "the packed bytes are damaged");
  if (i % kGroup == 0) {
    out.assign(first, first_size);
    return;
  }
  for (size_t step = i % kGroup;; --step) {
    const size_t shared = take_number(p, end_), own = take_number(p, end_);
    check(shared <= first_size && own <= size_t(end_ - p), ErrorKind::Runtime, "packed list",
          "the packed bytes are damaged");
    if (step == 1) {
      out.assign(first, shared);
      out.append(p, own);
      return;
    }
    p += own;
  }
}

int64_t PackedBytes::find(std::string_view text) const {
  if (slots_ == 0) return -1;
  std::string other;
  for (size_t slot = hash(text) & (slots_ - 1); table_[slot] != 0;
       slot = (slot + 1) & (slots_ - 1)) {
    get(table_[slot] - 1, other);
    if (other == text) return int64_t(table_[slot]) - 1;
  }
  return -1;
}

}  // namespace rush
