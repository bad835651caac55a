// lists.h: one pass over the elements of many tensors, by device.
//
// All tensors of a call are on the device of the table's entry.
#pragma once

#include <array>
#include <span>

#include "device/pointwise.h"

namespace rush {

// A stretch of flat elements of one real floating type.
struct FlatTensor {
  char* data;
  int64_t numel;
  DType dtype;
};

// One input of a functor that is called for a list of outputs.
struct ListInput {
  // One tensor per output, of its shape and strides; or one tensor of one element for all.
  std::span<const Tensor> tensors;
  // Or numbers: one for all outputs, or one per output.
  std::span<const double> numbers;
};

// outs[k][i] = f(inputs[0][k][i], ...). The outputs are dense and of one real floating type. An
// input may be the output of its own place; beyond that no output shares memory with anything.
struct ListWork {
  int arity;    // how many inputs count
  unsigned fn;  // UnaryFn, BinaryFn or TernaryFn
  DType compute;
  std::span<const Tensor> outs;
  std::array<ListInput, 3> inputs;
  std::span<const double> value;  // the functor's number where it has one, as ListInput::numbers
};

// The last stage of sums down columns: result c is what the numbers first + s * step + c of `from`, s
// counting the segments, add up to, rounded to `rounded` and then to the type of where it goes.
struct ColumnSums {
  Tensor from;  // float32
  int64_t first, step, segments;
  bool by_tree;  // how lanes are joined: as cuda/kernels/reduce.cu does, or row_norm.cu
  DType rounded;
  // More than 0: it is the only stage, few rows of float32 or a half type, which so many lanes share.
  int lanes = 0;
};

struct ListLoops {
  void (*pointwise)(const ListWork& work) = nullptr;
  // to[k] = from[k], which lie alike; each list has one real floating type.
  void (*copy)(std::span<const Tensor> from, std::span<const Tensor> to) = nullptr;
  // The same for images, or the weights of convolutions: one of the two has its channels last.
  void (*move_channels)(std::span<const Tensor> from, std::span<const Tensor> to) = nullptr;
  bool (*moves_channels)(const Tensor& from, const Tensor& to) = nullptr;  // has it a way for them?
  void (*fill)(std::span<const Tensor> tensors, double value) = nullptr;
  // outs[k], contiguous and of float32 or a half type, becomes the sums of from[k].
  void (*column_sums)(std::span<const ColumnSums> from, std::span<const Tensor> outs) = nullptr;

  // The p-norm of everything together into one element, or of each tensor into one of `outs`; for p =
  // inf and -inf the extreme magnitudes. False: it has none for this p, and nothing was done.
  bool (*norm)(std::span<const FlatTensor> tensors, double p,
               std::span<const Tensor> outs) = nullptr;
  // Multiplies by a factor, which is one element.
  void (*scale)(std::span<const FlatTensor> tensors, const Tensor& factor) = nullptr;
  // The same, and sets `found`, one element, to 1 when one is nan or infinite. Both are float32
  // where reading them on the host would be a wait.
  void (*unscale)(std::span<const FlatTensor> tensors, const Tensor& factor,
                  const Tensor& found) = nullptr;
};
inline constinit DeviceTable<ListLoops> list_loops;

}  // namespace rush
