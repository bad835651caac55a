#include "ops/framework/custom_schema.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>

namespace rush {
namespace {

struct TypeName {
  std::string_view text;
  ArgKind kind;
};
constexpr TypeName kTypes[] = {
    {"Tensor", ArgKind::Tensor}, {"int", ArgKind::Int},
    {"SymInt", ArgKind::Int},    {"float", ArgKind::Float},
    {"bool", ArgKind::Bool},     {"str", ArgKind::String},
    {"Scalar", ArgKind::Scalar}, {"ScalarType", ArgKind::DType},
    {"Device", ArgKind::Device}, {"MemoryFormat", ArgKind::MemoryFormat},
    {"Layout", ArgKind::Layout},
};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Reads a schema from left to right.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  CustomSchema schema() {
    CustomSchema s;
    s.name = word("the operator's name");
    if (text_.substr(at_).starts_with("::")) {
      at_ += 2;
      s.space = std::move(s.name);
      s.name = word("the operator's name");
    }
    if (take('.')) s.overload = word("the overload's name");
    need('(');
    bool keyword_only = false;
    while (!take(')')) {
      if (!s.parameters.empty() || keyword_only) need(',');
      if (!keyword_only && take('*')) {
        keyword_only = true;
        continue;
      }
      s.parameters.push_back(parameter());
      CustomParameter& p = s.parameters.back();
      p.keyword_only = keyword_only;
      for (size_t i = 0; i + 1 < s.parameters.size(); ++i) {
        if (s.parameters[i].name == p.name) wrong(concat("there are two arguments '", p.name, "'"));
        if (!keyword_only && s.parameters[i].has_default && !p.has_default)
          wrong(concat("'", p.name, "' has no default, but one before it has"));
      }
    }
    space();
    if (!text_.substr(at_).starts_with("->")) wrong("expected '->' and the results");
    at_ += 2;
    if (take('(')) {
      while (!take(')')) {
        if (!s.results.empty()) need(',');
        s.results.push_back(result());
      }
    } else {
      s.results.push_back(result());
    }
    space();
    if (at_ != text_.size()) wrong("nothing may follow the results");
    connect(s);
    return s;
  }

 private:
  [[noreturn]] void wrong(const std::string& why) const {
    fail(ErrorKind::Runtime, "", "the schema of an operator cannot be read: ", why, "\n", text_,
         "\n", std::string(std::min(at_, text_.size()), ' '), "~ <--- HERE");
  }
  void space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool take(char c) {
    space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void need(char c) {
    if (!take(c)) wrong(concat("expected '", std::string(1, c), "'"));
  }
  std::string word(const char* what) {
    space();
    const size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    if (begin == at_ || std::isdigit(static_cast<unsigned char>(text_[begin]))) {
      at_ = begin;
      wrong(concat("expected ", what));
    }
    return std::string(text_.substr(begin, at_ - begin));
  }

  // A type with its alias annotation, `(a!)`, and what makes it optional or a list.
  struct Type {
    ArgKind kind;
    bool optional = false, holes = false, bools = false, mutated = false;
    uint8_t broadcast = 0;
    std::string alias;
  };
  Type type() {
    space();
    const size_t begin = at_;
    const std::string name = word("a type");
    const TypeName* found = nullptr;
    for (const TypeName& t : kTypes) {
      if (t.text == name) found = &t;
    }
    if (!found) {
      at_ = begin;
      wrong(concat("there is no type '", name,
                   "'; there are Tensor, int, SymInt, float, bool, str, Scalar, ScalarType, "
                   "Device, Layout and MemoryFormat, lists of the first five, and T?"));
    }
    Type t;
    t.kind = found->kind;
    if (t.kind == ArgKind::Tensor && at_ < text_.size() && text_[at_] == '(') alias(t);
    if (take('?')) t.optional = true;
    if (take('[')) {
      list(t);
      if (at_ < text_.size() && text_[at_] == '(') alias(t);  // Tensor[](a!)
    }
    return t;
  }
  void alias(Type& t) {
    need('(');
    t.alias = word("the name of an alias set");
    if (take('!')) t.mutated = true;
    if (text_.substr(at_).find("->") < text_.substr(at_).find(')')) at_ = text_.find(')', at_);
    need(')');
  }
  void list(Type& t) {
    t.holes = t.optional;
    t.optional = false;
    switch (t.kind) {
      case ArgKind::Tensor:
        t.kind = ArgKind::Tensors;
        break;
      case ArgKind::Bool:
        t.bools = true;
        [[fallthrough]];
      case ArgKind::Int:
        t.kind = ArgKind::Ints;
        break;
      case ArgKind::Float:
        t.kind = ArgKind::Floats;
        break;
      default:
        wrong("there are lists of Tensor, int, SymInt, float and bool only");
    }
    if (t.holes && t.kind != ArgKind::Tensors) wrong("only lists of tensors may have None inside");
    space();
    const size_t begin = at_;
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) ++at_;
    unsigned size = 0;
    if (at_ > begin) {
      std::from_chars(text_.data() + begin, text_.data() + at_, size);
      if (size == 0 || size > 255) wrong("a list has 1 to 255 items");
    }
    if (t.kind == ArgKind::Ints) t.broadcast = uint8_t(size);
    need(']');
    if (take('?')) t.optional = true;
  }

  CustomParameter parameter() {
    const Type t = type();
    CustomParameter p;
    p.kind = t.kind;
    p.optional = t.optional;
    p.holes = t.holes;
    p.bools = t.bools;
    p.mutated = t.mutated;
    p.alias = t.alias;
    p.broadcast = t.broadcast;
    p.name = word("the argument's name");
    if (take('=')) default_of(p);
    return p;
  }
  void default_of(CustomParameter& p) {
    space();
    const size_t begin = at_;
    p.has_default = true;
    if (take('[')) {
      list_default(p);
    } else if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) {
      const char quote = text_[at_];
      const size_t end = text_.find(quote, at_ + 1);
      if (end == std::string_view::npos) wrong("the string does not end");
      const std::string s(text_.substr(at_ + 1, end - at_ - 1));
      if (p.kind == ArgKind::Device)
        p.default_value = parse_device(s);
      else if (p.kind == ArgKind::String)
        p.default_value = s;
      else
        wrong(concat("'", p.name, "' is no string"));
      at_ = end + 1;
    } else {
      plain_default(p);
    }
    p.default_text = text_.substr(begin, at_ - begin);
  }
  void list_default(CustomParameter& p) {
    std::vector<int64_t> ints;
    std::vector<double> floats;
    const bool is_float = p.kind == ArgKind::Floats;
    if (!is_float && p.kind != ArgKind::Ints) wrong(concat("'", p.name, "' is no list of numbers"));
    for (bool first = true; !take(']'); first = false) {
      if (!first) need(',');
      const Scalar s = number(token());
      if (is_float)
        floats.push_back(s.to_double());
      else if (s.is_floating())
        wrong("expected a whole number");
      else
        ints.push_back(s.to_int());
    }
    if (is_float)
      p.default_value = std::move(floats);
    else
      p.default_value = std::move(ints);
  }
  std::string token() {
    space();
    const size_t begin = at_;
    while (at_ < text_.size() &&
           (is_word(text_[at_]) || text_[at_] == '.' || text_[at_] == '-' || text_[at_] == '+'))
      ++at_;
    if (begin == at_) wrong("expected a value");
    return std::string(text_.substr(begin, at_ - begin));
  }
  Scalar number(const std::string& t) {
    if (t == "True" || t == "False") return t == "True";
    const char* end = t.data() + t.size();
    int64_t i;
    if (const auto r = std::from_chars(t.data(), end, i); r.ptr == end && r.ec == std::errc())
      return Scalar(long(i));
    char* stop = nullptr;
    const double d = std::strtod(t.c_str(), &stop);
    if (stop != t.c_str() + t.size()) wrong(concat("'", t, "' is no number"));
    return d;
  }
  void plain_default(CustomParameter& p) {
    std::string t = token();
    if (t == "None") {
      if (!p.optional) wrong(concat("'", p.name, "' must not be None; write the type with '?'"));
      return;
    }
    switch (p.kind) {
      case ArgKind::DType: {
        if (t.starts_with("torch.")) t.erase(0, 6);
        for (size_t i = 0; i < std::size(kDTypes); ++i) {
          if (kDTypes[i].name == t) {
            p.default_value = DType(i);
            return;
          }
        }
        wrong(concat("there is no dtype '", t, "'"));
      }
      case ArgKind::MemoryFormat:
        if (t.starts_with("torch.")) t.erase(0, 6);
        if (t == "contiguous_format")
          p.default_value = MemoryFormat::Contiguous;
        else if (t == "preserve_format")
          p.default_value = MemoryFormat::Preserve;
        else if (t == "channels_last")
          p.default_value = MemoryFormat::ChannelsLast;
        else
          wrong(concat("there is no memory format '", t, "'"));
        return;
      case ArgKind::Bool:
        if (t != "True" && t != "False") wrong("expected True or False");
        [[fallthrough]];
      case ArgKind::Float:
      case ArgKind::Scalar:
        p.default_value = number(t);
        return;
      case ArgKind::Int:
        p.default_value = number(t);
        if (std::get<Scalar>(p.default_value).is_floating()) wrong("expected a whole number");
        return;
      case ArgKind::Ints:
        if (!p.broadcast) wrong("expected a list");
        p.default_value = std::vector<int64_t>(p.broadcast, number(t).to_int());
        return;
      default:
        wrong(concat("an argument of this type cannot have the default ", t));
    }
  }

  CustomResult result() {
    const Type t = type();
    if (t.holes || t.bools || (t.optional && t.kind != ArgKind::Tensor))
      wrong("this type is none of those that results may have");
    constexpr ArgKind possible[] = {ArgKind::Tensor, ArgKind::Tensors, ArgKind::Scalar,
                                    ArgKind::Int,    ArgKind::Float,   ArgKind::Bool};
    if (std::find(std::begin(possible), std::end(possible), t.kind) == std::end(possible))
      wrong("results are Tensor, Tensor?, Tensor[], Scalar, int, float or bool");
    CustomResult r;
    r.kind = t.kind;
    r.optional = t.optional;
    r.alias = t.alias;
    space();
    if (at_ < text_.size() && is_word(text_[at_])) r.name = word("the result's name");
    return r;
  }

  void connect(CustomSchema& s) const {
    for (CustomResult& r : s.results) {
      if (r.alias.empty() || r.kind != ArgKind::Tensor) continue;
      for (size_t i = 0; i < s.parameters.size(); ++i) {
        const CustomParameter& p = s.parameters[i];
        if (p.mutated && p.kind == ArgKind::Tensor && p.alias == r.alias) r.returned = int(i);
      }
    }
  }

  std::string_view text_;
  size_t at_ = 0;
};

std::string name_of(ArgKind kind, bool bools) {
  switch (kind) {
    case ArgKind::Tensors:
      return "Tensor";
    case ArgKind::Ints:
      return bools ? "bool" : "int";
    case ArgKind::Floats:
      return "float";
    default:
      break;
  }
  for (const TypeName& t : kTypes) {
    if (t.kind == kind) return std::string(t.text);
  }
  return "?";
}
bool is_list(ArgKind kind) {
  return kind == ArgKind::Tensors || kind == ArgKind::Ints || kind == ArgKind::Floats;
}

}  // namespace

std::string type_text(const CustomParameter& p) {
  std::string text = name_of(p.kind, p.bools);
  if (!p.alias.empty()) text += concat("(", p.alias, p.mutated ? "!)" : ")");
  if (is_list(p.kind)) {
    if (p.holes) text += "?";
    text += p.broadcast ? concat("[", int(p.broadcast), "]") : "[]";
  }
  return p.optional ? text + "?" : text;
}

std::string type_text(const CustomResult& r) {
  std::string text = name_of(r.kind, false);
  if (!r.alias.empty()) text += concat("(", r.alias, r.returned >= 0 ? "!)" : ")");
  if (is_list(r.kind)) text += "[]";
  return r.optional ? text + "?" : text;
}

std::string CustomSchema::text() const {
  std::string out = qualified();
  if (!overload.empty()) out += "." + overload;
  out += "(";
  bool keyword_only = false;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const CustomParameter& p = parameters[i];
    if (i) out += ", ";
    if (p.keyword_only && !keyword_only) out += "*, ";
    keyword_only = p.keyword_only;
    out += type_text(p) + " " + p.name;
    if (p.has_default) out += "=" + p.default_text;
  }
  out += ") -> ";
  const bool several = results.size() != 1;
  if (several) out += "(";
  for (size_t i = 0; i < results.size(); ++i) {
    if (i) out += ", ";
    out += type_text(results[i]);
    if (!results[i].name.empty()) out += " " + results[i].name;
  }
  return several ? out + ")" : out;
}

bool CustomSchema::mutates() const {
  for (const CustomParameter& p : parameters) {
    if (p.mutated) return true;
  }
  return false;
}

CustomSchema CustomSchema::parse(std::string_view text) { return Reader(text).schema(); }

}  // namespace rush
