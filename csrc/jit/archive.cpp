#include "jit/archive.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <unordered_set>

#include "core/error.h"
#include "jit/json.h"

namespace rush::jit {
namespace {

// The fixed parts of the format.
constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50,
                   kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr size_t kLocalSize = 30, kCentralSize = 46, kEndSize = 22, kEnd64Size = 56,
                 kLocator64Size = 20;
constexpr uint16_t kUtf8 = 1 << 11, kExtra64 = 1, kPadding = 0x5252;
constexpr uint64_t kMost32 = 0xFFFFFFFF, kMost16 = 0xFFFF;
constexpr uint64_t kAlignment = 64;

bool is_text(std::string_view name) {
  for (size_t at = 0; at < name.size();) {
    const size_t length = utf8_length(name, at);
    if (length == 0 || static_cast<unsigned char>(name[at]) < 0x20) return false;
    at += length;
  }
  return !name.empty();
}

template <class T>
T get(const char* p) {
  T v = 0;
  for (size_t i = 0; i < sizeof(T); ++i)
    v = T(v | T(T(static_cast<unsigned char>(p[i])) << (8 * i)));
  return v;
}
template <class T>
void put(std::string& to, T v) {
  for (size_t i = 0; i < sizeof(T); ++i) to += char(v >> (8 * i));
}

class FileSource final : public ByteSource {
 public:
  explicit FileSource(const std::string& path) : path_(path) {
    file_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    check(file_ >= 0, ErrorKind::Runtime, "load", "cannot open '", path,
          "': ", std::strerror(errno));
    struct stat about;
    const bool known = fstat(file_, &about) == 0 && S_ISREG(about.st_mode);
    if (!known) close(file_);
    check(known, ErrorKind::Runtime, "load", "'", path, "' is not a file");
    size_ = uint64_t(about.st_size);
  }
  ~FileSource() override { close(file_); }
  uint64_t size() const override { return size_; }
  void read(uint64_t at, std::span<char> to) const override {
    for (size_t done = 0; done < to.size();) {
      const ssize_t n = pread(file_, to.data() + done, to.size() - done, off_t(at + done));
      if (n < 0 && errno == EINTR) continue;
      check(n > 0, ErrorKind::Runtime, "load", "cannot read '", path_,
            "': ", n < 0 ? std::strerror(errno) : "it has become shorter");
      done += size_t(n);
    }
  }

 private:
  std::string path_;
  int file_;
  uint64_t size_;
};

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::span<const char> bytes) : bytes_(bytes) {}
  uint64_t size() const override { return bytes_.size(); }
  void read(uint64_t at, std::span<char> to) const override {
    std::memcpy(to.data(), bytes_.data() + at, to.size());
  }

 private:
  std::span<const char> bytes_;
};

}  // namespace

std::unique_ptr<ByteSource> ByteSource::file(const std::string& path) {
  return std::make_unique<FileSource>(path);
}
std::unique_ptr<ByteSource> ByteSource::memory(std::span<const char> bytes) {
  return std::make_unique<MemorySource>(bytes);
}

// Reading ------------------------------------------------------------------------------------------

ArchiveReader::ArchiveReader(const ByteSource& source, std::string what)
    : source_(source), what_(std::move(what)) {
  const uint64_t size = source.size();
  const auto require = [&](bool ok, const char* why) {
    check(ok, ErrorKind::Runtime, what_, "this is no .rush file, or it is damaged: ", why);
  };
  require(size >= kEndSize, "it is too short");
  // The end record stands last: programs have no comment behind it.
  std::array<char, kEndSize> end;
  source.read(size - kEndSize, end);
  require(get<uint32_t>(end.data()) == kEnd && get<uint16_t>(end.data() + 20) == 0,
          "it does not end as a zip file without a comment does");
  require(get<uint16_t>(end.data() + 4) == 0 && get<uint16_t>(end.data() + 6) == 0,
          "it is one of several parts");
  uint64_t count = get<uint16_t>(end.data() + 10);
  uint64_t directory_size = get<uint32_t>(end.data() + 12), at = get<uint32_t>(end.data() + 16);
  require(count == get<uint16_t>(end.data() + 8), "its counts of entries differ");
  uint64_t stop = size - kEndSize;  // where the directory must end
  if (count == kMost16 || directory_size == kMost32 || at == kMost32) {
    require(stop >= kLocator64Size + kEnd64Size, "its zip64 records are missing");
    std::array<char, kEnd64Size + kLocator64Size> records;
    stop -= records.size();
    source.read(stop, records);
    const char *r = records.data(), *locator = r + kEnd64Size;
    require(get<uint32_t>(r) == kEnd64 && get<uint64_t>(r + 4) == kEnd64Size - 12 &&
                get<uint32_t>(locator) == kLocator64 && get<uint64_t>(locator + 8) == stop,
            "its zip64 records are wrong");
    count = get<uint64_t>(r + 32);
    require(count == get<uint64_t>(r + 24), "its counts of entries differ");
    directory_size = get<uint64_t>(r + 40);
    at = get<uint64_t>(r + 48);
  }
  require(at <= stop && directory_size == stop - at, "its directory is not where it should be");
  require(count <= directory_size / kCentralSize, "it has fewer entries than it claims");
  read_directory(at, directory_size, count);
}

void ArchiveReader::read_directory(uint64_t at, uint64_t size, uint64_t count) {
  std::string directory(size, '\0');
  source_.read(at, directory);
  std::unordered_set<std::string> names;
  size_t p = 0;
  for (uint64_t k = 0; k < count; ++k) {
    const auto require = [&](bool ok, const char* why) {
      check(ok, ErrorKind::Runtime, what_, "entry ", k, " of the zip file: ", why);
    };
    require(p + kCentralSize <= size, "the directory is too short");
    const char* h = directory.data() + p;
    require(get<uint32_t>(h) == kCentral, "it does not begin as an entry does");
    require((get<uint16_t>(h + 8) & ~kUtf8) == 0,
            "it is encrypted, or has other flags that .rush files have not");
    require(get<uint16_t>(h + 10) == 0,
            "it is compressed; entries of .rush files are stored as they are");
    const size_t name = get<uint16_t>(h + 28), extra = get<uint16_t>(h + 30);
    require(get<uint16_t>(h + 32) == 0 && get<uint16_t>(h + 34) == 0,
            "it has a comment or lies in another part");
    require(p + kCentralSize + name + extra <= size, "the directory is too short");
    ArchiveEntry e;
    e.crc = get<uint32_t>(h + 16);
    uint64_t packed = get<uint32_t>(h + 20), header = get<uint32_t>(h + 42);
    e.size = get<uint32_t>(h + 24);
    e.name.assign(h + kCentralSize, name);
    // The numbers that do not fit stand in an extra field, in this order.
    const char* field = h + kCentralSize + name;
    for (const char* end = field + extra; field < end;) {
      require(end - field >= 4 && get<uint16_t>(field + 2) <= size_t(end - field - 4),
              "an extra field is too long");
      const size_t length = get<uint16_t>(field + 2);
      if (get<uint16_t>(field) == kExtra64) {
        const char *number = field + 4, *stop = number + length;
        for (uint64_t* n : {&e.size, &packed, &header}) {
          if (*n != kMost32) continue;
          require(stop - number >= 8, "a zip64 field is too short");
          *n = get<uint64_t>(number);
          number += 8;
        }
        require(number == stop, "a zip64 field is too long");
      }
      field += 4 + length;
    }
    require(packed == e.size, "its two sizes differ");
    require(is_text(e.name), "its name is no text");
    require(names.insert(e.name).second, "its name is there twice");
    e.at = header;
    check_local(e, at);
    entries_.push_back(std::move(e));
    p += kCentralSize + name + extra;
  }
  check(p == size, ErrorKind::Runtime, what_,
        "the zip file's directory is longer than its entries");
  check_apart(at);
}

// `entry.at` is the header's place at first, that of the bytes afterwards.
void ArchiveReader::check_local(ArchiveEntry& e, uint64_t directory) {
  const auto require = [&](bool ok, const char* why) {
    check(ok, ErrorKind::Runtime, what_, "entry '", e.name, "' of the zip file: ", why);
  };
  require(e.at <= directory && directory - e.at >= kLocalSize, "its header lies outside");
  std::array<char, kLocalSize> h;
  source_.read(e.at, h);
  require(get<uint32_t>(h.data()) == kLocal && (get<uint16_t>(h.data() + 6) & ~kUtf8) == 0 &&
              get<uint16_t>(h.data() + 8) == 0,
          "its header differs from the directory");
  const uint64_t name = get<uint16_t>(h.data() + 26), extra = get<uint16_t>(h.data() + 28);
  require(directory - e.at - kLocalSize >= name + extra, "its header lies outside");
  std::string own(name, '\0');
  source_.read(e.at + kLocalSize, own);
  const uint64_t size = get<uint32_t>(h.data() + 22);
  require(own == e.name && get<uint32_t>(h.data() + 14) == e.crc &&
              (size == e.size || size == kMost32) && size == get<uint32_t>(h.data() + 18),
          "its header differs from the directory");
  e.at += kLocalSize + name + extra;
  require(e.size <= directory - e.at, "its bytes lie outside");
}

void ArchiveReader::check_apart(uint64_t directory) {
  std::vector<std::pair<uint64_t, uint64_t>> spans;
  for (const ArchiveEntry& e : entries_)
    spans.emplace_back(e.at - kLocalSize - e.name.size(), e.at + e.size);
  std::sort(spans.begin(), spans.end());
  uint64_t last = 0;
  for (const auto& [begin, end] : spans) {
    check(begin >= last && end <= directory, ErrorKind::Runtime, what_,
          "entries of the zip file lie over each other");
    last = end;
  }
}

const ArchiveEntry* ArchiveReader::find(std::string_view name) const {
  for (const ArchiveEntry& e : entries_) {
    if (e.name == name) return &e;
  }
  return nullptr;
}

std::string ArchiveReader::read(const ArchiveEntry& e) const {
  std::string bytes(e.size, '\0');
  source_.read(e.at, bytes);
  check(crc32(bytes) == e.crc, ErrorKind::Runtime, what_, "entry '", e.name,
        "' of the zip file is damaged: its checksum differs");
  return bytes;
}

// Writing ------------------------------------------------------------------------------------------

namespace {

// What both headers of an entry say: version, flags, date, sum, sizes, lengths.
void put_about(std::string& h, const ArchiveEntry& e, bool zip64, size_t extra) {
  const auto size = uint32_t(std::min(e.size, kMost32));
  put<uint16_t>(h, zip64 ? 45 : 20);
  put<uint32_t>(h, kUtf8);       // and stored
  put<uint32_t>(h, 0x00210000);  // 1980-01-01: the same program gives the same file
  put<uint32_t>(h, e.crc);
  put<uint32_t>(h, size);
  put<uint32_t>(h, size);
  put<uint16_t>(h, uint16_t(e.name.size()));
  put<uint16_t>(h, uint16_t(extra));
}

}  // namespace

void ArchiveWriter::put(std::string_view bytes) {
  sink_.write(bytes);
  at_ += bytes.size();
}

void ArchiveWriter::add(const std::string& name, std::span<const std::span<const char>> parts) {
  Written e;
  e.name = name;
  e.header = at_;
  for (const auto& part : parts) {
    e.size += part.size();
    e.crc = crc32(part, e.crc);
  }
  std::string extra;
  if (e.size >= kMost32) {
    jit::put<uint16_t>(extra, kExtra64);
    jit::put<uint16_t>(extra, 16);
    jit::put<uint64_t>(extra, e.size);
    jit::put<uint64_t>(extra, e.size);
  }
  const uint64_t begin = at_ + kLocalSize + name.size() + extra.size() + 4;
  const auto padding = uint16_t((kAlignment - begin % kAlignment) % kAlignment);
  jit::put<uint16_t>(extra, kPadding);
  jit::put<uint16_t>(extra, padding);
  extra.append(padding, '\0');
  std::string h;
  jit::put<uint32_t>(h, kLocal);
  put_about(h, e, e.size >= kMost32, extra.size());
  put(h + name + extra);
  for (const auto& part : parts) put({part.data(), part.size()});
  written_.push_back(std::move(e));
}

void ArchiveWriter::finish() {
  const uint64_t directory = at_;
  for (const Written& e : written_) {
    std::string extra;
    const bool large = e.size >= kMost32, far = e.header >= kMost32;
    if (large || far) {
      jit::put<uint16_t>(extra, kExtra64);
      jit::put<uint16_t>(extra, uint16_t((large ? 16 : 0) + (far ? 8 : 0)));
      if (large) {
        jit::put<uint64_t>(extra, e.size);
        jit::put<uint64_t>(extra, e.size);
      }
      if (far) jit::put<uint64_t>(extra, e.header);
    }
    std::string h;
    jit::put<uint32_t>(h, kCentral);
    jit::put<uint16_t>(h, 45);
    put_about(h, e, large || far, extra.size());
    h.append(10, '\0');  // no comment, one part, no attributes
    jit::put<uint32_t>(h, uint32_t(std::min(e.header, kMost32)));
    put(h + e.name + extra);
  }
  const uint64_t size = at_ - directory, count = written_.size();
  std::string end;
  if (count >= kMost16 || size >= kMost32 || directory >= kMost32) {
    const uint64_t at = at_;
    jit::put<uint32_t>(end, kEnd64);
    jit::put<uint64_t>(end, kEnd64Size - 12);
    jit::put<uint16_t>(end, 45);
    jit::put<uint16_t>(end, 45);
    jit::put<uint32_t>(end, 0);
    jit::put<uint32_t>(end, 0);
    jit::put<uint64_t>(end, count);
    jit::put<uint64_t>(end, count);
    jit::put<uint64_t>(end, size);
    jit::put<uint64_t>(end, directory);
    jit::put<uint32_t>(end, kLocator64);
    jit::put<uint32_t>(end, 0);
    jit::put<uint64_t>(end, at);
    jit::put<uint32_t>(end, 1);
  }
  jit::put<uint32_t>(end, kEnd);
  jit::put<uint32_t>(end, 0);
  jit::put<uint16_t>(end, uint16_t(std::min(count, kMost16)));
  jit::put<uint16_t>(end, uint16_t(std::min(count, kMost16)));
  jit::put<uint32_t>(end, uint32_t(std::min(size, kMost32)));
  jit::put<uint32_t>(end, uint32_t(std::min(directory, kMost32)));
  jit::put<uint16_t>(end, 0);
  put(end);
}

}  // namespace rush::jit
