#include "jit/interpreter.h"

#include <deque>

#include "core/interrupt.h"
#include "core/modes.h"
#include "jit/mode_scope.h"
#include "jit/print.h"
#include "ops/framework/boxing.h"

namespace rush::jit {
namespace {

class Run {
 public:
  Run(const Graph& graph, const std::string& method, const Tensors& tensors,
      std::vector<Tensor>& values)
      : graph_(graph), method_(method), tensors_(tensors), values_(values) {}

  IValue operator()(const std::vector<IValue>& inputs) {
    check(inputs.size() == graph_.inputs.size(), ErrorKind::Type, method_, "expected ",
          graph_.inputs.size(), " inputs, got ", inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i)
      take(graph_.inputs[i], graph_.inputs[i].structure, inputs[i]);
    for (size_t i = 0; i < graph_.symbols.size(); ++i) {
      const auto [value, dim] = graph_.symbols[i];
      check(int64_t(dim) < values_[value].dim(), ErrorKind::Shape, method_, "an input has ",
            values_[value].dim(), " dimensions, fewer than in the trace");
      symbols_[i] = values_[value].sizes()[dim];
    }
    part(0, graph_.body.size());
    return give(graph_.output);
  }

  void part(size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) {
      const Instruction& instruction = graph_.body[i];
      if (i % 16 == 15) check_interrupt();
      try {
        execute(instruction);
      } catch (const Error& e) {
        if (!graph_.lines.empty())
          throw Error(e.kind(), concat(e.message(), " (replayed)", at_source(graph_.lines[i])));
        throw Error(e.kind(), concat(e.message(), "; in instruction ", i, " of the program's ",
                                     method_, ": ", shown(instruction)));
      }
    }
  }

 private:
  void take(const Input& input, const Structure& s, const IValue& v) {
    const bool container = v.kind() >= IValue::Kind::Tuple;
    const size_t given = container ? v.elements().size() : 0;
    check(s.kind == v.kind() && s.items.size() == given, ErrorKind::Type, method_, "the input '",
          input.name, "' must be packed as in the trace: ", kind_text(s.kind, s.items.size()),
          " was there, now it is ", kind_text(v.kind(), given));
    if (s.kind == IValue::Kind::Tensor) values_[s.place.index] = v.toTensor();
    for (size_t k = 0; k < s.items.size(); ++k)
      take(input, s.items[k], s.kind == IValue::Kind::Dict ? v.at(s.keys[k]) : v.elements()[k]);
  }
  static std::string kind_text(IValue::Kind kind, size_t items) {
    const std::string name = kind_name(kind);
    return kind < IValue::Kind::Tuple ? name : concat(name, " of ", items, " items");
  }

  const Tensor& at(const Place& p) const {
    if (p.kind == Place::Kind::Value) return values_[p.index];
    return p.kind == Place::Kind::State ? tensors_.state[p.index] : tensors_.constants[p.index];
  }

  int64_t number(const SizeInt& n) const {
    int64_t sum = 0;
    bool fits = true;
    for (size_t k = 0; k < std::size(n.c); ++k) {
      int64_t term = n.c[k];
      for (size_t s = 0; s < kMostSymbols; ++s) {
        if (k >> s & 1) fits = !__builtin_mul_overflow(term, symbols_[s], &term) && fits;
      }
      fits = !__builtin_add_overflow(sum, term, &sum) && fits;
    }
    check(fits, ErrorKind::Overflow, method_, "a size is too large");
    return sum;
  }
  void fill(Value& v, const SizeInts& sizes, const ArgSpec& spec) {
    if (spec.kind == ArgKind::Int) return v.set(number(sizes[0]));
    if (spec.kind == ArgKind::Scalar) return v.set(Scalar(number(sizes[0])));
    if (spec.kind == ArgKind::Operand) return v.own(wrap_number(Scalar(number(sizes[0]))));
    Dims& numbers = lists_.emplace_back();
    for (const SizeInt& n : sizes) numbers.push_back(number(n));
    v.borrow(IntList(numbers));
  }

  void fill(Value& v, const Argument& argument, const ArgSpec& spec, const Tensor& number) {
    if (const auto* place = std::get_if<Place>(&argument)) {
      const Tensor& t = at(*place);
      if (t.defined()) v.borrow(t.impl());
      return;
    }
    if (const auto* places = std::get_if<Places>(&argument)) {
      std::vector<Tensor> list;
      list.reserve(places->size());
      for (const auto& place : *places) list.push_back(place ? at(*place) : Tensor());
      return v.own(std::move(list));
    }
    std::visit(
        [&]<class T>(const T& x) {
          if constexpr (std::is_same_v<T, std::monostate>) {
          } else if constexpr (std::is_same_v<T, Scalar>) {
            if (spec.kind == ArgKind::Scalar)
              v.set(x);
            else
              v.borrow(number.impl());
          } else if constexpr (std::is_same_v<T, SizeInts>) {
            fill(v, x, spec);
          } else if constexpr (std::is_same_v<T, std::string>) {
            v.borrow(std::string_view(x));
          } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
            v.borrow(IntList(x));
          } else if constexpr (std::is_same_v<T, std::vector<double>>) {
            v.borrow(std::span<const double>(x));
          } else {
            v.set(x);
          }
        },
        std::get<Literal>(argument));
  }

  void execute(const Instruction& i) {
    if (!i.plain || !plain_) [[unlikely]] {
      scope_.enter(i.modes);
      plain_ = i.plain;
    }
    args_.clear();
    for (size_t k = 0; k < i.args.size(); ++k)
      fill(args_.emplace_back(), i.args[k], i.op->args[k], i.numbers[k]);
    results_.resize(i.results.size());
    i.op->boxed(args_.data(), results_.data());
    for (size_t k = 0; k < i.results.size(); ++k) keep(i, i.results[k], results_[k]);
    results_.clear();
    args_.clear();
    if (!lists_.empty()) lists_.clear();
    for (const uint32_t value : i.last_uses) values_[value] = Tensor();
  }

  void keep(const Instruction& i, const Result& result, Value& v) {
    if (const auto* one = std::get_if<uint32_t>(&result)) {
      if (v.tag() != Value::Tag::Tensor && !v.is_none()) [[unlikely]]
        fail(ErrorKind::Runtime, i.op->name, "a result of this program is a tensor, not so now");
      values_[*one] = v.is_none() ? Tensor() : v.take_tensor();
      check_sizes(i, *one);
    } else if (const auto* list = std::get_if<std::vector<uint32_t>>(&result)) {
      check(v.tag() == Value::Tag::Tensors && v.tensors().size() == list->size(),
            ErrorKind::Runtime, i.op->name, "this program has the ", list->size(),
            " tensors that its example inputs gave, now there are ",
            v.tag() == Value::Tag::Tensors ? v.tensors().size() : 0);
      for (size_t k = 0; k < list->size(); ++k) {
        values_[(*list)[k]] = v.tensors()[k];
        check_sizes(i, (*list)[k]);
      }
    }
  }
  // Python may have read the sizes, so a recording holds for these only.
  void check_sizes(const Instruction& i, uint32_t value) const {
    if (graph_.sizes.empty() || !values_[value].defined()) return;
    check(values_[value].sizes() == graph_.sizes[value], ErrorKind::Runtime, i.op->name,
          "a result of a frozen function had shape ", graph_.sizes[value],
          " when it was recorded and has ", values_[value].sizes(),
          " now: sizes that depend on values cannot be frozen; compile it without mode=\"frozen\"");
  }

  IValue give(const Structure& s) const {
    if (s.kind == IValue::Kind::None) return {};
    if (s.kind == IValue::Kind::Tensor) return at(s.place);
    IValue::Items items;
    items.reserve(s.items.size());
    for (const Structure& item : s.items) items.push_back(give(item));
    if (s.kind == IValue::Kind::Dict) return IValue::dict(s.keys, std::move(items));
    return s.kind == IValue::Kind::Tuple ? IValue::tuple(std::move(items))
                                         : IValue::list(std::move(items));
  }

  const Graph& graph_;
  const std::string& method_;
  const Tensors& tensors_;
  std::vector<Tensor>& values_;
  int64_t symbols_[kMostSymbols] = {};
  std::vector<Value> args_, results_;
  std::deque<Dims> lists_;  // what args_ borrows
  ModeScope scope_;
  bool plain_ = true;  // no mode of the program is set
};

}  // namespace

IValue run(const Graph& graph, const std::string& method, const Tensors& tensors,
           const std::vector<IValue>& inputs) {
  std::vector<Tensor> values(graph.num_values);
  return Run(graph, method, tensors, values)(inputs);
}

void run_part(const Graph& graph, const std::string& method, const Tensors& tensors,
              std::vector<Tensor>& values, size_t first, size_t last) {
  internal_assert(graph.symbols.empty() && values.size() == graph.num_values,
                  "a part runs over the values of its graph");
  Run(graph, method, tensors, values).part(first, last);
}

}  // namespace rush::jit
