#include "jit/json.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <unordered_set>

#include "core/error.h"

namespace rush::jit {
namespace {

constexpr int kMostDepth = 300;

class Parser {
 public:
  Parser(std::string_view text, const std::string& what) : text_(text), what_(what) {}

  Json run() {
    Json v = value(0);
    skip_space();
    require(at_ == text_.size(), "something follows the end");
    return v;
  }

 private:
  template <class... Parts>
  void require(bool ok, const Parts&... parts) const {
    check(ok, ErrorKind::Runtime, what_, "not valid JSON at byte ", at_, ": ", parts...);
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    if (peek() != c || at_ == text_.size()) return false;
    ++at_;
    return true;
  }
  void skip_space() {
    while (at_ < text_.size() && std::strchr(" \t\n\r", text_[at_]) && text_[at_]) ++at_;
  }
  void word(std::string_view w) {
    require(text_.substr(at_, w.size()) == w, "a value was expected");
    at_ += w.size();
  }

  Json value(int depth) {
    require(depth < kMostDepth, "it is nested more than ", kMostDepth, " deep");
    skip_space();
    switch (peek()) {
      case '{':
        return object(depth);
      case '[':
        return array(depth);
      case '"':
        return Json(string());
      case 't':
        word("true");
        return Json(true);
      case 'f':
        word("false");
        return Json(false);
      case 'n':
        word("null");
        return Json();
      default:
        return number();
    }
  }

  Json object(int depth) {
    ++at_;
    Json::Object members;
    std::unordered_set<std::string> keys;
    skip_space();
    if (take('}')) return Json(std::move(members));
    do {
      skip_space();
      require(peek() == '"', "a key was expected");
      std::string key = string();
      require(keys.insert(key).second, "the key '", key, "' is there twice");
      skip_space();
      require(take(':'), "':' was expected");
      Json item = value(depth + 1);
      members.emplace_back(std::move(key), std::move(item));
      skip_space();
    } while (take(','));
    require(take('}'), "',' or '}' was expected");
    return Json(std::move(members));
  }

  Json array(int depth) {
    ++at_;
    Json::Array items;
    skip_space();
    if (take(']')) return Json(std::move(items));
    do {
      items.push_back(value(depth + 1));
      skip_space();
    } while (take(','));
    require(take(']'), "',' or ']' was expected");
    return Json(std::move(items));
  }

  bool digits() {
    const size_t from = at_;
    while (peek() >= '0' && peek() <= '9') ++at_;
    return at_ > from;
  }
  Json number() {
    const size_t from = at_;
    take('-');
    const bool zero = peek() == '0';
    const size_t first = at_;
    require(digits() && (!zero || at_ == first + 1), "a value was expected");
    bool whole = true;
    if (take('.')) {
      whole = false;
      require(digits(), "digits must follow the point");
    }
    if (peek() == 'e' || peek() == 'E') {
      whole = false;
      ++at_;
      if (!take('+')) take('-');
      require(digits(), "an exponent needs digits");
    }
    const char *begin = text_.data() + from, *end = text_.data() + at_;
    if (whole) {
      int64_t n = 0;
      const auto [stop, error] = std::from_chars(begin, end, n);
      require(error == std::errc() && stop == end, "the integer does not fit into 64 bits");
      return Json(n);
    }
    double d = 0;
    const auto [stop, error] = std::from_chars(begin, end, d);
    require(error == std::errc() && stop == end, "the number is out of range");
    return Json(d);
  }

  std::string string() {
    ++at_;
    std::string out;
    for (;;) {
      require(at_ < text_.size(), "a string has no end");
      const auto c = static_cast<unsigned char>(text_[at_]);
      if (c == '"') {
        ++at_;
        return out;
      }
      require(c >= 0x20, "a control character stands in a string");
      if (c == '\\')
        escape(out);
      else if (c < 0x80)
        out += text_[at_++];
      else
        utf8(out);
    }
  }
  uint32_t hex4() {
    uint32_t code = 0;
    for (int i = 0; i < 4; ++i) {
      const char c = peek();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      require(digit >= 0, "\\u needs four hexadecimal digits");
      code = code * 16 + uint32_t(digit);
      ++at_;
    }
    return code;
  }
  void escape(std::string& out) {
    ++at_;
    const char c = peek();
    constexpr const char *from = "\"\\/bfnrt", *to = "\"\\/\b\f\n\r\t";
    const char* found = c ? std::strchr(from, c) : nullptr;
    ++at_;
    if (found) {
      out += to[found - from];
      return;
    }
    require(c == 'u', "an unknown escape");
    uint32_t code = hex4();
    if (code >= 0xD800 && code < 0xDC00) {
      require(take('\\') && take('u'), "half of a surrogate pair");
      const uint32_t low = hex4();
      require(low >= 0xDC00 && low < 0xE000, "half of a surrogate pair");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else {
      require(code < 0xD800 || code >= 0xE000, "half of a surrogate pair");
    }
    put_utf8(out, code);
  }
  static void put_utf8(std::string& out, uint32_t code) {
    if (code < 0x80) {
      out += char(code);
      return;
    }
    const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    constexpr uint32_t lead[] = {0, 0xC0, 0xE0, 0xF0};
    out += char(lead[more] | (code >> (6 * more)));
    for (int i = more - 1; i >= 0; --i) out += char(0x80 | ((code >> (6 * i)) & 0x3F));
  }
  void utf8(std::string& out) {
    const size_t length = utf8_length(text_, at_);
    require(length > 0, "a string is not UTF-8");
    out.append(text_.substr(at_, length));
    at_ += length;
  }

  std::string_view text_;
  const std::string& what_;
  size_t at_ = 0;
};

void write_string(std::string& to, std::string_view s) {
  to += '"';
  for (const char c : s) {
    if (c == '"' || c == '\\') {
      to += '\\';
      to += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      constexpr const char* hex = "0123456789abcdef";
      to += "\\u00";
      to += hex[c >> 4];
      to += hex[c & 15];
    } else {
      to += c;
    }
  }
  to += '"';
}

}  // namespace

size_t utf8_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned char c = byte(0);
  if (c < 0x80) return 1;
  const size_t more = c >= 0xF0 && c < 0xF5   ? 3
                      : c >= 0xE0 && c < 0xF0 ? 2
                      : c >= 0xC2 && c < 0xE0 ? 1
                                              : 0;
  if (more == 0 || at + more >= text.size()) return 0;
  uint32_t code = c & (0x3Fu >> more);
  for (size_t i = 1; i <= more; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3F);
  }
  constexpr uint32_t least[] = {0, 0x80, 0x800, 0x10000};
  const bool valid = code >= least[more] && code < 0x110000 && !(code >= 0xD800 && code < 0xE000);
  return valid ? more + 1 : 0;
}

Json Json::parse(std::string_view text, const std::string& what) {
  return Parser(text, what).run();
}

std::string Json::text() const {
  std::string out;
  write(out);
  return out;
}

const Json* Json::find(std::string_view key) const {
  const Object* members = object();
  if (!members) return nullptr;
  for (const auto& [name, value] : *members) {
    if (name == key) return &value;
  }
  return nullptr;
}

void Json::write(std::string& to) const {
  if (is_null()) {
    to += "null";
  } else if (const bool* b = boolean()) {
    to += *b ? "true" : "false";
  } else if (const int64_t* i = integer()) {
    to += std::to_string(*i);
  } else if (const double* d = real()) {
    internal_assert(std::isfinite(*d), "JSON has no word for this number");
    char buffer[32];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, *d).ptr;
    const std::string_view digits(buffer, size_t(end - buffer));
    to += digits;
    if (digits.find_first_of(".e") == std::string_view::npos) to += ".0";
  } else if (const std::string* s = string()) {
    write_string(to, *s);
  } else if (const Array* items = array()) {
    to += '[';
    for (size_t k = 0; k < items->size(); ++k) {
      if (k) to += ',';
      (*items)[k].write(to);
    }
    to += ']';
  } else {
    const Object& members = *object();
    to += '{';
    for (size_t k = 0; k < members.size(); ++k) {
      if (k) to += ',';
      write_string(to, members[k].first);
      to += ':';
      members[k].second.write(to);
    }
    to += '}';
  }
}

}  // namespace rush::jit
