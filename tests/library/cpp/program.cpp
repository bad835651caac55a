// A program without Python: defines an operator, calls it, and runs a saved program that has it.
#include <rushlight/library.h>
#include <rushlight/rushlight.h>

#include <iostream>

rush::Tensor scaled(const rush::Tensor& x, double k) { return rush::mul(x, rush::wrap_number(k)); }
RUSH_LIBRARY(tests_program, m) { m.def("scaled(Tensor x, float k=2.0) -> Tensor", &scaled); }

int main(int argc, char** argv) {
  const std::string errors = rush::take_library_errors();
  if (!errors.empty() || argc < 2) return 1;
  rush::Tensor x = rush::ones(rush::Dims{2, 3});
  rush::set_requires_grad(x, true);
  std::vector<rush::Value> args(1);
  args[0].borrow(x.impl());
  const rush::Tensor y = rush::call_by_name("tests_program::scaled", args)[0].tensor();
  rush::backward(rush::sum(y));
  std::cout << rush::sum(y).item() << " " << rush::sum(rush::grad_of(x)).item();
  const rush::Program p = rush::jit::load(argv[1]);
  std::cout << " " << rush::sum(p({x}).toTensor()).item() << "\n";
}
