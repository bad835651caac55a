#include "jit/print.h"

#include <cstring>

namespace rush::jit {
namespace {

class Printer {
 public:
  explicit Printer(const Code* code = nullptr) : code_(code) {}

  void print(const Instruction& i) {
    print_results(i);
    os_ << i.op->name << (*i.op->overload ? "." : "") << i.op->overload << "(";
    const char* separator = "";
    for (size_t k = 0; k < i.args.size(); ++k) {
      const ArgSpec& spec = i.op->args[k];
      if (is_default(spec, i.args[k])) continue;
      os_ << std::exchange(separator, ", ");
      if (spec.keyword_only || skipped_before(i, k)) os_ << spec.name << "=";
      print(i.args[k]);
    }
    os_ << ")";
    print(i.modes);
  }
  void print(const Structure& s) {
    if (s.kind == IValue::Kind::None) {
      os_ << "None";
      return;
    }
    if (s.kind == IValue::Kind::Tensor) return print(s.place);
    constexpr const char* open[] = {"(", "[", "{"};
    constexpr const char* close[] = {")", "]", "}"};
    const auto bracket = size_t(s.kind) - size_t(IValue::Kind::Tuple);
    os_ << open[bracket];
    for (size_t k = 0; k < s.items.size(); ++k) {
      os_ << (k ? ", " : "");
      if (s.kind == IValue::Kind::Dict) os_ << "'" << s.keys[k] << "': ";
      print(s.items[k]);
    }
    if (s.kind == IValue::Kind::Tuple && s.items.size() == 1) os_ << ",";
    os_ << close[bracket];
  }
  std::ostringstream& out() { return os_; }
  std::string text() { return std::move(os_).str(); }

 private:
  static bool is_default(const ArgSpec& spec, const Argument& a) {
    const auto* literal = std::get_if<Literal>(&a);
    return literal && std::holds_alternative<std::monostate>(*literal) &&
           spec.default_kind == DefaultKind::None;
  }
  static bool skipped_before(const Instruction& i, size_t k) {
    for (size_t j = 0; j < k; ++j) {
      if (is_default(i.op->args[j], i.args[j])) return true;
    }
    return false;
  }
  void print_results(const Instruction& i) {
    bool any = false;
    for (const Result& r : i.results) {
      os_ << (any ? ", " : "");
      any = true;
      if (const auto* one = std::get_if<uint32_t>(&r)) {
        os_ << "%" << *one;
      } else if (const auto* list = std::get_if<std::vector<uint32_t>>(&r)) {
        os_ << "[";
        for (size_t k = 0; k < list->size(); ++k) os_ << (k ? ", %" : "%") << (*list)[k];
        os_ << "]";
      } else {
        os_ << "_";
      }
    }
    if (any) os_ << " = ";
  }
  void print(const Place& p) {
    if (p.kind == Place::Kind::Value)
      os_ << "%" << p.index;
    else if (p.kind == Place::Kind::Constant)
      os_ << "constant." << p.index;
    else if (code_)
      os_ << "self." << code_->state[p.index].name;
    else
      os_ << "state." << p.index;
  }
  void print(const Argument& a) {
    if (const auto* place = std::get_if<Place>(&a)) return print(*place);
    if (const auto* places = std::get_if<Places>(&a)) {
      os_ << "[";
      for (size_t k = 0; k < places->size(); ++k) {
        os_ << (k ? ", " : "");
        if ((*places)[k])
          print(*(*places)[k]);
        else
          os_ << "None";
      }
      os_ << "]";
      return;
    }
    std::visit([&](const auto& x) { print_literal(x); }, std::get<Literal>(a));
  }
  void print_literal(std::monostate) { os_ << "None"; }
  void print_literal(const std::string& x) { os_ << "'" << x << "'"; }
  void print_literal(const std::vector<int64_t>& x) { os_ << concat(x); }
  void print_literal(const std::vector<double>& x) {
    os_ << "[";
    for (size_t k = 0; k < x.size(); ++k) os_ << (k ? ", " : "") << x[k];
    os_ << "]";
  }
  void print_literal(const SizeInts& x) {
    constexpr const char* names[] = {"", "s", "t", "s*t"};
    os_ << (x.size() == 1 ? "" : "[");
    for (size_t k = 0; k < x.size(); ++k) {
      os_ << (k ? ", " : "");
      const char* plus = "";
      for (size_t m = 0; m < std::size(names); ++m) {
        const int64_t c = x[k].c[m];
        if (c == 0) continue;
        os_ << std::exchange(plus, " + ");
        if (m == 0 || c != 1) os_ << c << (m ? "*" : "");
        os_ << names[m];
      }
      if (!*plus) os_ << "0";
    }
    os_ << (x.size() == 1 ? "" : "]");
  }
  void print_literal(Layout) { os_ << "strided"; }
  void print_literal(const auto& x) { os_ << concat(x); }
  void print(const Modes& modes) {
    if (modes.grad) os_ << (*modes.grad ? "  # grad" : "  # no_grad");
    for (int i = 0; i < kDeviceTypeCount; ++i) {
      if (modes.autocast[i])
        os_ << "  # autocast " << name(DeviceType(i)) << " " << *modes.autocast[i];
    }
  }

  const Code* code_;
  std::ostringstream os_;
};

}  // namespace

std::string shown(const Instruction& instruction) {
  Printer printer;
  printer.print(instruction);
  return printer.text();
}

std::string shown(const Code& code, const std::string& method) {
  if (const Function* f = code.function(method)) {
    // With what it calls, which stands before it.
    std::string text;
    for (const Function& callee : code.functions) {
      if (&callee == f) break;
      if (!callee.is_method) text += shown(code, callee) + "\n";
    }
    return text + shown(code, *f);
  }
  const Graph& graph = code.graph(method);
  Printer printer(&code);
  printer.out() << "def " << method << "(self";
  for (const Input& input : graph.inputs) {
    printer.out() << ", " << input.name << ": ";
    printer.print(input.structure);
  }
  printer.out() << "):\n";
  for (size_t k = 0; k < graph.symbols.size(); ++k)
    printer.out() << "  " << "st"[k] << " = %" << graph.symbols[k].value << ".size("
                  << graph.symbols[k].dim << ")\n";
  for (const Instruction& i : graph.body) {
    printer.out() << "  ";
    printer.print(i);
    printer.out() << "\n";
  }
  printer.out() << "  return ";
  printer.print(graph.output);
  printer.out() << "\n";
  return printer.text();
}

}  // namespace rush::jit
