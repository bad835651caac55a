// Borders made of what is inside, on the CPU.
#include <algorithm>
#include <cstring>
#include <vector>

#include "core/interrupt.h"
#include "core/threads.h"
#include "device/nn/image.h"

namespace rush {

namespace {

constexpr int64_t kGrain = 16384;  // elements that are worth a thread

// One dim: how many there are, how many come out, and where the first of these lies.
struct Extent {
  int64_t in = 1, out = 1, before = 0;
  int64_t place(PadMode mode, int64_t i) const { return place_inside(mode, i - before, in); }
};

struct Row {
  int64_t first, end;         // of the result, that lie inside
  std::vector<int64_t> from;  // where each element comes from
};

template <class T>
void pad_row(const T* src, T* dst, const Row& row, int64_t before) {
  for (int64_t i = 0; i < row.first; ++i) dst[i] = src[row.from[size_t(i)]];
  if (row.end > row.first)
    std::memcpy(dst + row.first, src + row.first - before, size_t(row.end - row.first) * sizeof(T));
  const int64_t n = int64_t(row.from.size());
  for (int64_t i = std::max(row.first, row.end); i < n; ++i) dst[i] = src[row.from[size_t(i)]];
}

template <class T>
void pad_all(const T* x, T* out, int64_t count, const Extent (&e)[3], PadMode mode) {
  Row row{std::clamp<int64_t>(e[0].before, 0, e[0].out),
          std::clamp<int64_t>(e[0].before + e[0].in, 0, e[0].out),
          {}};
  for (int64_t i = 0; i < e[0].out; ++i) row.from.push_back(e[0].place(mode, i));
  const int64_t planes = count * e[2].out;
  parallel_for(planes, std::max<int64_t>(1, kGrain / (e[1].out * e[0].out)),
               [&](int64_t p, int64_t last) {
                 for (; p < last; ++p) {
                   const int64_t image = p / e[2].out * e[2].in + e[2].place(mode, p % e[2].out);
                   const T* from = x + image * e[1].in * e[0].in;
                   T* to = out + p * e[1].out * e[0].out;
                   InterruptCounter interrupts(1 << 20);
                   for (int64_t h = 0; h < e[1].out; ++h, to += e[0].out) {
                     interrupts.add(e[0].out);
                     pad_row(from + e[1].place(mode, h) * e[0].in, to, row, e[0].before);
                   }
                 }
               });
}

struct Wide {
  uint64_t parts[2];
};

void pad_from_inside_cpu(const Tensor& x, IntList pad, PadMode mode, const Tensor& out) {
  Extent e[3];
  int64_t count = x.numel();
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    const size_t d = size_t(x.dim()) - 1 - i;
    e[i] = {x.sizes()[d], out.sizes()[d], pad[2 * i]};
    count /= e[i].in;
  }
  const auto go = [&]<class T>() { pad_all(x.data<T>(), out.data<T>(), count, e, mode); };
  switch (x.element_size()) {
    case 1:
      return go.operator()<uint8_t>();
    case 2:
      return go.operator()<uint16_t>();
    case 4:
      return go.operator()<uint32_t>();
    case 8:
      return go.operator()<uint64_t>();
    default:
      return go.operator()<Wide>();
  }
}

const bool registered = [] {
  image_loops(DeviceType::CPU).pad_from_inside = pad_from_inside_cpu;
  return true;
}();

}  // namespace
}  // namespace rush
