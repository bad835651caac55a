// Joining tensors.
#include <algorithm>
#include <cstring>

#include "core/interrupt.h"
#include "core/small_vector.h"
#include "cpu/copy/copy.h"
#include "cpu/copy/row_moves.h"
#include "cpu/loop_nest.h"
#include "device/copy.h"

namespace rush {
namespace {

// Rows shorter than this do not go past the caches, whatever they add up to.
constexpr int64_t kWorthStreaming = 1024;

// Rows up to this length are laid part by part, for groups of them that stay in the first-level
// cache.
constexpr int64_t kShortBytes = 1024, kGroupBytes = 8192;

bool lies_flat(std::span<const Tensor> tensors, const Tensor& out) {
  bool flat = out.is_contiguous();
  for (const Tensor& t : tensors) flat = flat && t.is_contiguous() && t.dtype() == out.dtype();
  return flat;
}

// Lays parts side by side: row r of dst is row r of every part, in their order. All contiguous, of
// one type, of `rows` rows; together they fill dst.
void join_rows(std::span<const Tensor> parts, int64_t rows, const Tensor& dst) {
  char* to = dst.data<char>();
  if (rows == 1) {
    for (const Tensor& part : parts) {
      copy_bytes(to, part.data(), part.nbytes());
      to += part.nbytes();
    }
    return;
  }
  SmallVector<int64_t, 8> widths;
  for (const Tensor& part : parts) widths.push_back(part.nbytes() / rows);
  const int64_t width = dst.nbytes() / rows;
  const bool stream = dst.nbytes() >= kStreamBytes && width >= kWorthStreaming;
  if (width <= kShortBytes) {
    const int64_t group = std::max<int64_t>(1, kGroupBytes / width);
    parallel_for(rows, std::max<int64_t>(1, kByteGrain / width), [&](int64_t r, int64_t end) {
      for (; r < end; r += group) {
        char* at = to + r * width;
        for (size_t i = 0; i < parts.size(); at += widths[i++])
          copy_rows(at, width, parts[i].data<char>() + r * widths[i], widths[i],
                    std::min(group, end - r), widths[i]);
      }
    });
    return;
  }
  parallel_for(rows, std::max<int64_t>(1, kByteGrain / width), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      char* at = to + r * width;
      for (size_t i = 0; i < parts.size(); ++i) {
        const char* from = parts[i].data<char>() + r * widths[i];
        if (stream) {
          stream_bytes(at, from, widths[i]);
        } else {
          std::memcpy(at, from, size_t(widths[i]));
        }
        at += widths[i];
      }
    }
  });
}

void cat(std::span<const Tensor> tensors, int64_t dim, const Tensor& out) {
  const auto d = size_t(dim);
  if (out.numel() > 0 && lies_flat(tensors, out))
    return join_rows(tensors, numel(IntList(out.sizes()).first(d)), out);
  int64_t at = 0;
  InterruptCounter interrupts(1 << 12);
  for (const Tensor& t : tensors) {
    interrupts.add();
    if (t.numel() == 0) {
      if (t.dim() == out.dim()) at += t.sizes()[d];
      continue;
    }
    Dims sizes(out.sizes());
    sizes[d] = t.sizes()[d];
    copy_cpu(t, out.alias(sizes, out.strides(), out.offset() + at * out.strides()[d]));
    at += sizes[d];
  }
}

const bool registered = [] {
  copy_loops(DeviceType::CPU).cat = cat;
  return true;
}();

}  // namespace
}  // namespace rush
