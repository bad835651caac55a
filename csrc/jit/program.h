// program.h: a program with its parameters and buffers, for C++.
//
//   rush::jit::Program net = rush::jit::load("model.rush");
//   rush::Tensor y = net({x});
//
// Copies share parameters and buffers. Several threads may call one program at the same time, as
// long as nobody writes to its parameters and attributes (an optimiser, batch norm in training
// mode, a script that assigns to self).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "jit/ivalue.h"

namespace rush::jit {

struct Code;
struct Variables;

class RUSH_API Program {
 public:
  using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

  Program() = default;
  // Tensors go to `device`, or to where they were when the program was saved.
  static Program load(const std::string& path, std::optional<Device> device = std::nullopt);
  void save(const std::string& path) const;

  IValue forward(const std::vector<IValue>& inputs) const { return run_method("forward", inputs); }
  IValue operator()(const std::vector<IValue>& inputs) const { return forward(inputs); }
  IValue run_method(const std::string& method, const std::vector<IValue>& inputs) const;

  std::vector<Tensor> parameters() const;
  std::vector<Tensor> buffers() const;
  NamedTensors named_parameters() const;
  NamedTensors named_buffers() const;
  // Moves parameters, buffers and constants; parameters that were taken before stay where they are.
  void to(Device device);
  void zero_grad() const;
  bool is_training() const;
  // The mode of all parts of a script; a trace keeps the mode that it was made in.
  void train(bool on = true) const;
  void eval() const { train(false); }
  // A value of the module that is no parameter or buffer, by its dotted name.
  IValue attr(const std::string& name) const;
  void setattr(const std::string& name, const IValue& value) const;
  std::string code(const std::string& method = "forward") const;

 private:
  NamedTensors named(bool parameters) const;
  const Code& checked() const;
  std::shared_ptr<const Code> code_;
  std::shared_ptr<Variables> variables_;                    // what copies share
  std::vector<std::pair<std::string, std::string>> extra_;  // files of the user's, by name
};

RUSH_API Program load(const std::string& path, std::optional<Device> device = std::nullopt);

}  // namespace rush::jit

namespace rush {
using jit::Program;
}
