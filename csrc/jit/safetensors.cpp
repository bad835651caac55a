#include "jit/safetensors.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_set>

#include "core/modes.h"
#include "jit/json.h"
#include "ops/ops.h"

namespace rush::jit {
namespace {

constexpr uint64_t kMostHeader = 32 << 20, kAlignment = 64;
constexpr uint64_t kPiece = 256 << 10;  // read and summed while it is in the cache

struct FormatName {
  DType dtype;
  const char* name;
};
constexpr FormatName kNames[] = {
    {DType::Bool, "BOOL"},
    {DType::UInt8, "U8"},
    {DType::Int8, "I8"},
    {DType::Int16, "I16"},
    {DType::UInt16, "U16"},
    {DType::Float16, "F16"},
    {DType::BFloat16, "BF16"},
    {DType::Int32, "I32"},
    {DType::UInt32, "U32"},
    {DType::Float32, "F32"},
    {DType::Float64, "F64"},
    {DType::Int64, "I64"},
    {DType::UInt64, "U64"},
    {DType::Complex64, "C64"},
    {DType::Float8E4M3FN, "F8_E4M3"},
    {DType::Float8E5M2, "F8_E5M2"},
    {DType::Float8E4M3FNUZ, "F8_E4M3FNUZ"},
    {DType::Float8E5M2FNUZ, "F8_E5M2FNUZ"},
    {DType::Float8E8M0FNU, "F8_E8M0"},
};

const char* name_in_format(const NamedTensor& t) {
  for (const FormatName& n : kNames) {
    if (n.dtype == t.tensor.dtype()) return n.name;
  }
  fail(ErrorKind::DType, "save", "'", t.name, "' is ", t.tensor.dtype(),
       ", which the safetensors format does not have");
}
std::optional<DType> dtype_in_format(std::string_view name) {
  for (const FormatName& n : kNames) {
    if (n.name == name) return n.dtype;
  }
  return std::nullopt;
}

struct Described {
  std::string name;
  DType dtype;
  Dims sizes;
  uint64_t begin, end;
};

// One line of the header, checked against itself.
Described described(const std::string& what, const std::string& name, const Json& about) {
  const auto require = [&](bool ok, const char* why) {
    check(ok, ErrorKind::Runtime, what, "the tensor '", name, "': ", why);
  };
  const Json *dtype = about.find("dtype"), *shape = about.find("shape"),
             *offsets = about.find("data_offsets");
  require(about.object() && about.object()->size() == 3 && dtype && shape && offsets,
          "it must have dtype, shape and data_offsets, and nothing else");
  require(dtype->string() && dtype_in_format(*dtype->string()), "its dtype is not known");
  require(shape->array() && shape->array()->size() <= kMaxDims, "its shape must be a list");
  Described d{name, *dtype_in_format(*dtype->string()), {}, 0, 0};
  uint64_t bytes = uint64_t(element_size(d.dtype));
  for (const Json& n : *shape->array()) {
    require(n.integer() && *n.integer() >= 0, "its sizes must be whole numbers");
    d.sizes.push_back(*n.integer());
  }
  // A zero among the sizes makes all others harmless only if their product stays a number.
  for (const int64_t n : d.sizes) {
    require(!__builtin_mul_overflow(bytes, uint64_t(std::max<int64_t>(n, 1)), &bytes) &&
                bytes < uint64_t{1} << 62,
            "it is too large");
  }
  if (std::find(d.sizes.begin(), d.sizes.end(), 0) != d.sizes.end()) bytes = 0;
  require(offsets->array() && offsets->array()->size() == 2 && (*offsets->array())[0].integer() &&
              (*offsets->array())[1].integer(),
          "its offsets must be two whole numbers");
  const int64_t begin = *(*offsets->array())[0].integer(), end = *(*offsets->array())[1].integer();
  require(begin >= 0 && end >= begin && uint64_t(end - begin) == bytes,
          "its offsets do not fit its shape");
  d.begin = uint64_t(begin);
  d.end = uint64_t(end);
  return d;
}

void check_cover(const std::string& what, std::vector<Described> all, uint64_t length) {
  std::sort(all.begin(), all.end(), [](const Described& a, const Described& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t at = 0;
  for (const Described& d : all) {
    check(d.begin == at, ErrorKind::Runtime, what, "the tensor '", d.name,
          d.begin < at ? "' lies over the one before" : "' leaves a hole before it");
    at = d.end;
  }
  check(at == length, ErrorKind::Runtime, what, "the tensors take ", at, " bytes, and there are ",
        length);
}

}  // namespace

std::vector<std::span<const char>> SafetensorsParts::parts() const {
  std::vector<std::span<const char>> all{header};
  for (const Tensor& t : tensors) {
    if (t.numel() > 0) all.emplace_back(t.data<char>(), size_t(t.nbytes()));
  }
  return all;
}

SafetensorsParts safetensors_parts(const std::vector<NamedTensor>& given) {
  const NoGradGuard no_grad;
  std::vector<const NamedTensor*> order;
  for (const NamedTensor& t : given) order.push_back(&t);
  // Large elements first: every tensor then begins at a multiple of its element size.
  std::stable_sort(order.begin(), order.end(), [](const NamedTensor* a, const NamedTensor* b) {
    return a->tensor.element_size() > b->tensor.element_size();
  });
  SafetensorsParts out;
  Json::Object header;
  int64_t at = 0;
  for (const NamedTensor* t : order) {
    out.tensors.push_back(contiguous(to(t->tensor.alias(), Device{})));
    const int64_t end = at + out.tensors.back().nbytes();
    Json::Array sizes;
    for (const int64_t n : t->tensor.sizes()) sizes.emplace_back(n);
    header.emplace_back(t->name, Json::Object{{"dtype", Json(name_in_format(*t))},
                                              {"shape", Json(std::move(sizes))},
                                              {"data_offsets", Json::Array{Json(at), Json(end)}}});
    at = end;
  }
  std::string text = Json(std::move(header)).text();
  text.append((kAlignment - (8 + text.size()) % kAlignment) % kAlignment, ' ');
  for (int i = 0; i < 8; ++i) out.header += char(uint64_t(text.size()) >> (8 * i));
  out.header += text;
  return out;
}

std::vector<NamedTensor> read_safetensors(const ArchiveReader& archive, const ArchiveEntry& entry) {
  const std::string what = archive.what() + ": " + entry.name;
  char length[8];
  check(entry.size >= sizeof length, ErrorKind::Runtime, what, "it is too short to have a header");
  archive.source().read(entry.at, length);
  uint64_t size = 0;
  for (int i = 0; i < 8; ++i) size |= uint64_t(static_cast<unsigned char>(length[i])) << (8 * i);
  check(size <= kMostHeader && size <= entry.size - 8, ErrorKind::Runtime, what,
        "the header claims ", size, " bytes, and there are ", entry.size);
  std::string text(size, '\0');
  archive.source().read(entry.at + 8, text);
  uint32_t sum = crc32(text, crc32(length));
  const Json header = Json::parse(text, what);
  check(header.object(), ErrorKind::Runtime, what, "the header is not a map");

  std::vector<Described> all;
  for (const auto& [name, about] : *header.object()) {
    if (name == "__metadata__") continue;
    all.push_back(described(what, name, about));
  }
  check_cover(what, all, entry.size - 8 - size);
  // In the order of the bytes, so that the sum is formed as they are read.
  std::stable_sort(all.begin(), all.end(), [](const Described& a, const Described& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::vector<NamedTensor> tensors;
  for (const Described& d : all) {
    Tensor t = make_tensor(d.sizes, d.dtype);
    for (uint64_t at = d.begin; at < d.end; at += kPiece) {
      const std::span<char> bytes(t.data<char>() + (at - d.begin),
                                  size_t(std::min(kPiece, d.end - at)));
      archive.source().read(entry.at + 8 + size + at, bytes);
      sum = crc32(bytes, sum);
    }
    tensors.push_back({d.name, std::move(t)});
  }
  check(sum == entry.crc, ErrorKind::Runtime, what, "it is damaged: its checksum differs");
  return tensors;
}

}  // namespace rush::jit
