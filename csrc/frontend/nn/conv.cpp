#include "frontend/nn/conv.h"

#include <cmath>

#include "frontend/nn/init.h"
#include "ops/ops.h"

namespace rush::nn {
namespace {

template <class Options>
void check_channels(const std::string& name, const Options& o) {
  check_argument(
      o.groups() > 0 && o.in_channels() % o.groups() == 0 && o.out_channels() % o.groups() == 0,
      name, "in_channels and out_channels must be divisible by groups, got ", o.in_channels(), ", ",
      o.out_channels(), " and ", o.groups());
}

template <size_t D>
Tensor new_weight(int64_t first, int64_t second, const ExpandingArray<D>& kernel) {
  Dims sizes{first, second};
  for (size_t d = 0; d < D; ++d) sizes.push_back(kernel[d]);
  return make_tensor(sizes, default_dtype());
}

// Transposed weights have the inputs first.
template <size_t D>
Tensor new_weight(const ConvOptions<D>& o) {
  return new_weight(o.out_channels(), o.in_channels() / o.groups(), o.kernel_size());
}
template <size_t D>
Tensor new_weight(const ConvTransposeOptions<D>& o) {
  return new_weight(o.in_channels(), o.out_channels() / o.groups(), o.kernel_size());
}

Tensor new_bias(bool wanted, int64_t channels) {
  return wanted ? make_tensor(Dims{channels}, default_dtype()) : Tensor();
}

template <size_t D>
void print_padding(std::ostream& stream, const ExpandingArray<D>& padding) {
  if (padding.values() != ExpandingArray<D>(0).values()) stream << ", padding=" << padding;
}
template <size_t D>
void print_padding(std::ostream& stream,
                   const std::variant<ExpandingArray<D>, PaddingKind>& padding) {
  if (const auto* numbers = std::get_if<ExpandingArray<D>>(&padding)) {
    print_padding(stream, *numbers);
  } else if (std::get<PaddingKind>(padding) == PaddingKind::Same) {
    stream << ", padding=same";
  }
}

template <size_t D>
std::string name_of(const ConvOptions<D>&) {
  return concat("Conv", D, "d");
}
template <size_t D>
std::string name_of(const ConvTransposeOptions<D>&) {
  return concat("ConvTranspose", D, "d");
}

// The core's function of each number of dimensions.
template <size_t D, class Padding>
Tensor convolve(const Tensor& x, const Tensor& w, const Tensor& b, const ConvOptions<D>& o,
                const Padding& padding) {
  if constexpr (D == 1) return conv1d(x, w, b, o.stride(), padding, o.dilation(), o.groups());
  if constexpr (D == 2) return conv2d(x, w, b, o.stride(), padding, o.dilation(), o.groups());
  if constexpr (D == 3) return conv3d(x, w, b, o.stride(), padding, o.dilation(), o.groups());
}

template <size_t D>
Tensor convolve(const Tensor& x, const Tensor& w, const Tensor& b, const ConvOptions<D>& o) {
  if (const auto* padding = std::get_if<ExpandingArray<D>>(&o.padding()))
    return convolve<D>(x, w, b, o, IntList(*padding));
  const bool same = std::get<PaddingKind>(o.padding()) == PaddingKind::Same;
  return convolve<D>(x, w, b, o, std::string_view(same ? "same" : "valid"));
}

template <size_t D>
Tensor convolve(const Tensor& x, const Tensor& w, const Tensor& b,
                const ConvTransposeOptions<D>& o) {
  const auto call = [&](auto function) {
    return function(x, w, b, o.stride(), o.padding(), o.output_padding(), o.groups(), o.dilation());
  };
  if constexpr (D == 1) return call([](auto&&... a) { return conv_transpose1d(a...); });
  if constexpr (D == 2) return call([](auto&&... a) { return conv_transpose2d(a...); });
  if constexpr (D == 3) return call([](auto&&... a) { return conv_transpose3d(a...); });
}

}  // namespace

template <class Derived, class Options>
ConvImpl<Derived, Options>::ConvImpl(const Options& o) : options(o) {
  check_channels(name_of(o), o);
  ConvImpl::reset();
}

template <class Derived, class Options>
void ConvImpl<Derived, Options>::reset() {
  weight = this->register_parameter("weight", new_weight(options));
  bias = this->register_parameter("bias", new_bias(options.bias(), options.out_channels()));
  reset_parameters();
}

template <class Derived, class Options>
void ConvImpl<Derived, Options>::reset_parameters() {
  init::kaiming_uniform_(weight, std::sqrt(5));
  if (!bias.defined()) return;
  const int64_t fan_in = init::calculate_fan_in_and_fan_out(weight).first;
  if (fan_in == 0) return;
  const double bound = 1 / std::sqrt(double(fan_in));
  init::uniform_(bias, -bound, bound);
}

template <class Derived, class Options>
void ConvImpl<Derived, Options>::pretty_print(std::ostream& stream) const {
  const Options& o = options;
  stream << "rush::nn::" << name_of(o) << '(' << o.in_channels() << ", " << o.out_channels()
         << ", kernel_size=" << o.kernel_size() << ", stride=" << o.stride();
  print_padding(stream, o.padding());
  if (o.groups() != 1) stream << ", groups=" << o.groups();
  if (!o.bias()) stream << ", bias=false";
  stream << ')';
}

template <class Derived, class Options>
Tensor ConvImpl<Derived, Options>::forward(const Tensor& input) {
  return convolve(input, weight, bias, options);
}

template class ConvImpl<Conv1dImpl, Conv1dOptions>;
template class ConvImpl<Conv2dImpl, Conv2dOptions>;
template class ConvImpl<Conv3dImpl, Conv3dOptions>;
template class ConvImpl<ConvTranspose1dImpl, ConvTranspose1dOptions>;
template class ConvImpl<ConvTranspose2dImpl, ConvTranspose2dOptions>;
template class ConvImpl<ConvTranspose3dImpl, ConvTranspose3dOptions>;

}  // namespace rush::nn
