#include "cuda/pointwise/fused_source.h"

#include <vector>

#include "core/error.h"
#include "cuda/runtime/launch.h"

namespace rush::cuda {

namespace {

using Kind = FusedStep::Kind;

const FnInfo& facts_of(const FusedStep& step) {
  return step.kind == Kind::Unary    ? info(UnaryFn(step.fn))
         : step.kind == Kind::Binary ? info(BinaryFn(step.fn))
                                     : info(TernaryFn(step.fn));
}

bool can_contract(DType t) { return is_floating(t) || is_complex(t); }

// Which values are needed for some others.
class Needed {
 public:
  explicit Needed(const FusedWork& work) : work_(work), at_() {}
  // With all that a value is computed from; what a step over rows gives is `given`, if it says so.
  void add(size_t value, bool given = false) {
    if (at_[value]) return;
    at_[value] = true;
    if (value < work_.inputs.size()) return;
    const FusedStep& step = work_.steps[value - work_.inputs.size()];
    for (int i = 0; i < step.operand_count() && !(given && step.row); ++i)
      add(step.operands[size_t(i)], given);
  }
  bool operator[](size_t value) const { return at_[value]; }

 private:
  const FusedWork& work_;
  std::array<bool, kFusedInputs + kFusedSteps> at_;
};

// Writes the struct `Work` that kernels/fused.h and fused_rows.h are about. Values are called v0,
// v1, ... as the work counts them, functors f<value>, their operands that are numbers
// n<value>_<operand>, what is read x<input>, and what is written y<output>.
class Writer {
 public:
  Writer(const FusedWork& work, const FusedForm& form)
      : work_(work), form_(form), inputs_(work.inputs.size()), readers_() {
    Needed all(work);
    for (const FusedOutput& o : work.outputs) all.add(inputs_ + o.step);
    for (size_t s = 0; s < work.steps.size(); ++s) {
      if (work.steps[s].row) all.add(inputs_ + s), row_ = int(s);
    }
    for (size_t s = 0; s < work.steps.size(); ++s) {
      const FusedStep& step = work.steps[s];
      first_param_[s] = params_;
      params_ += step.params_count;
      if (!all[inputs_ + s]) continue;
      for (int i = 0; i < step.operand_count(); ++i) ++readers_[step.operands[size_t(i)]];
    }
    written_.resize(work.outputs.size(), false);
  }

  // One function for all steps.
  std::string write() {
    Needed needed(work_);
    for (const FusedOutput& o : work_.outputs) needed.add(inputs_ + o.step);
    if (work_.join)
      before_ = concat("    const bool second = place.of(", inputs_,
                       ") >= value_of<i64>(args.numbers[", inputs_, "]);\n");
    add_values(needed);
    for (size_t o = 0; o < work_.outputs.size(); ++o) write_output(o);
    return concat("#include \"cuda/kernels/fused.h\"\n\nnamespace rush {\n\n", begin(),
                  "  template <int V, int U, class Place>\n"
                  "  static RUSH_FN void run(const FusedArgs& args, const Number* params,\n"
                  "                          const Place& place) {\n",
                  body(), "  }\n};\n\n}  // namespace rush\n");
  }

  // A function for each operand of the step over rows, and one for its result.
  std::string write_rows() {
    const FusedStep& row = work_.steps[size_t(row_)];
    std::string text =
        concat("#include \"cuda/kernels/fused_rows.h\"\n\nnamespace rush {\n\n", begin());
    const int count = row.operand_count();
    for (int i = 0; i < count; ++i) text += operand_function(i, count == 1 || i == 1 ? "x" : "g");
    return concat(text, result_function(), "};\n\n}  // namespace rush\n");
  }

 private:
  DType type_of(size_t value) const {
    return value < inputs_ ? work_.inputs[value].dtype() : work_.steps[value - inputs_].result;
  }
  bool is_number(size_t value) const {
    return value < inputs_ && form_.lies[value] == InputLies::Number;
  }

  std::string begin() const {
    return concat("struct Work {\n  static constexpr int kParams = ", std::max(params_, 1),
                  ";\n\n");
  }
  // Of a function, from what was added since the last one.
  std::string body() {
    std::string text = concat(before_,
                              "#pragma unroll\n    for (int u = 0; u < U; ++u) {\n"
                              "#pragma unroll\n      for (int k = 0; k < V; ++k) {\n",
                              each_, "      }\n    }\n", after_);
    before_.clear(), each_.clear(), after_.clear();
    return text;
  }

  void add_values(const Needed& needed) {
    for (size_t i = 0; i < inputs_; ++i)
      if (needed[i]) read_input(i);
    for (size_t s = 0; s < work_.steps.size(); ++s)
      if (needed[inputs_ + s]) add_step(s);
  }

  std::string operand_function(int i, const char* name) {
    const FusedStep& row = work_.steps[size_t(row_)];
    const size_t value = row.operands[size_t(i)];
    Needed needed(work_);
    needed.add(value);
    add_values(needed);
    for (size_t o = 0; o < work_.outputs.size(); ++o) {
      if (!written_[o] && needed[inputs_ + work_.outputs[o].step]) write_output(o);
    }
    const char* type = kernel_type(row.compute);
    before_ = concat("    Packs<", type, ", V, U> row;\n", before_);
    const bool plain = value < inputs_ || is_reduced_float(row.compute);
    each_ += concat(
        "        row.p[u].v[k] = ",
        plain ? concat("v", value) : concat("apart(v", value, ", args.zeros[", row_, "])"), ";\n");
    after_ += "    return row;\n";
    bool normal = false;
    for (size_t input = 0; input < inputs_; ++input)
      normal = normal || (needed[input] && form_.lies[input] == InputLies::Normal);
    return concat(
        "  template <int V, int U>\n  static RUSH_FN Packs<", type, ", V, U> ", name,
        "(const FusedArgs& args, const Number* params,\n"
        "                       const FusedRowPlace& place",
        normal ? concat(",\n                       const Packs<", type, ", V, U>& normal") : "",
        ") {\n", body(), "  }\n");
  }

  std::string result_function() {
    Needed needed(work_);
    for (size_t o = 0; o < work_.outputs.size(); ++o)
      if (!written_[o]) needed.add(inputs_ + work_.outputs[o].step, true);
    add_values(needed);
    for (size_t o = 0; o < work_.outputs.size(); ++o)
      if (!written_[o]) write_output(o);
    return concat(
        "  template <int V, int U>\n  static RUSH_FN void y(const FusedArgs& args, const Number* "
        "params,\n"
        "                       const FusedRowPlace& place, const Packs<",
        kernel_type(work_.steps[size_t(row_)].compute), ", V, U>& row) {\n", body(), "  }\n");
  }

  void read_input(size_t i) {
    if (is_number(i)) return;
    if (form_.lies[i] == InputLies::Normal) {
      each_ += concat("        const ", kernel_type(type_of(i)), " v", i, " = normal.p[u].v[k];\n");
      return;
    }
    static constexpr const char* names[] = {"",       "Single", "Flat",  "Row",
                                            "Column", "Along",  "Across"};
    const int part = form_.lies[i] == InputLies::Single || !work_.join ? 0 : work_.join->part[i];
    const char* read = part == 0 ? "read" : "read_if";
    const char* there = part == 0 ? "" : part == 1 ? "!second, " : "second, ";
    before_ += concat("    const auto x", i, " = ", read, "<Lies::", names[int(form_.lies[i])],
                      ", ", stored_type(type_of(i)), ", V, U>(", there, "args, ", i, ", place);\n");
    each_ += concat("        const ", kernel_type(type_of(i)), " v", i, " = x", i, ".p[u].v[k];\n");
  }

  // A value in the type that a functor wants. See Note [Steps that stay apart].
  std::string operand(size_t s, int i, DType wanted) {
    const size_t value = work_.steps[s].operands[size_t(i)];
    const bool number = is_number(value);
    const std::string plain =
        number ? concat("value_of<", kernel_type(wanted), ">(args.numbers[", value, "])")
               : concat("convert<", kernel_type(wanted), ">(v", value, ")");
    const bool rounded = value < inputs_ || is_reduced_float(type_of(value));
    if (!can_contract(wanted) || (rounded && readers_[value] == 1)) return plain;
    const std::string apart = concat("apart(", plain, ", args.zeros[", s, "])");
    if (!number) return apart;
    const std::string name = concat("n", inputs_ + s, "_", i);
    before_ += concat("    const auto ", name, " = ", apart, ";\n");
    return name;
  }

  void add_step(size_t s) {
    const FusedStep& step = work_.steps[s];
    const size_t value = inputs_ + s;
    if (step.row) {
      each_ +=
          concat("        const ", kernel_type(step.result), " v", value, " = row.p[u].v[k];\n");
      return;
    }
    if (step.kind == Kind::Join) {
      each_ += concat("        const ", kernel_type(step.result), " v", value, " = second ? v",
                      step.operands[1], " : v", step.operands[0], ";\n");
      return;
    }
    each_ += concat("        const ", kernel_type(step.result), " v", value, " = convert<",
                    kernel_type(step.result), ">(");
    if (step.kind == Kind::Convert) {
      const size_t from = step.operands[0];
      each_ += is_number(from) ? concat("value_of<", kernel_type(compute_type(type_of(from))),
                                        ">(args.numbers[", from, "])")
                               : concat("v", from);
      each_ += ");\n";
      return;
    }
    const FnInfo& facts = facts_of(step);
    const char* compute = kernel_type(step.compute);
    // Functors with numbers of their own are templates over the type they compute in.
    const std::string functor =
        concat("functors::", facts.name, facts.params ? concat("<", compute, ">") : std::string());
    before_ += concat("    const auto f", value, " = with_params<Running<", functor, ", ", compute,
                      ", ", kernel_type(step.result), ">, ", int(facts.params), ">(params + ",
                      first_param_[s], ");\n");
    each_ += concat("f", value, "(");
    const bool where = step.kind == Kind::Ternary && TernaryFn(step.fn) == TernaryFn::Where;
    for (int i = 0; i < step.operand_count(); ++i) {
      const DType wanted = where && i == 0 ? DType::Bool : step.compute;
      each_ += concat(i ? ", " : "", operand(s, i, wanted));
    }
    each_ += "));\n";
  }

  void write_output(size_t o) {
    const size_t value = inputs_ + work_.outputs[o].step;
    before_ += concat("    Packs<", kernel_type(type_of(value)), ", V, U> y", o, ";\n");
    each_ += concat("        y", o, ".p[u].v[k] = v", value, ";\n");
    after_ += concat("    write(args, ", o, ", place, y", o, ");\n");
    written_[o] = true;
  }

  const FusedWork& work_;
  const FusedForm& form_;
  const size_t inputs_;
  std::array<int, kFusedInputs + kFusedSteps> readers_;  // how many operands a value is
  std::array<int, kFusedSteps> first_param_;             // of each step
  int params_ = 0, row_ = -1;                            // how many in all; the step over rows
  std::vector<bool> written_;                            // outputs
  std::string before_, each_, after_;
};

}  // namespace

std::string fused_key(const FusedWork& work, const FusedForm& form) {
  std::string key;
  key.reserve(8 + 2 * work.inputs.size() + 12 * work.steps.size() + 2 * work.outputs.size());
  const auto add = [&](auto... numbers) { (key.push_back(char(numbers)), ...); };
  add(form.nest, form.long_nest, form.width, work.inputs.size(), work.steps.size());
  for (size_t i = 0; i < work.inputs.size(); ++i) add(form.lies[i], work.inputs[i].dtype());
  for (const FusedStep& s : work.steps) {
    add(s.kind, s.fn & 255, s.fn >> 8, s.compute, s.result, s.params_count);
    for (int i = 0; i < s.operand_count(); ++i) add(s.operands[size_t(i)]);
  }
  for (const FusedOutput& o : work.outputs) add(o.step);
  for (size_t i = 0; work.join && i < work.inputs.size(); ++i) add(work.join->part[i]);
  return key;
}

// Loads of several packs overlap; works of many steps have other things to do meanwhile, and of
// many operands no registers for it.
int fused_packs_at_once(const FusedWork& work, const FusedForm& form) {
  if (form.nest || work.steps.size() > 16) return 1;
  size_t operands = work.outputs.size();
  for (size_t i = 0; i < work.inputs.size(); ++i) operands += form.lies[i] == InputLies::Flat;
  return operands <= 3 ? packs_at_once(form.width) : operands <= 6 ? 2 : 1;
}

GeneratedSource fused_rows_source(const FusedWork& work, const FusedForm& form,
                                  const std::string& kernel) {
  return {Writer(work, form).write_rows(), kernel};
}

GeneratedSource fused_source(const FusedWork& work, const FusedForm& form) {
  const std::string kernel = form.nest ? concat("rush::fused_nest<rush::Work, ", form.width,
                                                form.long_nest ? ", rush::u64>" : ", rush::u32>")
                                       : concat("rush::fused_flat<rush::Work, ", form.width, ", ",
                                                fused_packs_at_once(work, form), ">");
  return {Writer(work, form).write(), kernel};
}

}  // namespace rush::cuda
