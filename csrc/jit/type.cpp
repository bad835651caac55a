#include "jit/type.h"

#include <algorithm>

#include "jit/graph.h"

namespace rush::jit {
namespace {

using Kind = Type::Kind;

constexpr std::string_view kNames[] = {"None",  "Tensor", "bool",   "int",    "float",
                                       "str",   "dtype",  "Device", "layout", "memory_format",
                                       "Tuple", "List",   "Dict",   "Object", "Union"};
constexpr size_t kMostItems = 4096;

TypePointer make(Kind kind, std::vector<TypePointer> items = {}) {
  auto t = std::make_shared<Type>();
  t->kind = kind;
  t->items = std::move(items);
  return t;
}

class TypeParser {
 public:
  TypeParser(std::string_view text, bool variables) : text_(text), variables_(variables) {}

  TypePointer whole() {
    TypePointer t = type(0);
    require(at_ == text_.size(), "more text follows");
    return t;
  }

 private:
  void require(bool ok, const char* why) const {
    check(ok, ErrorKind::Runtime, "program", "'", text_.substr(0, 200), "' is no type: ", why);
  }
  bool next_is(char c) const { return at_ < text_.size() && text_[at_] == c; }
  bool skip(std::string_view what) {
    if (!text_.substr(at_).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }
  static bool in_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }
  std::string word() {
    const size_t begin = at_;
    while (at_ < text_.size() && in_word(text_[at_])) ++at_;
    require(at_ > begin, "a name was expected");
    return std::string(text_.substr(begin, at_ - begin));
  }

  TypePointer type(int depth) {
    require(depth < kMostNesting, "it is nested too deep");
    require(++count_ <= kMostItems, "it has too many parts");
    const std::string name = word();
    if (name == "NamedTuple") return named(depth, Kind::Tuple);
    if (name == "Object") return named(depth, Kind::Object);
    std::vector<TypePointer> items;
    if (skip("[")) {
      if (name == "Tuple" && skip("()]")) return make(Kind::Tuple);
      do items.push_back(type(depth + 1));
      while (skip(", "));
      require(skip("]"), "a bracket is missing");
    }
    if (name == "Optional") {
      require(items.size() == 1, "Optional has one item");
      items.push_back(make(Kind::None));
      return united(std::move(items));
    }
    if (name.size() == 1 && variables_) {
      auto t = std::make_shared<Type>();
      t->kind = Kind::Variable;
      t->variable = name;
      return t;
    }
    const auto* found = std::find(std::begin(kNames), std::end(kNames), name);
    require(found != std::end(kNames), "there is none of this name");
    const auto kind = Kind(found - std::begin(kNames));
    if (kind == Kind::Union) return united(std::move(items));
    if (kind == Kind::List) require(items.size() == 1, "a list has one type of items");
    if (kind == Kind::Dict) {
      require(items.size() == 2, "a dict has a type of keys and one of items");
      const Kind key = items[0]->kind;
      require(key == Kind::Int || key == Kind::Str || key == Kind::Float || key == Kind::Bool ||
                  key == Kind::Variable,
              "keys are numbers or strings");
    }
    if (kind == Kind::Tuple) require(!items.empty(), "the items of the tuple are missing");
    if (kind < Kind::Tuple) require(items.empty(), "it has no items");
    return make(kind, std::move(items));
  }

  TypePointer named(int depth, Kind kind) {
    auto names = std::make_shared<TupleNames>();
    std::vector<TypePointer> items;
    require(skip("["), "NamedTuple and Object need a name");
    names->name = word();
    while (skip("; ")) {
      names->fields.push_back(word());
      require(skip(": "), "a field needs a type");
      items.push_back(type(depth + 1));
    }
    require(skip("]"), "a bracket is missing");
    require(kind == Kind::Object || !items.empty(), "a NamedTuple has fields");
    auto t = std::make_shared<Type>();
    t->kind = kind;
    t->items = std::move(items);
    t->names = std::move(names);
    return t;
  }

  // One level, sorted by kind, each kind once: a value tells by its kind which one it is.
  TypePointer united(std::vector<TypePointer> given) {
    std::vector<TypePointer> items;
    for (const TypePointer& t : given) {
      if (t->kind == Kind::Union)
        items.insert(items.end(), t->items.begin(), t->items.end());
      else
        items.push_back(t);
    }
    std::stable_sort(items.begin(), items.end(),
                     [](const TypePointer& a, const TypePointer& b) { return a->kind < b->kind; });
    items.erase(std::unique(items.begin(), items.end(),
                            [](const TypePointer& a, const TypePointer& b) { return *a == *b; }),
                items.end());
    for (size_t i = 1; i < items.size(); ++i)
      require(items[i]->kind != items[i - 1]->kind,
              "of the types in a union, two cannot be told apart by their values");
    require(!items.empty(), "a union has items");
    return items.size() == 1 ? items[0] : make(Kind::Union, std::move(items));
  }

  std::string_view text_;
  bool variables_;
  size_t at_ = 0, count_ = 0;
};

bool is_class(const TupleNames& given, const TupleNames& wanted) {
  return given.name == wanted.name && given.fields == wanted.fields;
}

}  // namespace

bool Type::operator==(const Type& o) const {
  if (this == &o) return true;
  if (kind != o.kind || items.size() != o.items.size() || variable != o.variable) return false;
  if (bool(names) != bool(o.names)) return false;
  if (names && !is_class(*names, *o.names)) return false;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!(*items[i] == *o.items[i])) return false;
  }
  return true;
}

bool Type::is_optional() const { return kind == Kind::Union && items[0]->kind == Kind::None; }

TypePointer parse_type(std::string_view text, bool variables) {
  return TypeParser(text, variables).whole();
}

std::string shown(const Type& type) {
  if (type.kind == Kind::Variable) return type.variable;
  std::string text(kNames[size_t(type.kind)]);
  if (type.names) {
    text = (type.kind == Kind::Object ? "Object[" : "NamedTuple[") + type.names->name;
    for (size_t i = 0; i < type.items.size(); ++i)
      text += "; " + type.names->fields[i] + ": " + shown(*type.items[i]);
    return text + "]";
  }
  if (type.is_optional() && type.items.size() == 2)
    return "Optional[" + shown(*type.items[1]) + "]";
  if (type.items.empty()) return type.kind == Kind::Tuple ? "Tuple[()]" : text;
  const char* separator = "[";
  for (const TypePointer& item : type.items) text += std::exchange(separator, ", ") + shown(*item);
  return text + "]";
}

bool is_subtype(const Type& type, const Type& of) {
  if (type == of) return true;
  if (type.kind == Kind::Union)
    return std::all_of(type.items.begin(), type.items.end(),
                       [&](const TypePointer& t) { return is_subtype(*t, of); });
  if (of.kind == Kind::Union)
    return std::any_of(of.items.begin(), of.items.end(),
                       [&](const TypePointer& t) { return is_subtype(type, *t); });
  // A NamedTuple may stand for a tuple.
  if (type.kind != Kind::Tuple || of.kind != Kind::Tuple || of.names ||
      type.items.size() != of.items.size())
    return false;
  for (size_t i = 0; i < type.items.size(); ++i) {
    if (!is_subtype(*type.items[i], *of.items[i])) return false;
  }
  return true;
}

bool is_a(const IValue& value, const Type& type) {
  if (type.kind == Kind::Union)
    return std::any_of(type.items.begin(), type.items.end(),
                       [&](const TypePointer& t) { return is_a(value, *t); });
  if (size_t(value.kind()) != size_t(type.kind)) return false;
  if (type.kind < Kind::Tuple) return true;
  if (type.kind == Kind::Dict) {
    const DictObject& d = value.dict();
    const auto all = [](const IValue::Items& items, const Type& t) {
      return std::all_of(items.begin(), items.end(), [&](const IValue& v) { return is_a(v, t); });
    };
    return all(d.keys, *type.items[0]) && all(d.items, *type.items[1]);
  }
  const bool tuple = type.kind != Kind::List;  // or an object
  const IValue::Items& items = value.items();
  if (tuple && items.size() != type.items.size()) return false;
  if (type.kind == Kind::Object && !is_class(*value.names(), *type.names)) return false;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!is_a(items[i], *type.items[tuple ? i : 0])) return false;
  }
  return true;
}

IValue taken_as(const IValue& value, const Type& type, const std::string& what) {
  const auto refuse = [&] {
    fail(ErrorKind::Type, what, "expected ", shown(type), ", got ", kind_name(value.kind()));
  };
  if (type.kind == Kind::Union) {
    for (const TypePointer& t : type.items) {
      if (size_t(value.kind()) == size_t(t->kind)) return taken_as(value, *t, what);
    }
    for (const TypePointer& t : type.items) {
      if (t->kind == Kind::Float && value.isInt()) return taken_as(value, *t, what);
    }
    refuse();
  }
  if (type.kind == Kind::Float && value.isInt()) return double(value.integer());
  const bool sequence = type.kind == Kind::Tuple || type.kind == Kind::List;
  // A list may be given for a tuple and the reverse: callers have the one that is at hand.
  if (size_t(value.kind()) != size_t(type.kind) &&
      !(sequence && (value.isTuple() || value.isList())))
    refuse();
  if (type.kind < Kind::Tuple) return value;
  if (type.kind == Kind::Dict) {
    IValue::Items keys, items;
    const DictObject& d = value.dict();
    for (size_t i = 0; i < d.keys.size(); ++i) {
      keys.push_back(taken_as(d.keys[i], *type.items[0], what + ", a key"));
      items.push_back(taken_as(d.items[i], *type.items[1], what + ", an item"));
    }
    return IValue::dict(std::move(keys), std::move(items));
  }
  const bool object = type.kind == Kind::Object, tuple = type.kind == Kind::Tuple || object;
  // Tuples from Python have no names; what has them, as items of an Enum have, must have these.
  if (tuple && type.names && value.names() && !is_class(*value.names(), *type.names))
    fail(ErrorKind::Type, what, "expected ", shown(type), ", got ", shown(value));
  IValue::Items items;
  if (tuple && value.items().size() != type.items.size())
    fail(ErrorKind::Type, what, "expected ", shown(type), ", got ", value.items().size(), " items");
  for (size_t i = 0; i < value.items().size(); ++i) {
    const IValue& item = value.items()[i];
    const Type& of = *type.items[tuple ? i : 0];
    const bool leaf = of.kind < Kind::Tuple && size_t(of.kind) == size_t(item.kind());
    items.push_back(leaf     ? item
                    : object ? taken_as(item, of, concat(what, ".", type.names->fields[i]))
                             : taken_as(item, of, concat(what, ", item ", i)));
  }
  if (object) return IValue::object(std::move(items), type.names);
  return tuple ? IValue::tuple(std::move(items), type.names) : IValue::list(std::move(items));
}

bool is_plain(const Type& type) { return type.kind != Kind::Tensor && type.kind < Kind::Tuple; }

}  // namespace rush::jit
