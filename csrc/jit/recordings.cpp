// recordings.cpp: do two recordings of one function do the same?
#include <bit>
#include <cstring>

#include "jit/print.h"
#include "jit/recorder.h"
#include "ops/ops.h"

namespace rush::jit {
namespace {

uint64_t bits(double x) { return std::bit_cast<uint64_t>(x); }
bool same_number(const Scalar& a, const Scalar& b) {
  const auto x = a.to<complex<double>>(), y = b.to<complex<double>>();
  return a.category() == b.category() && bits(x.re) == bits(y.re) && bits(x.im) == bits(y.im) &&
         (!a.is_integer() || a.to_int() == b.to_int());
}

class Comparison {
 public:
  Comparison(const Recording& one, const Recording& other, std::vector<FloatPlace>* floats)
      : one_(one), other_(other), floats_(floats) {}

  std::optional<Parting> run() {
    const auto &a = one_.graph.body, &b = other_.graph.body;
    for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
      at_ = i;
      if (!same(a[i], b[i])) return parting(shown(a[i]), shown(b[i]));
    }
    at_ = std::min(a.size(), b.size());
    if (a.size() != b.size())
      return parting(at_ < a.size() ? shown(a[at_]) : "the end of the function",
                     at_ < b.size() ? shown(b[at_]) : "the end of the function");
    if (!same(one_.graph.output, other_.graph.output))
      return parting("the results that were returned", "others");
    if (one_.state.size() != other_.state.size() ||
        !std::equal(one_.state.begin(), one_.state.end(), other_.state.begin(),
                    [](const Tensor& x, const Tensor& y) { return x.is_same(y); }))
      return parting("the tensors that the function reads from outside", "others");
    return std::nullopt;
  }

 private:
  Parting parting(const std::string& one, const std::string& other) const {
    return {at_,
            concat(one, at_source(line(one_)), " before, now ", other, at_source(line(other_)))};
  }
  SourcePoint line(const Recording& r) const {
    return at_ < r.graph.lines.size() ? r.graph.lines[at_] : SourcePoint{};
  }

  bool same_float(double x, double y, size_t item) {
    if (bits(x) == bits(y)) return true;
    if (!floats_) return false;
    floats_->push_back({at_, argument_, item, x, y});
    return true;
  }
  bool same_literal(const Literal& a, const Literal& b) {
    if (a.index() != b.index()) return false;
    return std::visit(
        [&]<class T>(const T& x) {
          const T& y = std::get<T>(b);
          if constexpr (std::is_same_v<T, Scalar>) {
            if (x.is_floating() && y.is_floating())
              return same_float(x.to_double(), y.to_double(), 0);
            return same_number(x, y);
          } else if constexpr (std::is_same_v<T, double>) {
            return same_float(x, y, 0);
          } else if constexpr (std::is_same_v<T, std::vector<double>>) {
            if (x.size() != y.size()) return false;
            for (size_t k = 0; k < x.size(); ++k) {
              if (!same_float(x[k], y[k], k)) return false;
            }
            return true;
          } else {
            return x == y;
          }
        },
        a);
  }
  // Constants are known by their values: each recording has made its own.
  bool same_constant(uint32_t i, uint32_t k) const {
    const Tensor &one = one_.constants[i], &other = other_.constants[k];
    if (one.sizes() != other.sizes() || one.dtype() != other.dtype() ||
        one.device() != other.device())
      return false;
    const Tensor a = to(one, Device{DeviceType::CPU}), b = to(other, Device{DeviceType::CPU});
    if (!a.is_contiguous() || !b.is_contiguous()) return false;
    return std::memcmp(a.data(), b.data(), size_t(a.nbytes())) == 0;
  }
  bool same_place(const Place& a, const Place& b) const {
    if (a.kind != b.kind) return false;
    if (a.kind == Place::Kind::Constant) return same_constant(a.index, b.index);
    if (a.kind == Place::Kind::State) return one_.state[a.index].is_same(other_.state[b.index]);
    return a.index == b.index;
  }
  bool same_argument(const Argument& a, const Argument& b) {
    if (a.index() != b.index()) return false;
    if (const auto* literal = std::get_if<Literal>(&a))
      return same_literal(*literal, std::get<Literal>(b));
    if (const auto* place = std::get_if<Place>(&a)) return same_place(*place, std::get<Place>(b));
    const Places &x = std::get<Places>(a), &y = std::get<Places>(b);
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), [&](const auto& p, const auto& q) {
      return p.has_value() == q.has_value() && (!p || same_place(*p, *q));
    });
  }
  bool same(const Instruction& a, const Instruction& b) {
    if (a.op != b.op || a.results != b.results || !(a.modes == b.modes)) return false;
    for (argument_ = 0; argument_ < a.args.size(); ++argument_) {
      if (!same_argument(a.args[argument_], b.args[argument_])) return false;
    }
    return true;
  }
  bool same(const Structure& a, const Structure& b) const {
    if (a.kind != b.kind || a.items.size() != b.items.size()) return false;
    if (a.kind == IValue::Kind::Tensor) return same_place(a.place, b.place);
    for (size_t k = 0; k < a.items.size(); ++k) {
      if (!same(a.items[k], b.items[k])) return false;
    }
    return true;
  }

  const Recording &one_, &other_;
  std::vector<FloatPlace>* floats_;
  size_t at_ = 0, argument_ = 0;
};

}  // namespace

std::optional<Parting> compare(const Recording& one, const Recording& other,
                               std::vector<FloatPlace>* floats) {
  return Comparison(one, other, floats).run();
}

void set_float(Graph& graph, const FloatPlace& place, double value) {
  Instruction& i = graph.body[place.instruction];
  Literal& literal = std::get<Literal>(i.args[place.argument]);
  if (auto* list = std::get_if<std::vector<double>>(&literal)) {
    (*list)[place.item] = value;
  } else if (auto* one = std::get_if<double>(&literal)) {
    *one = value;
  } else {
    literal = Scalar(value);
    if (i.numbers[place.argument].defined()) i.numbers[place.argument] = wrap_number(value);
  }
}

}  // namespace rush::jit
