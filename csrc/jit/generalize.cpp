#include "jit/generalize.h"

#include <algorithm>

namespace rush::jit {
namespace {

using Ints = std::vector<int64_t>;

// The whole numbers that an argument consists of, if it consists of such.
std::optional<Ints> whole_numbers(const Argument& a) {
  const auto* literal = std::get_if<Literal>(&a);
  if (!literal) return std::nullopt;
  if (const auto* list = std::get_if<Ints>(literal)) return *list;
  if (const auto* one = std::get_if<int64_t>(literal)) return Ints{*one};
  const auto* scalar = std::get_if<Scalar>(literal);
  if (scalar && scalar->is_integer()) return Ints{scalar->to_int()};
  return std::nullopt;
}

bool same_scalar(const Scalar& a, const Scalar& b) {
  const auto x = a.to<complex<double>>(), y = b.to<complex<double>>();
  return a.category() == b.category() && x.re == y.re && x.im == y.im;
}

bool same(const Literal& a, const Literal& b) {
  const auto *x = std::get_if<Scalar>(&a), *y = std::get_if<Scalar>(&b);
  if (x && y) return same_scalar(*x, *y);
  if (x || y || a.index() != b.index()) return false;
  return std::visit(
      [&]<class T>(const T& v) {
        if constexpr (std::is_same_v<T, Scalar>)
          return false;
        else
          return v == std::get<T>(b);
      },
      a);
}

bool same_but_numbers(const Argument& a, const Argument& b) {
  if (a.index() != b.index()) return false;
  if (const auto numbers = whole_numbers(a)) {
    const auto others = whole_numbers(b);
    return others && others->size() == numbers->size();
  }
  if (const auto* literal = std::get_if<Literal>(&a)) return same(*literal, std::get<Literal>(b));
  if (const auto* place = std::get_if<Place>(&a)) return *place == std::get<Place>(b);
  return std::get<Places>(a) == std::get<Places>(b);
}

bool same_structure(const Structure& a, const Structure& b) {
  return a.kind == b.kind && (a.kind != IValue::Kind::Tensor || a.place == b.place) &&
         a.keys == b.keys &&
         std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), same_structure);
}

bool same_program(const Graph& a, const Graph& b) {
  const auto same_instruction = [](const Instruction& x, const Instruction& y) {
    return x.op == y.op && x.results == y.results && x.modes == y.modes &&
           std::equal(x.args.begin(), x.args.end(), y.args.begin(), y.args.end(), same_but_numbers);
  };
  return a.num_values == b.num_values && same_structure(a.output, b.output) &&
         std::equal(a.body.begin(), a.body.end(), b.body.begin(), b.body.end(), same_instruction);
}

bool same_constants(const Code& a, const Code& b) {
  return std::equal(a.constants.begin(), a.constants.end(), b.constants.begin(), b.constants.end(),
                    [](const Tensor& x, const Tensor& y) { return x.sizes() == y.sizes(); });
}

// The polynomial through the values of one number: at the sizes, with s, t and both one larger.
// None where its factors are no int64.
std::optional<SizeInt> through(std::span<const int64_t> v, std::span<const int64_t> sizes) {
  using Wide = __int128;  // products of int64 fit
  const Wide s = sizes[0], t = sizes.size() == 2 ? sizes[1] : 0;
  Wide c[4] = {};
  if (sizes.size() == 2) {
    c[3] = Wide(v[3]) - v[2] - v[1] + v[0];
    c[2] = Wide(v[2]) - v[0] - c[3] * s;
  }
  c[1] = Wide(v[1]) - v[0] - c[3] * t;
  c[0] = Wide(v[0]) - c[1] * s - c[2] * t - c[3] * s * t;
  SizeInt n;
  for (size_t k = 0; k < 4; ++k) {
    n.c[k] = int64_t(c[k]);
    if (n.c[k] != c[k]) return std::nullopt;
  }
  return n;
}

}  // namespace

bool may_follow(const Code& code, const std::string& method, int64_t size) {
  for (const Instruction& i : code.graph(method).body) {
    for (const Argument& a : i.args) {
      for (const int64_t n : whole_numbers(a).value_or(Ints())) {
        if (size > 0 && n >= size && n % size == 0) return true;
      }
    }
  }
  return false;
}

CodePointer generalize(const Code& base, const std::string& method,
                       std::span<const CodePointer> grown, std::span<const Symbol> symbols,
                       std::span<const int64_t> sizes) {
  internal_assert(symbols.size() <= kMostSymbols && sizes.size() == symbols.size() &&
                      grown.size() + 1 == size_t{1} << symbols.size(),
                  "one trace per set of grown symbols");
  auto code = std::make_shared<Code>(base);
  Graph* graph = nullptr;
  for (Code::Method& m : code->methods) {
    if (m.name == method) graph = &m.graph;
  }
  internal_assert(graph, "the method is there");
  for (const CodePointer& other : grown) {
    if (!same_program(*graph, other->graph(method)) || !same_constants(base, *other))
      return nullptr;
  }
  graph->symbols.assign(symbols.begin(), symbols.end());
  bool any = false;
  for (size_t i = 0; i < graph->body.size(); ++i) {
    for (size_t k = 0; k < graph->body[i].args.size(); ++k) {
      Argument& a = graph->body[i].args[k];
      const auto numbers = whole_numbers(a);
      if (!numbers) continue;
      SizeInts found;
      bool follows = false;
      for (size_t n = 0; n < numbers->size(); ++n) {
        Ints values{(*numbers)[n]};
        for (const CodePointer& other : grown)
          values.push_back((*whole_numbers(other->graph(method).body[i].args[k]))[n]);
        const auto number = through(values, sizes);
        if (!number) return nullptr;
        found.push_back(*number);
        follows = follows || !(found.back() == SizeInt{{values[0]}});
      }
      if (follows) a = Literal(std::move(found));
      any = any || follows;
    }
  }
  if (!any) return nullptr;
  code->verify();
  return code;
}

}  // namespace rush::jit
