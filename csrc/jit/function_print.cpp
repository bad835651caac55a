// function_print.cpp: functions as text, for people.
#include <sstream>

#include "jit/code.h"
#include "jit/print.h"

namespace rush::jit {
namespace {

using Kind = Statement::Kind;

class FunctionPrinter {
 public:
  FunctionPrinter(const Code& code, const Function& f) : code_(code), f_(f) {}

  std::string run() {
    os_ << "def " << f_.name << "(";
    for (size_t i = 0; i < f_.inputs.size(); ++i) {
      os_ << (i ? ", " : "") << f_.inputs[i].name << ": " << shown(*f_.locals[i]);
      if (f_.inputs[i].standard) os_ << " = " << text(*f_.inputs[i].standard);
    }
    os_ << ") -> " << shown(*f_.result) << ":\n";
    block(f_.body, 1);
    return std::move(os_).str();
  }

 private:
  std::string local(uint32_t index) const {
    if (index == kNowhere) return "_";
    return index < f_.inputs.size() ? f_.inputs[index].name : concat("%", index);
  }
  std::string text(const Operand& o) const {
    switch (o.kind) {
      case Operand::Kind::Local:
        return local(o.index);
      case Operand::Kind::Value:
        return shown(o.value, true);
      case Operand::Kind::State:
        return "self." + code_.state[o.index].name;
      case Operand::Kind::Constant:
        return concat("constant.", o.index);
      case Operand::Kind::Attribute:
        return "self." + code_.attributes[o.index].name;
      case Operand::Kind::List:
        return "[" + text(o.items) + "]";
    }
    return "";
  }
  std::string text(const std::vector<Operand>& operands) const {
    std::string joined;
    for (size_t k = 0; k < operands.size(); ++k) joined += (k ? ", " : "") + text(operands[k]);
    return joined;
  }
  void block(const std::vector<Statement>& statements, int depth) {
    if (statements.empty()) os_ << std::string(size_t(depth) * 2, ' ') << "pass\n";
    for (const Statement& s : statements) statement(s, depth);
  }
  void statement(const Statement& s, int depth) {
    const std::string indent(size_t(depth) * 2, ' ');
    os_ << indent;
    std::string to;
    for (size_t k = 0; k < s.to.size(); ++k) to += (k ? ", " : "") + local(s.to[k]);
    if (!s.to.empty() && s.to[0] != kNowhere && s.to.size() == 1)
      to += ": " + shown(*f_.locals[s.to[0]]);
    if (!to.empty() && to != "_") os_ << to << " = ";
    switch (s.kind) {
      case Kind::Builtin:
        os_ << s.builtin->name << "(" << text(s.args) << ")";
        break;
      case Kind::Op: {
        os_ << s.op->name << (*s.op->overload ? "." : "") << s.op->overload << "(";
        const char* separator = "";
        for (size_t k = 0; k < s.args.size(); ++k) {
          const bool none = s.args[k].kind == Operand::Kind::Value && s.args[k].value.isNone();
          if (none && s.op->args[k].default_kind == DefaultKind::None) continue;
          os_ << std::exchange(separator, ", ") << s.op->args[k].name << "=" << text(s.args[k]);
        }
        os_ << ")";
        break;
      }
      case Kind::Call:
        os_ << code_.functions[s.index].name << "(" << text(s.args) << ")";
        break;
      case Kind::If:
        os_ << "if " << text(s.args[0]) << ":\n";
        block(s.body, depth + 1);
        if (!s.orelse.empty()) {
          os_ << indent << "else:\n";
          block(s.orelse, depth + 1);
        }
        return;
      case Kind::Loop:
        os_ << "while True:\n";
        return block(s.body, depth + 1);
      case Kind::Break:
        os_ << "break";
        break;
      case Kind::Continue:
        os_ << "continue";
        break;
      case Kind::Return:
        os_ << "return " << text(s.args[0]);
        break;
      case Kind::Raise:
        os_ << "raise " << s.error << "(" << text(s.args[0]) << ")";
        break;
      case Kind::Move:
        os_ << text(s.args[0]);
        break;
      case Kind::SetState:
        os_ << "self." << code_.state[s.index].name << " = " << text(s.args[0]);
        break;
      case Kind::SetAttribute:
        os_ << "self." << code_.attributes[s.index].name << " = " << text(s.args[0]);
        break;
      case Kind::Make:
        os_ << "make(" << text(s.args) << ")";
        break;
      case Kind::Cast:
        os_ << "cast(" << text(s.args[0]) << ")";
        break;
      case Kind::With:
        os_ << "with "
            << (s.modes.grad ? (*s.modes.grad ? "enable_grad()" : "no_grad()") : "autocast()")
            << ":\n";
        return block(s.body, depth + 1);
    }
    os_ << "\n";
  }

  const Code& code_;
  const Function& f_;
  std::ostringstream os_;
};

}  // namespace

std::string shown(const Code& code, const Function& f) { return FunctionPrinter(code, f).run(); }

}  // namespace rush::jit
