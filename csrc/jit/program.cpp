#include "jit/program.h"

#include "autograd/meta.h"
#include "jit/code.h"
#include "jit/print.h"
#include "jit/program_file.h"
#include "ops/ops.h"

namespace rush::jit {

Program Program::load(const std::string& path, std::optional<Device> device) {
  LoadedProgram loaded = read_program(*ByteSource::file(path), path, device);
  Program p;
  p.code_ = std::move(loaded.code);
  p.variables_ = std::make_shared<Variables>();
  p.variables_->state = std::move(loaded.state);
  p.variables_->attributes = p.code_->first_attributes();
  p.extra_ = std::move(loaded.extra);
  return p;
}

Program load(const std::string& path, std::optional<Device> device) {
  return Program::load(path, device);
}

const Code& Program::checked() const {
  check(code_ != nullptr, ErrorKind::Runtime, "program", "it is empty; load() gives one");
  return *code_;
}

void Program::save(const std::string& path) const {
  write_program(path, checked(), *variables_, extra_);
}

IValue Program::run_method(const std::string& method, const std::vector<IValue>& inputs) const {
  return checked().run(method, *variables_, inputs);
}

Program::NamedTensors Program::named(bool parameters) const {
  NamedTensors found;
  for (size_t i = 0; i < checked().state.size(); ++i) {
    if (code_->state[i].is_parameter == parameters)
      found.emplace_back(code_->state[i].name, variables_->state[i]);
  }
  return found;
}
Program::NamedTensors Program::named_parameters() const { return named(true); }
Program::NamedTensors Program::named_buffers() const { return named(false); }

namespace {

std::vector<Tensor> without_names(const Program::NamedTensors& named) {
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : named) tensors.push_back(tensor);
  return tensors;
}

}  // namespace

std::vector<Tensor> Program::parameters() const { return without_names(named(true)); }
std::vector<Tensor> Program::buffers() const { return without_names(named(false)); }

void Program::to(Device device) {
  std::vector<Tensor>& state = (checked(), variables_->state);
  if (state.empty() && code_->constants.empty()) return;
  const Device before = state.empty() ? code_->constants[0].device() : state[0].device();
  const NoGradGuard no_grad;
  for (Tensor& t : state) {
    const bool wanted = requires_grad(t);
    Tensor moved = rush::to(t, device);
    if (moved.is_same(t)) continue;
    t = std::move(moved);
    if (wanted) set_requires_grad(t, true);
  }
  code_ = checked().moved(before.type, device);
}

void Program::zero_grad() const {
  for (const Tensor& p : parameters()) {
    if (grad_meta_or_null(p)) exchange_grad(p, {});
  }
}

namespace {

// The modes of the parts: attributes named "training" or "....training".
bool is_mode(const AttributeEntry& a) {
  return a.type->kind == Type::Kind::Bool &&
         (a.name == "training" || a.name.ends_with(".training"));
}
size_t attribute_named(const Code& code, const std::string& name) {
  for (size_t i = 0; i < code.attributes.size(); ++i) {
    if (code.attributes[i].name == name) return i;
  }
  fail(ErrorKind::Runtime, "program", "it has no attribute '", name, "'");
}

}  // namespace

bool Program::is_training() const {
  for (size_t i = 0; i < checked().attributes.size(); ++i) {
    if (code_->attributes[i].name == "training") return variables_->attributes[i].toBool();
  }
  return checked().training;
}
void Program::train(bool on) const {
  for (size_t i = 0; i < checked().attributes.size(); ++i) {
    if (is_mode(code_->attributes[i])) variables_->attributes[i] = on;
  }
}
IValue Program::attr(const std::string& name) const {
  return variables_->attributes[attribute_named(checked(), name)];
}
void Program::setattr(const std::string& name, const IValue& value) const {
  const size_t i = attribute_named(checked(), name);
  variables_->attributes[i] = taken_as(value, *code_->attributes[i].type, name);
}
std::string Program::code(const std::string& method) const { return shown(checked(), method); }

}  // namespace rush::jit
