#include "jit/program.h"

#include "autograd/meta.h"
#include "jit/print.h"
#include "jit/program_file.h"
#include "ops/ops.h"

namespace rush::jit {

Program Program::load(const std::string& path, std::optional<Device> device) {
  LoadedProgram loaded = read_program(*ByteSource::file(path), path, device);
  Program p;
  p.code_ = std::move(loaded.code);
  p.state_ = std::move(loaded.state);
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
  write_program(path, checked(), state_, extra_);
}

IValue Program::run_method(const std::string& method, const std::vector<IValue>& inputs) const {
  return checked().run(method, state_, inputs);
}

Program::NamedTensors Program::named(bool parameters) const {
  NamedTensors found;
  for (size_t i = 0; i < state_.size(); ++i) {
    if (code_->state[i].is_parameter == parameters)
      found.emplace_back(code_->state[i].name, state_[i]);
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
  if (state_.empty() && checked().constants.empty()) return;
  const Device before = state_.empty() ? code_->constants[0].device() : state_[0].device();
  const NoGradGuard no_grad;
  for (Tensor& t : state_) {
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

bool Program::is_training() const { return checked().training; }
std::string Program::code(const std::string& method) const { return shown(checked(), method); }

}  // namespace rush::jit
