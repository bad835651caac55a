// conv.h: convolutions in one, two and three dimensions, and their transposes.
#pragma once

#include <string>
#include <variant>

#include "frontend/arg.h"
#include "frontend/nn/expanding_array.h"
#include "frontend/nn/module.h"

namespace rush {

// Padding by what it keeps: kSame gives as many outputs as inputs, kValid pads nothing.
enum class PaddingKind : uint8_t { Valid, Same };
inline constexpr PaddingKind kValid = PaddingKind::Valid, kSame = PaddingKind::Same;

}  // namespace rush

namespace rush::nn {

template <size_t D>
struct RUSH_API ConvOptions {
  using Padding = std::variant<ExpandingArray<D>, PaddingKind>;
  ConvOptions(int64_t in_channels, int64_t out_channels, ExpandingArray<D> kernel_size)
      : in_channels_(in_channels), out_channels_(out_channels), kernel_size_(kernel_size) {}

  ConvOptions& padding(ExpandingArray<D> v) {
    padding_ = v;
    return *this;
  }
  ConvOptions& padding(PaddingKind v) {
    padding_ = v;
    return *this;
  }
  const Padding& padding() const { return padding_; }

 private:
  Padding padding_ = ExpandingArray<D>(0);
  RUSH_ARG(int64_t, in_channels);
  RUSH_ARG(int64_t, out_channels);
  RUSH_ARG(ExpandingArray<D>, kernel_size);
  RUSH_ARG(ExpandingArray<D>, stride) = 1;
  RUSH_ARG(ExpandingArray<D>, dilation) = 1;
  RUSH_ARG(int64_t, groups) = 1;
  RUSH_ARG(bool, bias) = true;
};

template <size_t D>
struct RUSH_API ConvTransposeOptions {
  ConvTransposeOptions(int64_t in_channels, int64_t out_channels, ExpandingArray<D> kernel_size)
      : in_channels_(in_channels), out_channels_(out_channels), kernel_size_(kernel_size) {}
  RUSH_ARG(int64_t, in_channels);
  RUSH_ARG(int64_t, out_channels);
  RUSH_ARG(ExpandingArray<D>, kernel_size);
  RUSH_ARG(ExpandingArray<D>, stride) = 1;
  RUSH_ARG(ExpandingArray<D>, padding) = 0;
  RUSH_ARG(ExpandingArray<D>, output_padding) = 0;
  RUSH_ARG(ExpandingArray<D>, dilation) = 1;
  RUSH_ARG(int64_t, groups) = 1;
  RUSH_ARG(bool, bias) = true;
};

using Conv1dOptions = ConvOptions<1>;
using Conv2dOptions = ConvOptions<2>;
using Conv3dOptions = ConvOptions<3>;
using ConvTranspose1dOptions = ConvTransposeOptions<1>;
using ConvTranspose2dOptions = ConvTransposeOptions<2>;
using ConvTranspose3dOptions = ConvTransposeOptions<3>;

// Of ConvOptions or ConvTransposeOptions.
template <class Derived, class Options>
class RUSH_API ConvImpl : public Cloneable<Derived> {
 public:
  explicit ConvImpl(const Options& options);
  template <class... Args>
    requires MakesOptions<Options, Args...>
  explicit ConvImpl(Args&&... args) : ConvImpl(Options(std::forward<Args>(args)...)) {}
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  Options options;
  Tensor weight, bias;
};

#define RUSH_CONV(Name)                                                    \
  class RUSH_API Name##Impl : public ConvImpl<Name##Impl, Name##Options> { \
   public:                                                                 \
    using ConvImpl<Name##Impl, Name##Options>::ConvImpl;                   \
  };                                                                       \
  RUSH_MODULE(Name)
RUSH_CONV(Conv1d);
RUSH_CONV(Conv2d);
RUSH_CONV(Conv3d);
RUSH_CONV(ConvTranspose1d);
RUSH_CONV(ConvTranspose2d);
RUSH_CONV(ConvTranspose3d);
#undef RUSH_CONV

}  // namespace rush::nn
