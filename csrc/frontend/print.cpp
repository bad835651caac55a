// print.cpp: tensors on a stream, as matrices of numbers with type and sizes below them.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "core/modes.h"
#include "core/tensor.h"
#include "ops/ops.h"

namespace rush {

// Declared by frontend/tensor.h, whose methods the library itself does not have.
RUSH_API std::ostream& operator<<(std::ostream& os, const Tensor& t);
RUSH_API void print(const Tensor& t);

namespace {

std::string class_name(const Tensor& t) {
  static constexpr const char* names[kDTypeCount] = {"Bool",
                                                     "Byte",
                                                     "Char",
                                                     "Short",
                                                     "Int",
                                                     "Long",
                                                     "UInt16",
                                                     "UInt32",
                                                     "UInt64",
                                                     "Half",
                                                     "BFloat16",
                                                     "Float",
                                                     "Double",
                                                     "ComplexFloat",
                                                     "ComplexDouble",
                                                     "Float8_e4m3fn",
                                                     "Float8_e5m2",
                                                     "Float8_e4m3fnuz",
                                                     "Float8_e5m2fnuz",
                                                     "Float8_e8m0fnu",
                                                     "ComplexHalf"};
  const char* where = t.is_cuda() ? "CUDA" : t.is_meta() ? "Meta" : "CPU";
  return std::string(where) + names[int(t.dtype())] + "Type";
}

// How all numbers of a tensor are written: the same places behind the point, or with exponents.
struct Format {
  bool whole = true, exponents = false;

  void see(double v) {
    if (!std::isfinite(v)) return;
    whole = whole && v == std::floor(v);
    const double size = std::abs(v);
    exponents = exponents || size >= 1e5 || (size != 0 && size < 1e-4);
  }
  std::string operator()(double v) const {
    if (std::isnan(v)) return "nan";
    if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
    char text[64];
    const char* how = exponents ? "%.4e" : whole ? "%.0f" : "%.4f";
    std::snprintf(text, sizeof text, how, v);
    return text;
  }
};

std::vector<std::string> texts_of(const Tensor& flat) {
  const int64_t n = flat.numel();
  const char* at = static_cast<const char*>(flat.data());
  const auto number = [&](int64_t i) {
    return load_scalar(at + i * flat.element_size(), flat.dtype());
  };
  std::vector<std::string> texts;
  texts.reserve(size_t(n));
  if (is_integral(flat.dtype()) || flat.dtype() == DType::Bool) {
    for (int64_t i = 0; i < n; ++i) texts.push_back(std::to_string(number(i).to<int64_t>()));
    return texts;
  }
  Format format;
  for (int64_t i = 0; i < n; ++i) {
    const auto z = number(i).to<complex<double>>();
    format.see(z.re);
    format.see(z.im);
  }
  for (int64_t i = 0; i < n; ++i) {
    const auto z = number(i).to<complex<double>>();
    std::string text = format(z.re);
    if (flat.is_complex()) text += (std::signbit(z.im) ? "" : "+") + format(z.im) + "j";
    texts.push_back(std::move(text));
  }
  return texts;
}

void write_padded(std::ostream& os, const std::string& text, size_t width) {
  for (size_t n = text.size(); n < width; ++n) os << ' ';
  os << text;
}

// One matrix of a tensor with more than two dimensions: "(1,.,.) = ", counted from one.
void write_place(std::ostream& os, const Dims& sizes, int64_t matrix) {
  std::vector<int64_t> place;
  for (int64_t d = int64_t(sizes.size()) - 3; d >= 0; --d) {
    place.push_back(matrix % sizes[size_t(d)]);
    matrix /= sizes[size_t(d)];
  }
  os << '(';
  for (size_t i = place.size(); i-- > 0;) os << place[i] + 1 << ',';
  os << ".,.) = \n";
}

void write_numbers(std::ostream& os, const Tensor& t) {
  const Dims& sizes = t.sizes();
  const std::vector<std::string> texts = texts_of(t);
  size_t width = 0;
  for (const std::string& text : texts) width = std::max(width, text.size());
  const int64_t columns = sizes.size() < 2 ? 1 : sizes.back();
  const int64_t rows = sizes.size() < 2 ? t.numel() : sizes[sizes.size() - 2];
  for (int64_t first = 0, matrix = 0; first < t.numel(); first += rows * columns, ++matrix) {
    if (sizes.size() > 2) write_place(os, sizes, matrix);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        os << (sizes.size() == 0 ? "" : c ? "  " : " ");
        write_padded(os, texts[size_t(first + r * columns + c)], sizes.size() ? width : 0);
      }
      os << '\n';
    }
  }
}

}  // namespace

std::ostream& operator<<(std::ostream& os, const Tensor& t) {
  if (!t.defined()) return os << "[ Tensor (undefined) ]";
  const NoGradGuard no_grad;
  std::ostringstream text;
  if (!t.is_meta()) write_numbers(text, contiguous(to(detach(t), Device{})));
  text << "[ " << class_name(t) << '{';
  for (uint32_t d = 0; d < t.sizes().size(); ++d) text << (d ? "," : "") << t.sizes()[d];
  return os << text.str() << "} ]";
}

void print(const Tensor& t) { std::cout << t << std::endl; }

}  // namespace rush
