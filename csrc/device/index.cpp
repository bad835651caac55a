#include "device/index.h"

#include "device/copy.h"

namespace rush {

constinit DeviceTable<IndexLoops> index_loops;

int64_t NonzeroCounts::total() const {
  if (total_ < 0) {
    Tensor last = counts_.alias(Dims{}, Dims{}, counts_.offset() + counts_.numel() - 1);
    if (device_traits(last).separate_memory) {
      const Tensor host = make_tensor(Dims{}, DType::Int64);
      copy_elements(last, host);
      last = host;
    }
    total_ = *last.data<int64_t>();
  }
  return total_;
}

void NonzeroCounts::write_coordinates(const Tensor& to, int64_t stride, int64_t dim_stride) const {
  if (x_.dim() > 0) index_loops(x_).nonzero_coordinates(x_, counts_, to, stride, dim_stride);
}

void NonzeroCounts::write_positions(const Tensor& to) const {
  const Tensor flat = make_tensor(x_.storage(), Dims{x_.numel()}, Dims{1}, x_.offset(), x_.dtype());
  index_loops(x_).nonzero_coordinates(flat, counts_, to, 1, 1);
}

void NonzeroCounts::select(const Tensor& values, const Tensor& out) const {
  index_loops(x_).masked_select(x_, counts_, values, out);
}

void NonzeroCounts::place(const char* op, const Tensor& source, const Tensor& out) const {
  index_loops(x_).masked_scatter(op, x_, counts_, source, out);
}

}  // namespace rush
