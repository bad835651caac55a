#include "jit/ivalue.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>

namespace rush::jit {
namespace {

struct StringObject final : IValue::Object {
  std::string text;
};
struct ItemsObject final : IValue::Object {
  IValue::Items items;
  std::shared_ptr<const TupleNames> names;
};

ItemsObject* items_object(IValue::Items items) {
  auto* o = new ItemsObject;
  o->items = std::move(items);
  return o;
}

constexpr size_t kSmallDict = 8;  // as many keys are compared one by one

}  // namespace

IValue::IValue(std::string v) : kind_(Kind::String) {
  auto* o = new StringObject;
  o->text = std::move(v);
  object_ = o;
}

IValue IValue::tuple(Items items, std::shared_ptr<const TupleNames> names) {
  ItemsObject* o = items_object(std::move(items));
  o->names = std::move(names);
  return IValue(o, Kind::Tuple);
}

IValue IValue::list(Items items) { return IValue(items_object(std::move(items)), Kind::List); }

IValue IValue::object(Items items, std::shared_ptr<const TupleNames> names) {
  check(names && names->fields.size() == items.size(), ErrorKind::Value, "IValue.object",
        "an object has one item for each attribute");
  ItemsObject* o = items_object(std::move(items));
  o->names = std::move(names);
  return IValue(o, Kind::Object);
}

IValue IValue::dict(Items keys, Items items) {
  check(keys.size() == items.size(), ErrorKind::Value, "IValue.dict", keys.size(), " keys for ",
        items.size(), " items");
  auto* o = new DictObject;
  IValue made(o, Kind::Dict);
  for (size_t i = 0; i < keys.size(); ++i) {
    check(keys[i].is_number() || keys[i].isString(), ErrorKind::Type, "IValue.dict",
          "a key is a number or a string, not ", kind_name(keys[i].kind()));
    o->set(keys[i], std::move(items[i]));
  }
  return made;
}

IValue IValue::dict(std::vector<std::string> keys, Items items) {
  Items boxed;
  for (std::string& key : keys) boxed.emplace_back(std::move(key));
  return dict(std::move(boxed), std::move(items));
}

IValue IValue::number(const Scalar& s) {
  check(!s.is_complex(), ErrorKind::NotImplemented, "program",
        "programs know no complex numbers besides those in tensors");
  if (s.is_bool()) return s.to<bool>();
  if (s.is_integer()) return s.to_int();
  return s.to_double();
}

void IValue::retain_object() const { object_->retain(); }
void IValue::release() noexcept {
  if (kind_ == Kind::Tensor)
    tensor_->release();
  else
    object_->release();
}

const char* kind_name(IValue::Kind kind) {
  constexpr const char* names[] = {
      "None",     "a tensor", "a bool",          "an int",  "a float", "a string", "a dtype",
      "a device", "a layout", "a memory format", "a tuple", "a list",  "a dict",   "an object"};
  return names[size_t(kind)];
}

namespace {
void expect(bool ok, const char* function, IValue::Kind kind) {
  check(ok, ErrorKind::Type, function, "the value is ", kind_name(kind));
}
}  // namespace

const rush::Tensor& IValue::toTensor() const {
  expect(isTensor(), "toTensor", kind_);
  return tensor();
}
bool IValue::toBool() const {
  expect(isBool(), "toBool", kind_);
  return boolean();
}
int64_t IValue::toInt() const {
  expect(isInt(), "toInt", kind_);
  return i_;
}
double IValue::toDouble() const {
  expect(isDouble(), "toDouble", kind_);
  return d_;
}
const std::string& IValue::toStringRef() const {
  expect(isString(), "toStringRef", kind_);
  return string();
}
rush::Device IValue::toDevice() const {
  expect(isDevice(), "toDevice", kind_);
  return device_;
}
rush::DType IValue::toDType() const {
  expect(kind_ == Kind::DType, "toDType", kind_);
  return rush::DType(i_);
}
const IValue::Items& IValue::elements() const {
  expect(kind_ >= Kind::Tuple, "elements", kind_);
  return kind_ == Kind::Dict ? dict().items : items();
}
std::vector<std::string> IValue::keys() const {
  expect(kind_ == Kind::Dict, "keys", kind_);
  std::vector<std::string> found;
  for (const IValue& key : dict().keys) found.push_back(key.toStringRef());
  return found;
}
const IValue& IValue::at(std::string_view key) const {
  const bool named = (isTuple() || isObject()) && names();
  expect(named || kind_ == Kind::Dict, "at", kind_);
  if (named) {
    const auto& fields = names()->fields;
    const auto found = std::find(fields.begin(), fields.end(), key);
    check(found != fields.end(), ErrorKind::Index, "at", names()->name, " has no '", key, "'");
    return items()[size_t(found - fields.begin())];
  }
  const DictObject& d = dict();
  for (size_t i = 0; i < d.keys.size(); ++i) {
    if (d.keys[i].isString() && d.keys[i].string() == key) return d.items[i];
  }
  fail(ErrorKind::Index, "at", "the dict has no key '", key, "'");
}

const std::string& IValue::string() const { return static_cast<StringObject*>(object_)->text; }
IValue::Items& IValue::items() const { return static_cast<ItemsObject*>(object_)->items; }
DictObject& IValue::dict() const { return *static_cast<DictObject*>(object_); }
const TupleNames* IValue::names() const { return static_cast<ItemsObject*>(object_)->names.get(); }

// Dicts --------------------------------------------------------------------------------------------

size_t DictObject::Hash::operator()(const IValue& v) const {
  if (v.isString()) return std::hash<std::string>()(v.string());
  return v.isDouble() ? std::hash<double>()(v.real()) : std::hash<int64_t>()(v.integer());
}
bool DictObject::Equal::operator()(const IValue& a, const IValue& b) const { return equal(a, b); }

size_t DictObject::find(const IValue& key) const {
  if (keys.size() > kSmallDict) {
    const auto found = index_.find(key);
    return found == index_.end() ? keys.size() : found->second;
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    if (equal(keys[i], key)) return i;
  }
  return keys.size();
}

void DictObject::set(const IValue& key, IValue item) {
  const size_t at = find(key);
  if (at < keys.size()) {
    items[at] = std::move(item);
    return;
  }
  keys.push_back(key);
  items.push_back(std::move(item));
  if (keys.size() == kSmallDict + 1)
    index_all();
  else if (keys.size() > kSmallDict)
    index_.emplace(key, at);
}

void DictObject::erase(size_t at) {
  keys.erase(keys.begin() + ptrdiff_t(at));
  items.erase(items.begin() + ptrdiff_t(at));
  index_all();
}

void DictObject::clear() {
  keys.clear();
  items.clear();
  index_.clear();
}

void DictObject::index_all() {
  index_.clear();
  if (keys.size() <= kSmallDict) return;
  for (size_t i = 0; i < keys.size(); ++i) index_.emplace(keys[i], i);
}

// Comparing and showing ----------------------------------------------------------------------------

bool equal(const IValue& a, const IValue& b) {
  using Kind = IValue::Kind;
  if (a.is_number() && b.is_number()) {
    if (a.isDouble() || b.isDouble()) return a.scalar().to_double() == b.scalar().to_double();
    return a.integer() == b.integer();
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::None:
      return true;
    case Kind::String:
      return a.string() == b.string();
    case Kind::Device:
      return a.device() == b.device();
    case Kind::Tuple:
    case Kind::List: {
      if (a.items().size() != b.items().size()) return false;
      for (size_t i = 0; i < a.items().size(); ++i) {
        if (!equal(a.items()[i], b.items()[i])) return false;
      }
      return true;
    }
    case Kind::Dict: {
      const DictObject &x = a.dict(), &y = b.dict();
      if (x.keys.size() != y.keys.size()) return false;
      for (size_t i = 0; i < x.keys.size(); ++i) {
        const size_t at = y.find(x.keys[i]);
        if (at == y.keys.size() || !equal(x.items[i], y.items[at])) return false;
      }
      return true;
    }
    default:
      return a.is(b);
  }
}

namespace {

// As Python's repr of a float: the shortest digits that read as the same number.
std::string shown_float(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d > 0 ? "inf" : "-inf";
  const double size = std::fabs(d);
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, d,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific);
  std::string text(buffer, end.ptr);
  if (plain && text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::string quoted_string(const std::string& s) {
  const char quote =
      s.find('\'') != std::string::npos && s.find('"') == std::string::npos ? '"' : '\'';
  std::string text(1, quote);
  for (const char c : s) {
    if (c == quote || c == '\\')
      (text += '\\') += c;
    else if (c == '\n')
      text += "\\n";
    else if (c == '\t')
      text += "\\t";
    else if (c == '\r')
      text += "\\r";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      constexpr char digits[] = "0123456789abcdef";
      ((text += "\\x") += digits[c >> 4 & 15]) += digits[c & 15];
    } else
      text += c;
  }
  return text += quote;
}

}  // namespace

std::string shown(const IValue& v, bool quoted) {
  using Kind = IValue::Kind;
  switch (v.kind()) {
    case Kind::None:
      return "None";
    case Kind::Tensor: {
      const Tensor& t = v.tensor();
      return concat("tensor(shape=", IntList(t.sizes()), ", dtype=", t.dtype(),
                    ", device=", t.device(), ")");
    }
    case Kind::Bool:
      return v.boolean() ? "True" : "False";
    case Kind::Int:
      return concat(v.integer());
    case Kind::Double:
      return shown_float(v.real());
    case Kind::String:
      return quoted ? quoted_string(v.string()) : v.string();
    case Kind::DType:
      return concat("torch.", DType(v.integer()));
    case Kind::Device:
      return quoted ? concat("device(type='", name(v.device().type), "', index=", v.device().index,
                             ")")
                    : concat(v.device());
    case Kind::Layout:
      return "torch.strided";
    case Kind::MemoryFormat:
      return concat("torch.", MemoryFormat(v.integer()));
    case Kind::Dict: {
      std::string text = "{";
      const DictObject& d = v.dict();
      for (size_t i = 0; i < d.keys.size(); ++i)
        text += concat(i ? ", " : "", shown(d.keys[i], true), ": ", shown(d.items[i], true));
      return text + "}";
    }
    case Kind::Tuple:
    case Kind::List:
    case Kind::Object:
      break;
  }
  const bool tuple = v.kind() != Kind::List;
  const TupleNames* names = v.names();
  std::string text = names ? names->name + "(" : tuple ? "(" : "[";
  const IValue::Items& items = v.items();
  for (size_t i = 0; i < items.size(); ++i)
    text += concat(i ? ", " : "", names ? names->fields[i] + "=" : "", shown(items[i], true));
  if (tuple && !names && items.size() == 1) text += ",";
  return text + (tuple ? ")" : "]");
}

}  // namespace rush::jit
