// quantized.h: quantized tensors on a device: integers of 8 bits that stand for scale * (integer -
// zero).
#pragma once

#include "device/nn/convolution.h"
#include "device/table.h"

namespace rush {

struct Steps {
  double scale;
  int64_t zero;
};

// A layer's weight, int8 around 0, and what its sums are brought to numbers with.
struct IntegerWeight {
  Tensor w;       // contiguous
  Tensor scales;  // float32, one for each output
  Tensor bias;    // float32, or undefined
};

// Steps that numbers from low to high need, with integers from 0 to `most`; 0 is one of them.
RUSH_API Steps steps_for(double low, double high, int64_t most);

// Strides with the channels last, whatever the number of spatial dims.
RUSH_API Dims strides_of_last_channels(IntList sizes);

// Integers are uint8 or int8. A function that returns a bool says false where it does not serve:
// take another way. Null: the device has none.
struct QuantizedLoops {
  // To nearest, ties to even, and no further than there are integers; NaN is the largest. x is
  // float32, and out lies like it, without gaps.
  void (*quantize)(const Tensor& x, Steps steps, const Tensor& out) = nullptr;
  // The other way round.
  void (*dequantize)(const Tensor& x, Steps steps, const Tensor& out) = nullptr;
  // out = a + b or a * b, and relu of that where it is asked for. All lie alike, without gaps.
  void (*combine)(bool multiply, bool relu, const Tensor& a, Steps of_a, const Tensor& b,
                  Steps of_b, const Tensor& out, Steps of_out) = nullptr;
  // out (m, n) = x (m, k) @ w.T; x and out are contiguous.
  bool (*linear)(const Tensor& x, Steps of_x, const IntegerWeight& w, bool relu, const Tensor& out,
                 Steps of_out) = nullptr;
  // float32 to float32, through integers from 0 to 127 whose steps the numbers at hand decide.
  bool (*dynamic_linear)(const Tensor& x, const IntegerWeight& w, bool relu,
                         const Tensor& out) = nullptr;
  // kind Forward, or InputGrad for a transposed one, whose x is then the input all the same. out
  // lies with its channels last; x lies in any way.
  bool (*convolve)(ConvKind kind, const ConvShape& shape, const Tensor& x, Steps of_x,
                   const IntegerWeight& w, bool relu, const Tensor& out, Steps of_out) = nullptr;
  // One direction of an LSTM over x (time, batch, features) as dynamic_linear computes it; the
  // bias is that of w_input. h and c hold the first state and get the last one. All contiguous.
  bool (*recurrent_layer)(const Tensor& x, const IntegerWeight& w_input,
                          const IntegerWeight& w_state, bool reverse, const Tensor& h,
                          const Tensor& c, const Tensor& out) = nullptr;
};
inline constinit DeviceTable<QuantizedLoops> quantized_loops;

}  // namespace rush
