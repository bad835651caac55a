// builtins_text.cpp: strings. They are UTF-8 and counted in characters, as Python does; upper and lower case,
// and the classes of characters, are those of ASCII.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "jit/builtin_rows.h"
#include "jit/json.h"

namespace rush::jit {
namespace {

using Items = IValue::Items;
constexpr size_t kMostText = size_t{1} << 32;

bool is_ascii(const std::string& s) {
  return std::all_of(s.begin(), s.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 128; });
}
// Where each character begins, and the end.
std::vector<size_t> starts(const std::string& s) {
  std::vector<size_t> found;
  for (size_t at = 0; at < s.size();) {
    found.push_back(at);
    at += std::max<size_t>(utf8_length(s, at), 1);
  }
  found.push_back(s.size());
  return found;
}
int64_t length(const std::string& s) {
  return is_ascii(s) ? int64_t(s.size()) : int64_t(starts(s).size()) - 1;
}
// The number of characters before a byte; -1 for npos.
int64_t character_at(const std::string& s, size_t byte) {
  return byte == std::string::npos ? -1 : length(s.substr(0, byte));
}
std::string character(const std::string& s, int64_t index) {
  const std::vector<size_t> at = starts(s);
  const size_t k = place_in(index, at.size() - 1, "string");
  return s.substr(at[k], at[k + 1] - at[k]);
}
std::string slice(const Args& a) {
  const std::string& s = a.s(0);
  const std::vector<size_t> at = starts(s);
  std::string found;
  for (const size_t k : slice_places(a, 1, at.size() - 1))
    found += s.substr(at[k], at[k + 1] - at[k]);
  return found;
}
std::string repeated(const std::string& s, int64_t n) {
  if (n <= 0 || s.empty()) return "";
  if (size_t(n) > kMostText / s.size())
    raise("MemoryError", ErrorKind::OutOfMemory, "the string is too long");
  std::string found;
  found.reserve(s.size() * size_t(n));
  for (int64_t k = 0; k < n; ++k) found += s;
  return found;
}

const std::string& in_ascii(const std::string& s, const char* what) {
  if (!is_ascii(s))
    raise_value(concat(what, ": programs know upper and lower case of ASCII only, got '", s, "'"));
  return s;
}
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_alpha(char c) { return is_upper(c) || is_lower(c); }
bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f); }
char to_upper(char c) { return is_lower(c) ? char(c - 32) : c; }
char to_lower(char c) { return is_upper(c) ? char(c + 32) : c; }
std::string mapped(std::string s, char (*f)(char)) {
  std::transform(s.begin(), s.end(), s.begin(), f);
  return s;
}
bool all_are(const std::string& s, bool (*f)(char)) {
  return !s.empty() && std::all_of(s.begin(), s.end(), f);
}
std::string titled(std::string s, bool first_only) {
  bool begins = true;
  for (char& c : s) {
    c = begins ? to_upper(c) : to_lower(c);
    begins = !first_only && !is_alpha(c);
  }
  return s;
}

std::string stripped(const Args& a, bool left, bool right) {
  const std::string& s = a.s(0);
  const std::vector<size_t> at = starts(s);
  const auto goes = [&](size_t k) {
    if (a[1].isNone()) return is_space(s[at[k]]);
    return a.s(1).find(s.substr(at[k], at[k + 1] - at[k])) != std::string::npos;
  };
  size_t begin = 0, end = at.size() - 1;
  while (left && begin < end && goes(begin)) ++begin;
  while (right && end > begin && goes(end - 1)) --end;
  return s.substr(at[begin], at[end] - at[begin]);
}
IValue split(const Args& a) {
  const std::string& s = a.s(0);
  int64_t left = a.i(2);
  Items parts;
  size_t at = 0;
  if (a[1].isNone()) {
    while (true) {
      while (at < s.size() && is_space(s[at])) ++at;
      if (at == s.size()) break;
      size_t end = at;
      if (left-- == 0) {
        end = s.size();
        while (end > at && is_space(s[end - 1])) --end;
      } else {
        while (end < s.size() && !is_space(s[end])) ++end;
      }
      parts.emplace_back(s.substr(at, end - at));
      if (left < 0 && a.i(2) >= 0) break;
      at = end;
    }
    return IValue::list(std::move(parts));
  }
  if (a.s(1).empty()) raise_value("empty separator");
  for (size_t found; left-- != 0 && (found = s.find(a.s(1), at)) != std::string::npos;) {
    parts.emplace_back(s.substr(at, found - at));
    at = found + a.s(1).size();
  }
  parts.emplace_back(s.substr(at));
  return IValue::list(std::move(parts));
}
IValue lines(const Args& a) {
  Items parts;
  const std::string& s = a.s(0);
  for (size_t at = 0; at < s.size();) {
    const size_t end = std::min(s.find_first_of("\r\n", at), s.size());
    parts.emplace_back(s.substr(at, end - at));
    at = end + (s.compare(end, 2, "\r\n") == 0 ? 2 : 1);
  }
  return IValue::list(std::move(parts));
}
std::string joined(const Args& a) {
  std::string text;
  for (size_t i = 0; i < a.list(1).size(); ++i) (text += i ? a.s(0) : "") += a.list(1)[i].string();
  return text;
}
std::string replaced(const Args& a) {
  const std::string &s = a.s(0), &old = a.s(1), &by = a.s(2);
  int64_t left = a.i(3);
  std::string text;
  if (old.empty()) {
    const std::vector<size_t> at = starts(s);
    for (size_t k = 0; k < at.size(); ++k) {
      if (left-- != 0) text += by;
      if (k + 1 < at.size()) text += s.substr(at[k], at[k + 1] - at[k]);
    }
    return text;
  }
  size_t at = 0;
  for (size_t found; left-- != 0 && (found = s.find(old, at)) != std::string::npos;) {
    (text += s.substr(at, found - at)) += by;
    at = found + old.size();
  }
  return text += s.substr(at);
}
int64_t count(const std::string& s, const std::string& part) {
  if (part.empty()) return length(s) + 1;
  int64_t n = 0;
  for (size_t at = 0; (at = s.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}
std::string padded(std::string s, int64_t width, const std::string& fill, int left_share) {
  const int64_t missing = width - length(s);
  if (length(fill) != 1)
    raise("TypeError", ErrorKind::Type, "The fill character must be exactly one character long");
  if (missing <= 0) return s;
  // 0: text first, 2: fill first, 1: in the middle, where the odd one goes as in Python.
  const int64_t before = left_share == 0   ? 0
                         : left_share == 2 ? missing
                                           : missing / 2 + (missing & width & 1);
  return repeated(fill, before) + s + repeated(fill, missing - before);
}
std::string zero_filled(const std::string& s, int64_t width) {
  const bool sign = !s.empty() && (s[0] == '-' || s[0] == '+');
  const int64_t missing = width - length(s);
  return missing <= 0 ? s : s.substr(0, sign) + repeated("0", missing) + s.substr(sign);
}
IValue characters(const std::string& s) {
  Items items;
  const std::vector<size_t> at = starts(s);
  for (size_t k = 0; k + 1 < at.size(); ++k) items.emplace_back(s.substr(at[k], at[k + 1] - at[k]));
  return IValue::list(std::move(items));
}
int64_t code_of(const std::string& s) {
  if (length(s) != 1) raise("TypeError", ErrorKind::Type, "ord() expected a character");
  const auto byte = [&](size_t k) { return int64_t(static_cast<unsigned char>(s[k])); };
  if (s.size() == 1) return byte(0);
  int64_t code = byte(0) & (0xff >> (s.size() + 1));
  for (size_t k = 1; k < s.size(); ++k) code = code << 6 | (byte(k) & 0x3f);
  return code;
}
std::string text_of_code(int64_t c) {
  if (c < 0 || c > 0x10ffff) raise_value("chr() arg not in range(0x110000)");
  if (c >= 0xd800 && c < 0xe000) raise_value("chr() of half a character");
  if (c < 0x80) return std::string(1, char(c));
  if (c < 0x800) return {char(0xc0 | c >> 6), char(0x80 | (c & 0x3f))};
  if (c < 0x10000)
    return {char(0xe0 | c >> 12), char(0x80 | (c >> 6 & 0x3f)), char(0x80 | (c & 0x3f))};
  return {char(0xf0 | c >> 18), char(0x80 | (c >> 12 & 0x3f)), char(0x80 | (c >> 6 & 0x3f)),
          char(0x80 | (c & 0x3f))};
}

std::string trimmed(const std::string& s) {
  size_t begin = 0, end = s.size();
  while (begin < end && is_space(s[begin])) ++begin;
  while (end > begin && is_space(s[end - 1])) --end;
  return s.substr(begin, end - begin);
}
int64_t to_int(const std::string& given) {
  std::string s = trimmed(given);
  const char* begin = s.data() + (!s.empty() && s[0] == '+' && s.size() > 1 && is_digit(s[1]));
  int64_t v = 0;
  const auto end = std::from_chars(begin, s.data() + s.size(), v);
  if (end.ec == std::errc::result_out_of_range)
    raise("OverflowError", ErrorKind::Overflow,
          "an int of a program has 64 bits, and '" + s + "' does not fit");
  if (end.ec != std::errc() || end.ptr != s.data() + s.size())
    raise_value("invalid literal for int() with base 10: " + shown(IValue(given), true));
  return v;
}
double to_float(const std::string& given) {
  const std::string s = mapped(trimmed(given), to_lower);
  const char* begin = s.data() + (!s.empty() && s[0] == '+');
  double v = 0;
  const auto end = std::from_chars(begin, s.data() + s.size(), v);
  if (end.ec == std::errc::result_out_of_range) return std::strtod(s.c_str(), nullptr);
  if (end.ec != std::errc() || end.ptr != s.data() + s.size() || s.find('x') != std::string::npos)
    raise_value("could not convert string to float: " + shown(IValue(given), true));
  return v;
}

// Python's format specification: [[fill]align][sign][0][width][,][.precision][type].
struct Spec {
  std::string fill = " ";
  char align = 0, sign = '-', type = 0, group = 0;
  int64_t width = 0, precision = -1;
};

Spec parse_spec(const std::string& text) {
  Spec spec;
  const auto bad = [&] { raise_value("Invalid format specifier '" + text + "'"); };
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  const std::vector<size_t> at = starts(text);
  size_t k = 0;
  const auto number = [&] {
    int64_t n = 0;
    while (k < text.size() && is_digit(text[k])) {
      n = n * 10 + (text[k++] - '0');
      if (n > 1'000'000) raise_value("Too many decimal digits in format string");
    }
    return n;
  };
  if (at.size() > 2 && is_align(text[at[1]])) {
    spec.fill = text.substr(0, at[1]);
    spec.align = text[at[1]];
    k = at[1] + 1;
  } else if (!text.empty() && is_align(text[0])) {
    spec.align = text[k++];
  }
  if (k < text.size() && (text[k] == '+' || text[k] == '-' || text[k] == ' '))
    spec.sign = text[k++];
  if (k < text.size() && text[k] == '0') {
    if (!spec.align) spec.fill = "0", spec.align = '=';
    ++k;
  }
  spec.width = number();
  if (k < text.size() && (text[k] == ',' || text[k] == '_')) spec.group = text[k++];
  if (k < text.size() && text[k] == '.') {
    if (++k == text.size() || !is_digit(text[k])) bad();
    spec.precision = number();
  }
  if (k < text.size()) spec.type = text[k++];
  if (k < text.size()) bad();
  return spec;
}

std::string grouped(const std::string& digits, char group, size_t every) {
  if (!group) return digits;
  std::string text;
  const size_t whole = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i && i < whole && (whole - i) % every == 0) text += group;
    text += digits[i];
  }
  return text;
}

std::string laid_out(const Spec& spec, const std::string& sign, const std::string& body,
                     char standard) {
  const char align = spec.align ? spec.align : standard;
  const std::string whole = sign + body;
  const int64_t missing = spec.width - length(whole);
  if (missing <= 0) return whole;
  if (align == '=') return sign + repeated(spec.fill, missing) + body;
  const int64_t before = align == '<' ? 0 : align == '>' ? missing : missing / 2;
  return repeated(spec.fill, before) + whole + repeated(spec.fill, missing - before);
}

std::string format_float(double d, const Spec& spec) {
  const std::string sign = std::signbit(d) && !std::isnan(d) ? "-"
                           : spec.sign == '-'                ? ""
                                                             : std::string(1, spec.sign);
  const double size = std::fabs(d);
  const char type = spec.type;
  std::string body;
  if (!std::isfinite(d)) {
    body = std::isnan(d) ? "nan" : "inf";
    if (type == '%') body += '%';
  } else if (!type && spec.precision < 0) {
    body = shown(IValue(size));
  } else {
    if (type && std::string_view("eEfFgG%n").find(type) == std::string_view::npos)
      raise_value(concat("Unknown format code '", type, "' for object of type 'float'"));
    const char c = type == '%' ? 'f' : type == 'n' || !type ? 'g' : type;
    const char form[] = {'%', '.', '*', c, 0};
    const int64_t precision = spec.precision < 0 ? 6 : spec.precision;
    const double shown_size = type == '%' ? size * 100 : size;
    std::string buffer(400 + size_t(precision), 0);
    buffer.resize(
        size_t(std::snprintf(buffer.data(), buffer.size(), form, int(precision), shown_size)));
    body = buffer;
    if (!type && body.find_first_of(".e") == std::string::npos) body += ".0";
    if (type == '%') body += '%';
  }
  return laid_out(spec, sign, grouped(body, spec.group, 3), '>');
}

std::string format_int(int64_t v, const Spec& spec) {
  if (spec.type && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos)
    return format_float(double(v), spec);
  if (spec.precision >= 0) raise_value("Precision not allowed in integer format specifier");
  const int base = spec.type == 'x' || spec.type == 'X' ? 16
                   : spec.type == 'b'                   ? 2
                   : spec.type == 'o'                   ? 8
                                                        : 10;
  if (base == 10 && spec.type && spec.type != 'd' && spec.type != 'n')
    raise_value(concat("Unknown format code '", spec.type, "' for object of type 'int'"));
  char buffer[72];
  const uint64_t size = v < 0 ? 0 - uint64_t(v) : uint64_t(v);
  std::string body(buffer, std::to_chars(buffer, buffer + sizeof buffer, size, base).ptr);
  if (spec.type == 'X') body = mapped(body, to_upper);
  const std::string sign = v < 0 ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  return laid_out(spec, sign, grouped(body, spec.group, base == 10 ? 3 : 4), '>');
}

std::string formatted(const IValue& v, const std::string& text) {
  if (text.empty()) return shown(v);
  const Spec spec = parse_spec(text);
  if (v.isDouble()) return format_float(v.real(), spec);
  if (v.isInt() || (v.isBool() && spec.type)) return format_int(v.integer(), spec);
  if (!v.isString() && !v.isBool())
    raise("TypeError", ErrorKind::Type,
          concat("unsupported format string for ", kind_name(v.kind())));
  if (spec.type && spec.type != 's')
    raise_value(concat("Unknown format code '", spec.type, "' for object of type 'str'"));
  std::string body = shown(v);
  if (spec.precision >= 0 && length(body) > spec.precision)
    body.resize(starts(body)[size_t(spec.precision)]);
  return laid_out(spec, "", body, '<');
}

// %-formatting of one value: flags, width, precision, type.
std::string percent(const IValue& v, const std::string& given) {
  std::string flags, text = given;
  while (!text.empty() && std::string_view("-+ 0#").find(text[0]) != std::string_view::npos) {
    flags += text[0];
    text.erase(0, 1);
  }
  const char type = text.empty() ? 's' : text.back();
  if (!text.empty()) text.pop_back();
  Spec spec;
  const size_t dot = text.find('.');
  const std::string width = text.substr(0, dot);
  if (!width.empty()) spec.width = to_int(width);
  if (dot != std::string::npos)
    spec.precision = dot + 1 < text.size() ? to_int(text.substr(dot + 1)) : 0;
  if (spec.width > 1'000'000 || spec.precision > 1'000'000)
    raise_value("width or precision is too large");
  const auto has = [&](char c) { return flags.find(c) != std::string::npos; };
  spec.sign = has('+') ? '+' : has(' ') ? ' ' : '-';
  spec.align = has('-') ? '<' : has('0') && type != 's' && type != 'r' ? '=' : '>';
  if (spec.align == '=') spec.fill = "0";
  if (type == 's' || type == 'r') {
    std::string body = shown(v, type == 'r');
    if (spec.precision >= 0 && length(body) > spec.precision)
      body.resize(starts(body)[size_t(spec.precision)]);
    return laid_out(spec, "", body, '>');
  }
  if (!v.is_number())
    raise("TypeError", ErrorKind::Type,
          concat("%", type, " format: a real number is required, not ", kind_name(v.kind())));
  spec.type = type == 'i' || type == 'u' ? 'd' : type;
  if (std::string_view("dxXo").find(spec.type) != std::string_view::npos) {
    if (v.isDouble() && spec.type != 'd')
      raise("TypeError", ErrorKind::Type, concat("%", type, " format: an integer is required"));
    spec.precision = -1;
    return format_int(v.isDouble() ? int64_t(v.real()) : v.integer(), spec);
  }
  if (std::string_view("eEfFgG").find(spec.type) == std::string_view::npos)
    raise_value(concat("unsupported format character '", type, "'"));
  return format_float(v.scalar().to_double(), spec);
}

std::string all_shown(const Args& a, const char* separator) {
  std::string text;
  for (size_t k = 0; k < a.count; ++k) (text += k ? separator : "") += shown(a[k]);
  return text;
}

void print_to_stdout(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}
void (*g_print)(const std::string&) = print_to_stdout;

constexpr Builtin kRows[] = {
    RUSH_ROW("add_str", "str, str -> str", a.s(0) + a.s(1)),
    RUSH_ROW("mul_str", "str, int -> str", repeated(a.s(0), a.i(1))),
    RUSH_ROW("eq_str", "str, str -> bool", a.s(0) == a.s(1)),
    RUSH_ROW("ne_str", "str, str -> bool", a.s(0) != a.s(1)),
    RUSH_ROW("lt_str", "str, str -> bool", a.s(0) < a.s(1)),
    RUSH_ROW("len_str", "str -> int", length(a.s(0))),
    RUSH_ROW("get_str", "str, int -> str", character(a.s(0), a.i(1))),
    RUSH_ROW("slice_str", "str, Optional[int], Optional[int], Optional[int] -> str", slice(a)),
    RUSH_ROW("contains_str", "str, str -> bool", a.s(0).find(a.s(1)) != std::string::npos),
    RUSH_ROW("upper", "str -> str", mapped(in_ascii(a.s(0), "upper"), to_upper)),
    RUSH_ROW("lower", "str -> str", mapped(in_ascii(a.s(0), "lower"), to_lower)),
    RUSH_ROW("title", "str -> str", titled(in_ascii(a.s(0), "title"), false)),
    RUSH_ROW("capitalize", "str -> str", titled(in_ascii(a.s(0), "capitalize"), true)),
    RUSH_ROW("strip", "str, Optional[str] -> str", stripped(a, true, true)),
    RUSH_ROW("lstrip", "str, Optional[str] -> str", stripped(a, true, false)),
    RUSH_ROW("rstrip", "str, Optional[str] -> str", stripped(a, false, true)),
    RUSH_ROW("split", "str, Optional[str], int -> List[str]", split(a)),
    RUSH_ROW("splitlines", "str -> List[str]", lines(a)),
    RUSH_ROW("join", "str, List[str] -> str", joined(a)),
    RUSH_ROW("replace", "str, str, str, int -> str", replaced(a)),
    RUSH_ROW("startswith", "str, str -> bool", a.s(0).starts_with(a.s(1))),
    RUSH_ROW("endswith", "str, str -> bool", a.s(0).ends_with(a.s(1))),
    RUSH_ROW("find", "str, str -> int", character_at(a.s(0), a.s(0).find(a.s(1)))),
    RUSH_ROW("rfind", "str, str -> int", character_at(a.s(0), a.s(0).rfind(a.s(1)))),
    RUSH_ROW("count_str", "str, str -> int", count(a.s(0), a.s(1))),
    RUSH_ROW("isdigit", "str -> bool", all_are(in_ascii(a.s(0), "isdigit"), is_digit)),
    RUSH_ROW("isalpha", "str -> bool", all_are(in_ascii(a.s(0), "isalpha"), is_alpha)),
    RUSH_ROW(
        "isalnum", "str -> bool",
        all_are(in_ascii(a.s(0), "isalnum"), [](char c) { return is_alpha(c) || is_digit(c); })),
    RUSH_ROW("isspace", "str -> bool", all_are(a.s(0), is_space)),
    RUSH_ROW("isupper", "str -> bool",
             std::any_of(a.s(0).begin(), a.s(0).end(), is_upper) &&
                 std::none_of(in_ascii(a.s(0), "isupper").begin(), a.s(0).end(), is_lower)),
    RUSH_ROW("islower", "str -> bool",
             std::any_of(a.s(0).begin(), a.s(0).end(), is_lower) &&
                 std::none_of(in_ascii(a.s(0), "islower").begin(), a.s(0).end(), is_upper)),
    RUSH_ROW("zfill", "str, int -> str", zero_filled(a.s(0), a.i(1))),
    RUSH_ROW("ljust", "str, int, str -> str", padded(a.s(0), a.i(1), a.s(2), 0)),
    RUSH_ROW("rjust", "str, int, str -> str", padded(a.s(0), a.i(1), a.s(2), 2)),
    RUSH_ROW("center", "str, int, str -> str", padded(a.s(0), a.i(1), a.s(2), 1)),
    RUSH_ROW("characters", "str -> List[str]", characters(a.s(0))),
    RUSH_ROW("ord", "str -> int", code_of(a.s(0))),
    RUSH_ROW("chr", "int -> str", text_of_code(a.i(0))),
    RUSH_ROW("int_str", "str -> int", to_int(a.s(0))),
    RUSH_ROW("float_str", "str -> float", to_float(a.s(0))),
    RUSH_ROW("bool_str", "str -> bool", !a.s(0).empty()),
    RUSH_ROW("str", "t -> str", shown(a[0])),
    RUSH_ROW("repr", "t -> str", shown(a[0], true)),
    RUSH_ROW("format", "t, str -> str", formatted(a[0], a.s(1))),
    RUSH_ROW("percent", "t, str -> str", percent(a[0], a.s(1))),
    RUSH_ROW("concat", "... -> str", all_shown(a, "")),
    RUSH_ROW("print", "... -> None", (g_print(all_shown(a, " ") + "\n"), IValue())),
};

}  // namespace

void set_print(void (*print)(const std::string& text)) { g_print = print; }
std::span<const Builtin> text_builtins() { return kRows; }

}  // namespace rush::jit
