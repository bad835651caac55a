#include "cuda/pointwise/fused_source.h"

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

// Writes the struct `Work` that kernels/fused.h is about. Values are called v0, v1, ... as the work
// counts them, functors f<value>, their operands that are numbers n<value>_<operand>, what is read
// x<input>, and what is written y<output>.
class Writer {
 public:
  Writer(const FusedWork& work, const FusedForm& form)
      : work_(work), form_(form), inputs_(work.inputs.size()), readers_() {
    std::array<bool, kFusedInputs + kFusedSteps>& needed = needed_;
    needed = {};
    for (const FusedOutput& o : work.outputs) needed[inputs_ + o.step] = true;
    for (size_t s = work.steps.size(); s-- > 0;) {
      if (!needed[inputs_ + s]) continue;
      const FusedStep& step = work.steps[s];
      for (int i = 0; i < step.operand_count(); ++i) {
        needed[step.operands[size_t(i)]] = true;
        ++readers_[step.operands[size_t(i)]];
      }
    }
  }

  std::string write() {
    for (size_t i = 0; i < inputs_; ++i) read_input(i);
    for (size_t s = 0; s < work_.steps.size(); ++s) {
      if (needed_[inputs_ + s]) add_step(s);
      params_ += work_.steps[s].params_count;
    }
    for (size_t o = 0; o < work_.outputs.size(); ++o) write_output(o);
    return concat(
        "#include \"cuda/kernels/fused.h\"\n\nnamespace rush {\n\nstruct Work {\n"
        "  static constexpr int kParams = ",
        std::max(params_, 1),
        ";\n\n"
        "  template <int V, int U, class Place>\n"
        "  static RUSH_FN void run(const FusedArgs& args, const Number* params,\n"
        "                          const Place& place) {\n",
        before_,
        "#pragma unroll\n    for (int u = 0; u < U; ++u) {\n"
        "#pragma unroll\n      for (int k = 0; k < V; ++k) {\n",
        each_, "      }\n    }\n", after_, "  }\n};\n\n}  // namespace rush\n");
  }

 private:
  DType type_of(size_t value) const {
    return value < inputs_ ? work_.inputs[value].dtype() : work_.steps[value - inputs_].result;
  }
  bool is_number(size_t value) const {
    return value < inputs_ && form_.lies[value] == InputLies::Number;
  }

  void read_input(size_t i) {
    if (!needed_[i] || is_number(i)) return;
    static constexpr const char* names[] = {"", "Single", "Flat", "Row", "Column"};
    const char* type = kernel_type(type_of(i));
    before_ += concat("    const auto x", i, " = read<Lies::", names[int(form_.lies[i])], ", ",
                      type, ", V, U>(args, ", i, ", place);\n");
    each_ += concat("        const ", type, " v", i, " = x", i, ".p[u].v[k];\n");
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
    before_ +=
        concat("    const auto f", value, " = with_params<Running<", functor, ", ", compute, ", ",
               kernel_type(step.result), ">, ", int(facts.params), ">(params + ", params_, ");\n");
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
  }

  const FusedWork& work_;
  const FusedForm& form_;
  const size_t inputs_;
  std::array<bool, kFusedInputs + kFusedSteps> needed_;
  std::array<int, kFusedInputs + kFusedSteps> readers_;  // how many operands a value is
  std::string before_, each_, after_;
  int params_ = 0;  // of the steps so far
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

GeneratedSource fused_source(const FusedWork& work, const FusedForm& form) {
  const std::string kernel = form.nest ? concat("rush::fused_nest<rush::Work, ", form.width,
                                                form.long_nest ? ", rush::u64>" : ", rush::u32>")
                                       : concat("rush::fused_flat<rush::Work, ", form.width, ", ",
                                                fused_packs_at_once(work, form), ">");
  return {Writer(work, form).write(), kernel};
}

}  // namespace rush::cuda
