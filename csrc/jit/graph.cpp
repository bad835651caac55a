#include "jit/graph.h"

#include <algorithm>
#include <cstring>

#include "ops/framework/boxing.h"

namespace rush::jit {

Literal literal_of(const Value& v) {
  switch (v.tag()) {
    case Value::Tag::Scalar:
      return v.scalar();
    case Value::Tag::Int:
      return v.integer();
    case Value::Tag::Ints:
      return std::vector<int64_t>(v.ints().begin(), v.ints().end());
    case Value::Tag::Float:
      return v.real();
    case Value::Tag::Floats:
      return std::vector<double>(v.floats().begin(), v.floats().end());
    case Value::Tag::Bool:
      return v.boolean();
    case Value::Tag::String:
      return std::string(v.string());
    case Value::Tag::DType:
      return v.dtype();
    case Value::Tag::Device:
      return v.device();
    case Value::Tag::Layout:
      return v.layout();
    case Value::Tag::MemoryFormat:
      return v.memory_format();
    default:
      return {};
  }
}

const OpEntry* find_entry(std::string_view name, std::string_view overload, Form form) {
  for (const OpEntry& entry : find_ops(name)) {
    if (entry.overload == overload && entry.form == form) return &entry;
  }
  return nullptr;
}

namespace {

bool takes_literal(const ArgSpec& spec, const Literal& literal) {
  const auto is = [&]<class T>(std::type_identity<T>) {
    return std::holds_alternative<T>(literal);
  };
  if (is(std::type_identity<std::monostate>())) return spec.optional;
  if (const auto* sizes = std::get_if<SizeInts>(&literal)) {
    if (spec.kind == ArgKind::Ints) return true;
    return sizes->size() == 1 && (spec.kind == ArgKind::Int || spec.kind == ArgKind::Scalar ||
                                  spec.kind == ArgKind::Operand);
  }
  switch (spec.kind) {
    case ArgKind::Tensor:  // a number that stands for a weak 0-d tensor
    case ArgKind::Operand:
    case ArgKind::Scalar:
      return is(std::type_identity<Scalar>());
    case ArgKind::Tensors:
    case ArgKind::Generator:
      return false;
    case ArgKind::Int:
      return is(std::type_identity<int64_t>());
    case ArgKind::Ints:
      return is(std::type_identity<std::vector<int64_t>>());
    case ArgKind::Float:
      return is(std::type_identity<double>());
    case ArgKind::Floats:
      return is(std::type_identity<std::vector<double>>());
    case ArgKind::Bool:
      return is(std::type_identity<bool>());
    case ArgKind::String:
      return is(std::type_identity<std::string>());
    case ArgKind::DType:
      return is(std::type_identity<DType>());
    case ArgKind::Device:
      return is(std::type_identity<Device>());
    case ArgKind::Layout:
      return is(std::type_identity<Layout>());
    case ArgKind::MemoryFormat:
      return is(std::type_identity<MemoryFormat>());
  }
  return false;
}

}  // namespace

bool takes(const ArgSpec& spec, const Argument& argument) {
  if (const auto* literal = std::get_if<Literal>(&argument)) return takes_literal(spec, *literal);
  if (std::holds_alternative<Place>(argument))
    return spec.kind == ArgKind::Tensor || spec.kind == ArgKind::Operand;
  if (spec.kind != ArgKind::Tensors) return false;
  for (const auto& place : std::get<Places>(argument)) {
    if (!place && !spec.holes) return false;
  }
  return true;
}

// Ops that are only parts of others rely on what these have checked, so a program may call only what
// Python can: public ops, and those that its indexing goes through.
bool may_be_called(const OpEntry& entry) {
  constexpr std::string_view indexing[] = {"alias", "cast", "index", "slice"};
  return entry.is_method || entry.is_function ||
         std::find(std::begin(indexing), std::end(indexing), entry.name) != std::end(indexing);
}

namespace {

// Walks a graph in the order in which it runs.
class Verifier {
 public:
  Verifier(Graph& graph, const std::string& method, size_t num_state, size_t num_constants,
           bool any_op)
      : graph_(graph),
        method_(method),
        num_state_(num_state),
        num_constants_(num_constants),
        any_op_(any_op) {}

  void run() {
    // Every value is one of a structure or a result, so a claim of more is a lie; the sum is
    // bounded by what was read.
    require(graph_.num_values <= count_definitions(), "it claims ", graph_.num_values, " values");
    user_.assign(graph_.num_values, kUndefined);
    for (const Input& input : graph_.inputs) define(input.structure, 0);
    require(graph_.symbols.size() <= kMostSymbols, "it follows ", graph_.symbols.size(), " sizes");
    for (const Symbol& s : graph_.symbols) {
      require(s.value < graph_.num_values && user_[s.value] == kInput && s.dim < kMaxDims,
              "it follows a size of something that is no input");
    }
    for (uint32_t i = 0; i < graph_.body.size(); ++i) {
      at_ = i;
      check_instruction(graph_.body[i]);
    }
    at_.reset();
    for (Instruction& i : graph_.body) prepare(i);
    use(graph_.output, 0);
    for (const uint32_t user : user_) require(user != kUndefined, "a value is defined by nothing");
    place_last_uses();
  }

 private:
  static constexpr uint32_t kUndefined = UINT32_MAX, kOutput = UINT32_MAX - 1, kInput = kOutput - 1;

  template <class... Parts>
  void require(bool ok, const Parts&... parts) const {
    if (ok) [[likely]]
      return;
    const std::string where =
        at_ ? concat("instruction ", *at_, " of '", method_, "': ") : concat("'", method_, "': ");
    fail(ErrorKind::Runtime, "program", where, parts...);
  }

  static size_t count(const Structure& s) {
    size_t n = s.kind == IValue::Kind::Tensor;
    for (const Structure& item : s.items) n += count(item);
    return n;
  }
  size_t count_definitions() const {
    size_t n = 0;
    for (const Input& input : graph_.inputs) n += count(input.structure);
    for (const Instruction& i : graph_.body) {
      for (const Result& r : i.results) {
        if (const auto* list = std::get_if<std::vector<uint32_t>>(&r)) n += list->size();
        n += std::holds_alternative<uint32_t>(r);
      }
    }
    return n;
  }

  void define(uint32_t value, uint32_t by) {
    require(value < graph_.num_values, "there is no value ", value, ", only ", graph_.num_values);
    require(user_[value] == kUndefined, "value ", value, " is defined twice");
    user_[value] = by;
  }
  void define(const Structure& s, int depth) {
    check_shape_of(s, depth);
    if (s.kind == IValue::Kind::Tensor) {
      require(s.place.kind == Place::Kind::Value, "an input must be a value");
      define(s.place.index, kInput);
    }
    for (const Structure& item : s.items) define(item, depth + 1);
  }
  void check_shape_of(const Structure& s, int depth) const {
    require(depth < kMostNesting, "containers are nested more than ", kMostNesting, " deep");
    require(s.kind >= IValue::Kind::Tuple || s.items.empty(), "only containers have items");
    require(s.keys.size() == (s.kind == IValue::Kind::Dict ? s.items.size() : 0),
            "a dict needs one key per item");
  }

  void use(const Place& p, uint32_t by) {
    switch (p.kind) {
      case Place::Kind::Value:
        require(p.index < graph_.num_values && user_[p.index] != kUndefined, "value ", p.index,
                " is used before it is defined");
        user_[p.index] = by;
        return;
      case Place::Kind::State:
        require(p.index < num_state_, "there is no state ", p.index, ", only ", num_state_);
        return;
      case Place::Kind::Constant:
        require(p.index < num_constants_, "there is no constant ", p.index, ", only ",
                num_constants_);
        return;
    }
    require(false, "a place is of no kind");
  }
  void use(const Structure& s, int depth) {
    check_shape_of(s, depth);
    if (s.kind == IValue::Kind::Tensor) use(s.place, kOutput);
    for (const Structure& item : s.items) use(item, depth + 1);
  }

  void check_instruction(const Instruction& i) {
    require(i.op != nullptr, "it calls no op");
    require(any_op_ || may_be_called(*i.op), i.op->name, " is only called by other operators");
    require(i.args.size() == i.op->args.size(), i.op->name, " takes ", i.op->args.size(),
            " arguments, here are ", i.args.size());
    for (size_t k = 0; k < i.args.size(); ++k) {
      const ArgSpec& spec = i.op->args[k];
      require(takes(spec, i.args[k]), "the argument '", spec.name, "' of ", i.op->name,
              " does not take what is there");
      check_sizes(i.args[k]);
      if (const auto* place = std::get_if<Place>(&i.args[k])) use(*place, *at_);
      if (const auto* places = std::get_if<Places>(&i.args[k])) {
        for (const auto& place : *places) {
          if (place) use(*place, *at_);
        }
      }
    }
    require(i.op->form != Form::Out || !is_none(i.args.back()), i.op->name, " has no 'out'");
    require(i.results.size() == i.op->num_results, i.op->name, " has ", int(i.op->num_results),
            " results, here are ", i.results.size());
    for (const Result& r : i.results) {
      if (const auto* one = std::get_if<uint32_t>(&r)) define(*one, *at_);
      if (const auto* list = std::get_if<std::vector<uint32_t>>(&r)) {
        for (const uint32_t value : *list) define(value, *at_);
      }
    }
    for (const auto& dtype : i.modes.autocast) {
      require(!dtype || is_floating(*dtype), "autocast needs a floating dtype");
    }
  }
  void check_sizes(const Argument& a) const {
    const auto* literal = std::get_if<Literal>(&a);
    const auto* sizes = literal ? std::get_if<SizeInts>(literal) : nullptr;
    if (!sizes) return;
    const size_t known = size_t{1} << graph_.symbols.size();
    for (const SizeInt& s : *sizes) {
      for (size_t k = known; k < std::size(s.c); ++k)
        require(s.c[k] == 0, "a number follows a size that the program does not");
    }
  }
  static bool is_none(const Argument& a) {
    const auto* literal = std::get_if<Literal>(&a);
    return literal && std::holds_alternative<std::monostate>(*literal);
  }

  // What each run would work out again.
  static void prepare(Instruction& i) {
    i.plain = i.modes == Modes{};
    i.numbers.assign(i.args.size(), Tensor());
    for (size_t k = 0; k < i.args.size(); ++k) {
      const auto* literal = std::get_if<Literal>(&i.args[k]);
      const auto* number = literal ? std::get_if<Scalar>(literal) : nullptr;
      if (number && i.op->args[k].kind != ArgKind::Scalar) i.numbers[k] = wrap_number(*number);
    }
  }

  void place_last_uses() {
    for (Instruction& i : graph_.body) i.last_uses.clear();
    for (uint32_t value = 0; value < graph_.num_values; ++value) {
      if (user_[value] < graph_.body.size()) graph_.body[user_[value]].last_uses.push_back(value);
    }
  }

  Graph& graph_;
  const std::string& method_;
  const size_t num_state_, num_constants_;
  const bool any_op_;
  std::optional<uint32_t> at_;
  std::vector<uint32_t> user_;  // of each value: who used it last, or who defined it
};

}  // namespace

void verify(Graph& graph, const std::string& method, size_t num_state, size_t num_constants,
            bool any_op) {
  Verifier(graph, method, num_state, num_constants, any_op).run();
}

}  // namespace rush::jit
