#include <cerrno>
#include <cstring>
#include <fstream>

#include "frontend/data/datasets.h"

namespace rush::data::datasets {
namespace {

uint32_t big_endian(std::istream& in, const std::string& path) {
  unsigned char b[4];
  in.read(reinterpret_cast<char*>(b), 4);
  check(bool(in), ErrorKind::Runtime, "MNIST", "'", path, "' ends too early");
  return uint32_t(b[0]) << 24 | uint32_t(b[1]) << 16 | uint32_t(b[2]) << 8 | b[3];
}

// A file of the idx format: a magic number (2048 + dims), the sizes, then bytes.
Tensor read_idx(const std::string& path, uint32_t dims) {
  std::ifstream in(path, std::ios::binary);
  check(bool(in), ErrorKind::Runtime, "MNIST", "cannot open '", path, "': ", std::strerror(errno),
        "; the files must lie there unpacked");
  const uint32_t magic = big_endian(in, path);
  check(magic == 2048 + dims, ErrorKind::Runtime, "MNIST", "'", path, "' begins with ", magic,
        ", expected is ", 2048 + dims, ": not a file of MNIST, or still packed");
  Dims sizes;
  int64_t numel = 1;
  for (uint32_t d = 0; d < dims; ++d) {
    sizes.push_back(int64_t(big_endian(in, path)));
    check(sizes.back() < (1 << 24) && (numel *= sizes.back()) < (int64_t(1) << 34),
          ErrorKind::Runtime, "MNIST", "'", path, "' says that it has sizes ", sizes);
  }
  // Before anything is allocated for what a damaged file promises.
  const auto at = in.tellg();
  in.seekg(0, std::ios::end);
  check(in.tellg() - at >= numel, ErrorKind::Runtime, "MNIST", "'", path, "' ends too early");
  in.seekg(at);
  const Tensor out = make_tensor(sizes, DType::UInt8);
  in.read(out.data<char>(), numel);
  check(bool(in), ErrorKind::Runtime, "MNIST", "'", path, "' cannot be read to its end");
  return out;
}

}  // namespace

MNIST::MNIST(const std::string& root, Mode mode) : mode_(mode) {
  const std::string prefix = root + (mode == Mode::kTrain ? "/train-" : "/t10k-");
  const Tensor images = read_idx(prefix + "images-idx3-ubyte", 3);
  images_ = div(unsqueeze(cast(images, DType::Float32), 1), wrap_number(255));
  targets_ = cast(read_idx(prefix + "labels-idx1-ubyte", 1), DType::Int64);
  check(images_.size(0) == targets_.size(0), ErrorKind::Runtime, "MNIST", "there are ",
        images_.size(0), " pictures and ", targets_.size(0), " labels in '", root, "'");
}

Example<> MNIST::get(size_t index) {
  return {select(images_, 0, int64_t(index)), select(targets_, 0, int64_t(index))};
}

std::optional<size_t> MNIST::size() const { return size_t(images_.size(0)); }

}  // namespace rush::data::datasets
