#include <algorithm>

#include "jit/machine.h"
#include "jit/machine_steps.h"
#include "ops/framework/boxing.h"

namespace rush::jit {
namespace {

class Preparer {
 public:
  Preparer(const Code& code, const Function& f)
      : code_(code), f_(f), uses_(f.locals.size()), next_cell_(uint32_t(f.locals.size())) {}

  std::shared_ptr<const Machine> run() {
    for (size_t i = 0; i < f_.inputs.size(); ++i) uses_[i].writes = 2;  // the caller has it too
    count(f_.body, 0);
    block(f_.body);
    step({.code = StepCode::Return, .a = constant(IValue())});
    // Constants lie after the locals and the cells that hold loaded state.
    m_->num_cells = next_cell_;
    const auto fixed = uint32_t(next_cell_);
    for (const auto& fix : constant_uses_) *fix.get(*m_) += fixed;
    return m_;
  }

 private:
  // Constants get their cells at the end; until then their number among the constants stands there,
  // with kConstant set.
  static constexpr uint32_t kConstant = 0x80000000u;

  struct Use {
    uint32_t writes = 0, reads = 0, block = UINT32_MAX;
    bool one_block = true;
    const Statement* last = nullptr;  // that reads it
  };
  struct Fix {
    size_t step = SIZE_MAX, plan = 0, at = 0;
    int field = 0;
    uint32_t* get(Machine& m) const {
      if (step != SIZE_MAX) {
        Step& s = m.steps[step];
        uint32_t* p = field == 0 ? &s.a : &s.b;
        *p &= ~kConstant;
        return p;
      }
      uint32_t* p = field == 0 ? &m.plans[plan].cells[at] : nullptr;
      if (field == 1) p = &m.plans[plan].args[at].index;
      if (field >= 2) p = &m.plans[plan].args[at].items[size_t(field - 2)].index;
      *p &= ~kConstant;
      return p;
    }
  };

  void seen(uint32_t local, uint32_t block) {
    Use& u = uses_[local];
    if (u.block == UINT32_MAX) u.block = block;
    if (u.block != block) u.one_block = false;
  }
  void count(const Operand& o, const Statement& reader, uint32_t block) {
    if (o.kind == Operand::Kind::Local) {
      ++uses_[o.index].reads;
      uses_[o.index].last = &reader;
      seen(o.index, block);
    }
    for (const Operand& item : o.items) count(item, reader, block);
  }
  void count(const std::vector<Statement>& statements, uint32_t block) {
    for (const Statement& s : statements) {
      for (const Operand& o : s.args) count(o, s, block);
      for (const uint32_t local : s.to) {
        if (local == kNowhere) continue;
        ++uses_[local].writes;
        seen(local, block);
      }
      if (!s.body.empty()) count(s.body, ++blocks_);
      if (!s.orelse.empty()) count(s.orelse, ++blocks_);
    }
  }
  // Is this the last time that anybody reads it, so that what it holds can go?
  bool passes(const Operand& o) const {
    if (o.kind != Operand::Kind::Local) return false;
    const Use& u = uses_[o.index];
    return u.writes == 1 && u.last == at_ && u.one_block && !is_plain(*f_.locals[o.index]);
  }

  uint32_t constant(const IValue& v) {
    m_->constants.push_back(v);
    return uint32_t(m_->constants.size() - 1) | kConstant;
  }
  // The cell that holds an operand; what lies elsewhere is loaded first.
  uint32_t cell(const Operand& o) {
    switch (o.kind) {
      case Operand::Kind::Local:
        return o.index;
      case Operand::Kind::Value:
        return constant(o.value);
      default: {
        const uint32_t to = next_cell_++;
        const StepCode code = o.kind == Operand::Kind::State      ? StepCode::LoadState
                              : o.kind == Operand::Kind::Constant ? StepCode::LoadConstant
                                                                  : StepCode::LoadAttribute;
        step({.code = code, .to = to, .a = o.index, .line = line_});
        return to;
      }
    }
  }
  size_t step(Step s) {
    m_->steps.push_back(s);
    const size_t at = m_->steps.size() - 1;
    const bool loads = s.code == StepCode::LoadState || s.code == StepCode::LoadAttribute ||
                       s.code == StepCode::LoadConstant;
    if (!loads && s.a & kConstant) constant_uses_.push_back({.step = at, .field = 0});
    if (!loads && s.b & kConstant) constant_uses_.push_back({.step = at, .field = 1});
    return at;
  }
  uint32_t add_plan(Plan p) {
    const size_t at = m_->plans.size();
    for (size_t k = 0; k < p.cells.size(); ++k) {
      if (p.cells[k] & kConstant) constant_uses_.push_back({.plan = at, .at = k});
    }
    for (size_t k = 0; k < p.args.size(); ++k) {
      const auto is_constant = [](const ArgPlan& a) {
        return a.from == ArgPlan::From::Cell && a.index & kConstant;
      };
      if (is_constant(p.args[k])) constant_uses_.push_back({.plan = at, .at = k, .field = 1});
      for (size_t i = 0; i < p.args[k].items.size(); ++i) {
        if (is_constant(p.args[k].items[i]))
          constant_uses_.push_back({.plan = at, .at = k, .field = int(i) + 2});
      }
    }
    m_->plans.push_back(std::move(p));
    return uint32_t(at);
  }
  uint32_t here() const { return uint32_t(m_->steps.size()); }
  uint32_t target(uint32_t local) {
    // A result that nobody wants needs a place all the same.
    return local == kNowhere ? next_cell_++ : local;
  }

  void block(const std::vector<Statement>& statements) {
    for (size_t i = 0; i < statements.size(); ++i) {
      line_ = statements[i].line;
      at_ = &statements[i];
      statement(statements[i], i > 0 ? &statements[i - 1] : nullptr);
    }
  }

  // A comparison of ints whose result only this `if` reads becomes one step with its jump.
  bool fuses(const Statement& s, const Statement* before) const {
    if (!before || before->kind != Statement::Kind::Builtin ||
        s.args[0].kind != Operand::Kind::Local)
      return false;
    const Quick q = before->builtin->quick;
    const Use& u = uses_[s.args[0].index];
    return q >= Quick::LtInt && q <= Quick::NeInt && before->to[0] == s.args[0].index &&
           u.writes == 1 && u.reads == 1 && !m_->steps.empty() &&
           m_->steps.back().code == StepCode(q);
  }
  size_t jump_unless(const Statement& s, const Statement* before) {
    if (fuses(s, before)) {
      Step& last = m_->steps.back();
      last.code = StepCode(int(StepCode::JumpUnlessLtInt) + int(last.code) - int(StepCode::LtInt));
      return m_->steps.size() - 1;
    }
    const uint32_t a = cell(s.args[0]);
    return step({.code = StepCode::JumpUnless, .a = a, .line = line_});
  }

  void statement(const Statement& s, const Statement* before) {
    switch (s.kind) {
      case Statement::Kind::Builtin:
        return builtin(s);
      case Statement::Kind::Op:
        return op(s);
      case Statement::Kind::If: {
        const size_t test = jump_unless(s, before);
        if (s.body.empty() && s.orelse.size() == 1 && s.orelse[0].kind == Statement::Kind::Break &&
            loops_.back().modes == modes_) {
          loops_.back().breaks.push_back(test);
          return;
        }
        block(s.body);
        if (s.orelse.empty()) {
          m_->steps[test].extra = here();
          return;
        }
        const bool ends = !s.body.empty() && leaves(s.body.back());
        const size_t end = ends ? 0 : step({.code = StepCode::Jump});
        m_->steps[test].extra = here();
        block(s.orelse);
        if (!ends) m_->steps[end].extra = here();
        return;
      }
      case Statement::Kind::Loop: {
        loops_.push_back({here(), modes_, {}});
        block(s.body);
        step({.code = StepCode::Repeat, .extra = loops_.back().begin});
        for (const size_t at : loops_.back().breaks) m_->steps[at].extra = here();
        loops_.pop_back();
        return;
      }
      case Statement::Kind::Break:
      case Statement::Kind::Continue: {
        for (int k = loops_.back().modes; k < modes_; ++k) step({.code = StepCode::Leave});
        const bool stays = s.kind == Statement::Kind::Continue;
        const size_t at =
            step({.code = stays ? StepCode::Repeat : StepCode::Jump, .extra = loops_.back().begin});
        if (!stays) loops_.back().breaks.push_back(at);
        return;
      }
      case Statement::Kind::Return: {
        const uint32_t a = cell(s.args[0]);
        step({.code = StepCode::Return, .a = a, .line = line_});
        return;
      }
      case Statement::Kind::Move: {
        if (writes_there(s, before)) return;
        const bool takes_it = passes(s.args[0]);
        const uint32_t a = cell(s.args[0]);
        if (is_number(*f_.locals[s.to[0]])) {
          step({.code = StepCode::MovePlain, .to = s.to[0], .a = a, .line = line_});
          return;
        }
        step({.code = takes_it ? StepCode::Take : StepCode::Move,
              .to = target(s.to[0]),
              .a = a,
              .line = line_});
        return;
      }
      case Statement::Kind::SetState:
      case Statement::Kind::SetAttribute: {
        const uint32_t a = cell(s.args[0]);
        step({.code =
                  s.kind == Statement::Kind::SetState ? StepCode::SetState : StepCode::SetAttribute,
              .a = a,
              .extra = s.index,
              .line = line_});
        return;
      }
      case Statement::Kind::With: {
        Plan p;
        p.modes = s.modes;
        const uint32_t plan = add_plan(std::move(p));
        step({.code = StepCode::Enter, .extra = plan, .line = line_});
        ++modes_;
        block(s.body);
        --modes_;
        step({.code = StepCode::Leave});
        return;
      }
      case Statement::Kind::Raise:
      case Statement::Kind::Cast:
      case Statement::Kind::Call:
      case Statement::Kind::Make:
        return planned(s);
    }
  }
  static bool is_number(const Type& t) {
    return t.kind == Type::Kind::Bool || t.kind == Type::Kind::Int || t.kind == Type::Kind::Float;
  }
  // A result that only this move reads, made by the statement before it, is written to its place at
  // once.
  bool writes_there(const Statement& s, const Statement* before) {
    if (!before || s.args[0].kind != Operand::Kind::Local || before->to.size() != 1 ||
        m_->steps.empty())
      return false;
    const uint32_t local = s.args[0].index;
    const Use& u = uses_[local];
    if (before->to[0] != local || u.writes != 1 || u.reads != 1 ||
        !(*f_.locals[local] == *f_.locals[s.to[0]]))
      return false;
    Step& last = m_->steps.back();
    if (before->kind == Statement::Kind::Op) {
      if (last.code != StepCode::Op) return false;
      m_->plans[last.extra].to = {s.to[0]};
      return true;
    }
    if (before->kind != Statement::Kind::Builtin && before->kind != Statement::Kind::Call &&
        before->kind != Statement::Kind::Make)
      return false;
    if (last.to != local || last.code == StepCode::Op || last.code == StepCode::Jump) return false;
    last.to = s.to[0];
    return true;
  }
  static bool leaves(const Statement& s) {
    return s.kind == Statement::Kind::Return || s.kind == Statement::Kind::Break ||
           s.kind == Statement::Kind::Continue || s.kind == Statement::Kind::Raise;
  }

  void planned(const Statement& s) {
    Plan p;
    for (const Operand& o : s.args) {
      if (passes(o)) p.passing.push_back(o.index);
      p.cells.push_back(cell(o));
    }
    p.function = s.index;
    p.error = s.error;
    StepCode code = StepCode::Raise;
    if (s.kind == Statement::Kind::Call) code = StepCode::Call;
    if (s.kind == Statement::Kind::Make || s.kind == Statement::Kind::Cast) {
      code = s.kind == Statement::Kind::Make ? StepCode::Make : StepCode::Cast;
      p.type = f_.locals[s.to[0]];
    }
    if (s.kind == Statement::Kind::Cast) p.by_kind = tells_by_kind(*p.type, s.args[0]);
    const uint32_t to = s.to.empty() ? 0 : target(s.to[0]);
    const uint32_t plan = add_plan(std::move(p));
    step({.code = code, .to = to, .extra = plan, .line = line_});
  }
  // Each type of the narrow one is one of the wide one as it stands, so the kind is enough to know.
  bool tells_by_kind(const Type& narrow, const Operand& o) const {
    const Type* wide = o.kind == Operand::Kind::Local       ? f_.locals[o.index].get()
                       : o.kind == Operand::Kind::Attribute ? code_.attributes[o.index].type.get()
                                                            : nullptr;
    if (!wide || wide->kind != Type::Kind::Union) return false;
    const auto is_there = [&](const Type& t) {
      return std::any_of(wide->items.begin(), wide->items.end(),
                         [&](const TypePointer& w) { return *w == t; });
    };
    if (narrow.kind != Type::Kind::Union) return is_there(narrow);
    return std::all_of(narrow.items.begin(), narrow.items.end(),
                       [&](const TypePointer& t) { return is_there(*t); });
  }

  void builtin(const Statement& s) {
    const uint32_t to = target(s.to[0]);
    const bool plain = s.to[0] == kNowhere || is_plain(*f_.locals[s.to[0]]);
    if (s.builtin->quick == Quick::AddInt && counts_on(s)) return;
    if (s.builtin->quick != Quick::None && plain) {
      const uint32_t a = cell(s.args[0]), b = s.args.size() > 1 ? cell(s.args[1]) : 0;
      step({.code = StepCode(s.builtin->quick), .to = to, .a = a, .b = b, .line = line_});
      return;
    }
    Plan p;
    p.builtin = s.builtin;
    for (const Operand& o : s.args) {
      if (passes(o)) p.passing.push_back(o.index);
      p.cells.push_back(cell(o));
    }
    // The result may lie where an argument was.
    std::erase(p.passing, to);
    const uint32_t plan = add_plan(std::move(p));
    step({.code = StepCode::Builtin, .to = to, .extra = plan, .line = line_});
  }

  // The three statements that begin a turn of a loop over numbers become one step.
  bool counts_on(const Statement& s) {
    const size_t n = m_->steps.size();
    if (n < 2 || s.args[0].kind != Operand::Kind::Local || s.to[0] != s.args[0].index) return false;
    const Step& copied = m_->steps[n - 1];
    Step& test = m_->steps[n - 2];
    const bool by_one = s.args[1].kind == Operand::Kind::Value && s.args[1].value.isInt() &&
                        s.args[1].value.integer() == 1;
    if (!by_one || copied.code != StepCode::MovePlain || test.code != StepCode::JumpUnlessLtInt ||
        copied.a != s.to[0] || test.a != s.to[0])
      return false;
    if (std::find(loops_.back().breaks.begin(), loops_.back().breaks.end(), n - 2) ==
        loops_.back().breaks.end())
      return false;
    test.code = StepCode::ForNext;
    test.to = copied.to;
    m_->steps.pop_back();
    return true;
  }

  ArgPlan arg(const Operand& o, ArgKind kind, uint8_t broadcast, Plan& plan) {
    ArgPlan a;
    a.kind = kind;
    a.broadcast = broadcast;
    plan.borrows = plan.borrows || kind == ArgKind::Ints || kind == ArgKind::Floats ||
                   kind == ArgKind::Tensors;
    a.index = o.index;
    switch (o.kind) {
      case Operand::Kind::Local:
        a.from = ArgPlan::From::Cell;
        if (passes(o)) plan.passing.push_back(o.index);
        break;
      case Operand::Kind::Value:
        if (o.value.isNone()) break;
        a.from = ArgPlan::From::Cell;
        a.index = constant(o.value);
        if (o.value.is_number() && (kind == ArgKind::Operand || kind == ArgKind::Tensor))
          a.number = wrap_number(o.value.scalar());
        break;
      case Operand::Kind::State:
        a.from = ArgPlan::From::State;
        break;
      case Operand::Kind::Constant:
        a.from = ArgPlan::From::Constant;
        break;
      case Operand::Kind::Attribute:
        a.from = ArgPlan::From::Cell;
        a.index = cell(o);
        break;
      case Operand::Kind::List: {
        a.from = ArgPlan::From::List;
        const ArgKind of = kind == ArgKind::Ints     ? ArgKind::Int
                           : kind == ArgKind::Floats ? ArgKind::Float
                                                     : ArgKind::Tensor;
        for (const Operand& item : o.items) a.items.push_back(arg(item, of, 0, plan));
        break;
      }
    }
    return a;
  }
  void op(const Statement& s) {
    Plan p;
    p.op = s.op;
    for (size_t k = 0; k < s.args.size(); ++k)
      p.args.push_back(arg(s.args[k], s.op->args[k].kind, s.op->args[k].broadcast, p));
    p.to = s.to;
    for (const TypePointer& t : result_types(*s.op)) p.kinds.push_back(t->kind);
    for (const uint32_t local : s.to) std::erase(p.passing, local);
    const uint32_t plan = add_plan(std::move(p));
    step({.code = StepCode::Op, .extra = plan, .line = line_});
  }

  struct LoopInfo {
    uint32_t begin;
    int modes;
    std::vector<size_t> breaks;
  };

  const Code& code_;
  const Function& f_;
  std::shared_ptr<Machine> m_ = std::make_shared<Machine>();
  std::vector<Use> uses_;
  uint32_t next_cell_, blocks_ = 0, line_ = 0;
  std::vector<Fix> constant_uses_;
  std::vector<LoopInfo> loops_;
  const Statement* at_ = nullptr;
  int modes_ = 0;
};

}  // namespace

void prepare(Code& code) {
  for (Function& f : code.functions) f.machine = Preparer(code, f).run();
}

}  // namespace rush::jit
