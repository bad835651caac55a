// An extension as PyTorch's tutorials write them; tests/library/test_extensions.py calls all of it.
#include <torch/extension.h>

#include <vector>

// A cell of a recurrent network, forward and backward, over functions of tensors.
torch::Tensor d_sigmoid(torch::Tensor z) {
  auto s = torch::sigmoid(z);
  return (1 - s) * s;
}
torch::Tensor d_tanh(torch::Tensor z) { return 1 - z.tanh().pow(2); }
torch::Tensor d_elu(torch::Tensor z, torch::Scalar alpha = 1.0) {
  auto e = z.exp();
  auto mask = (alpha * (e - 1)) < 0;
  return (z > 0).type_as(z) + mask.type_as(z) * (alpha * e);
}
std::vector<at::Tensor> lltm_forward(torch::Tensor input, torch::Tensor weights, torch::Tensor bias,
                                     torch::Tensor old_h, torch::Tensor old_cell) {
  auto X = torch::cat({old_h, input}, /*dim=*/1);
  auto gate_weights = torch::addmm(bias, X, weights.transpose(0, 1));
  auto gates = gate_weights.chunk(3, /*dim=*/1);
  auto input_gate = torch::sigmoid(gates[0]);
  auto output_gate = torch::sigmoid(gates[1]);
  auto candidate_cell = torch::elu(gates[2], /*alpha=*/1.0);
  auto new_cell = old_cell + candidate_cell * input_gate;
  auto new_h = torch::tanh(new_cell) * output_gate;
  return {new_h, new_cell, input_gate, output_gate, candidate_cell, X, gate_weights};
}
std::vector<torch::Tensor> lltm_backward(torch::Tensor grad_h, torch::Tensor grad_cell,
                                         torch::Tensor new_cell, torch::Tensor input_gate,
                                         torch::Tensor output_gate, torch::Tensor candidate_cell,
                                         torch::Tensor X, torch::Tensor gate_weights,
                                         torch::Tensor weights) {
  auto d_output_gate = torch::tanh(new_cell) * grad_h;
  auto d_tanh_new_cell = output_gate * grad_h;
  auto d_new_cell = d_tanh(new_cell) * d_tanh_new_cell + grad_cell;
  auto d_old_cell = d_new_cell;
  auto d_candidate_cell = input_gate * d_new_cell;
  auto d_input_gate = candidate_cell * d_new_cell;
  auto gates = gate_weights.chunk(3, /*dim=*/1);
  d_input_gate *= d_sigmoid(gates[0]);
  d_output_gate *= d_sigmoid(gates[1]);
  d_candidate_cell *= d_elu(gates[2]);
  auto d_gates = torch::cat({d_input_gate, d_output_gate, d_candidate_cell}, /*dim=*/1);
  auto d_weights = d_gates.t().mm(X);
  auto d_bias = d_gates.sum(/*dim=*/0, /*keepdim=*/true);
  auto d_X = d_gates.mm(weights);
  const auto state_size = grad_h.size(1);
  auto d_old_h = d_X.slice(/*dim=*/1, 0, state_size);
  auto d_input = d_X.slice(/*dim=*/1, state_size);
  return {d_old_h, d_input, d_weights, d_bias, d_old_cell};
}

// An operator with a kernel of its own, over pointers.
at::Tensor mymuladd_cpu(const at::Tensor& a, const at::Tensor& b, double c) {
  TORCH_CHECK(a.sizes() == b.sizes(), "mymuladd: sizes differ: ", a.sizes(), " and ", b.sizes());
  TORCH_CHECK(a.dtype() == b.dtype());
  TORCH_INTERNAL_ASSERT(a.device().type() == at::DeviceType::CPU);
  at::Tensor x = a.contiguous(), y = b.contiguous();
  at::Tensor result = torch::empty(x.sizes(), x.options());
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "mymuladd", [&] {
    const scalar_t* p = x.data_ptr<scalar_t>();
    const scalar_t* q = y.data_ptr<scalar_t>();
    scalar_t* r = result.data_ptr<scalar_t>();
    at::parallel_for(0, result.numel(), 1000, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) {
        r[i] = p[i] * q[i];
        r[i] += scalar_t(c);
      }
    });
  });
  return result;
}
// Every family of types, with as many types besides as there may be, and a switch in a switch.
int64_t element_bytes(const at::Tensor& x) {
  int64_t bytes = 0;
  const auto type = x.scalar_type();
  AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND3(at::kHalf, at::kBFloat16, at::kBool, type, "bytes", [&] {
    AT_DISPATCH_ALL_TYPES_AND4(at::kHalf, at::kBFloat16, at::kBool, at::kComplexFloat, type,
                               "bytes", [&] { bytes += sizeof(scalar_t); });
    bytes += sizeof(scalar_t);
  });
  if (type == at::kInt) AT_DISPATCH_INTEGRAL_TYPES_AND(at::kBool, type, "bytes", [&] { bytes++; });
  if (type == at::kComplexFloat)
    AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND2(at::kHalf, at::kBFloat16, type, "bytes",
                                                [&] { bytes++; });
  return bytes;
}
void myadd_out_cpu(const at::Tensor& a, const at::Tensor& b, at::Tensor& out) {
  auto x = a.accessor<float, 2>(), y = b.accessor<float, 2>(), z = out.accessor<float, 2>();
  for (const auto i : c10::irange(a.size(0))) {
    for (const auto j : c10::irange(a.size(1))) z[i][j] = x[i][j] + y[i][j];
  }
}

// One with a gradient in C++.
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;
at::Tensor cube(const at::Tensor& x) {
  static auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("tests_cpp::cube", "").typed<decltype(cube)>();
  return op.call(x);
}
at::Tensor cube_kernel(const at::Tensor& x) { return x * x * x; }
class Cube : public torch::autograd::Function<Cube> {
 public:
  static at::Tensor forward(AutogradContext* ctx, at::Tensor x) {
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({x});
    ctx->saved_data["factor"] = 3.0;
    return cube(x);
  }
  static tensor_list backward(AutogradContext* ctx, tensor_list grads) {
    auto x = ctx->get_saved_variables()[0];
    return {grads[0] * x * x * ctx->saved_data["factor"].toDouble()};
  }
};
at::Tensor cube_autograd(const at::Tensor& x) { return Cube::apply(x); }

struct Split : public torch::autograd::Function<Split> {
  static tensor_list forward(AutogradContext* ctx, std::vector<at::Tensor> xs, double k) {
    ctx->saved_data["k"] = k;
    ctx->saved_data["n"] = int64_t(xs.size());
    return {xs[0] * k, xs[1] + k};
  }
  static tensor_list backward(AutogradContext* ctx, tensor_list g) {
    return {g[0] * ctx->saved_data["k"].toDouble(), g[1], at::Tensor()};
  }
};
std::vector<at::Tensor> split(std::vector<at::Tensor> xs, double k) { return Split::apply(xs, k); }

std::tuple<at::Tensor, int64_t> kinds(at::Tensor x, std::optional<at::Tensor> y,
                                      at::IntArrayRef sizes, at::TensorList list, std::string text,
                                      std::vector<double> floats,
                                      std::optional<at::ScalarType> dtype, bool flag,
                                      const at::Scalar& number) {
  auto out = x.view(sizes).to(dtype.value_or(x.scalar_type()));
  if (y) out = out + *y;
  return {out * number, int64_t(list.size() + text.size() + floats.size()) + (flag ? 100 : 0)};
}
at::Tensor& fill_(at::Tensor& self, double value) {
  self.fill_(value);
  return self;
}

TORCH_LIBRARY_IMPL(tests_cpp, CPU, m) {  // before its definition
  m.impl("mymuladd", &mymuladd_cpu);
  m.impl("myadd_out", &myadd_out_cpu);
  m.impl("cube", TORCH_FN(cube_kernel));
}
TORCH_LIBRARY(tests_cpp, m) {
  m.def("mymuladd(Tensor a, Tensor b, float c=1.0) -> Tensor");
  m.def("myadd_out(Tensor a, Tensor b, Tensor(a!) out) -> ()");
  m.def("cube(Tensor x) -> Tensor");
  m.def(
      "kinds(Tensor x, Tensor? y, int[] sizes, Tensor[] list, str text, float[] floats, "
      "ScalarType? dtype, bool flag, Scalar number) -> (Tensor, int)",
      &kinds);
  m.def("fill_(Tensor(a!) self, float value) -> Tensor(a!)", fill_);
  m.def("plus_one",
        [](const at::Tensor& x, std::optional<int64_t> n) { return x + n.value_or(1); });
}
TORCH_LIBRARY_IMPL(tests_cpp, Autograd, m) { m.impl("cube", cube_autograd); }
TORCH_LIBRARY_IMPL(tests_cpp, Meta, m) {
  m.impl("cube", [](const at::Tensor& x) { return torch::empty_like(x); });
}
TORCH_LIBRARY_FRAGMENT(tests_cpp, m) {
  m.def("wrong(Tensor x, int n) -> Tensor", [](const at::Tensor& x) { return x; });
}

at::Tensor call_back(py::function f, at::Tensor x) {
  return f(x).cast<at::Tensor>() + torch::ones({2}, torch::dtype(torch::kFloat32));
}
std::string describe(at::Tensor x, at::ScalarType t, at::Device d, at::Scalar s) {
  std::ostringstream os;
  os << x.sizes() << " " << t << " " << d << " " << s << " "
     << torch::tensor({1, 2}).sum().item<int>();
  return os.str();
}

// Parts of tensors, memory of the program, modules.
std::vector<at::Tensor> parts(at::Tensor x, at::Scalar number) {
  using namespace torch::indexing;
  auto first = x.index({Slice(), 0}), last = x.index({"...", Slice(-1, None)});
  auto changed = x.clone();
  changed.index_put_({0, Slice(1, None)}, number);
  changed.index_put_({changed > 5}, changed.index({changed > 5}) * 2);
  static float kept[] = {1, 2, 3, 4};
  auto blob = torch::from_blob(kept, {2, 2}, torch::kFloat32).clone();
  torch::nn::Conv2d conv(torch::nn::Conv2dOptions(1, 2, 2).bias(false));
  torch::Tensor ones = torch::ones({1, 1, 3, 3});
  auto by_module = conv(ones);
  auto by_function = torch::conv2d(ones, conv->weight, {}, 1, 0);
  TORCH_CHECK(by_module.equal(by_function) &&
              by_function.equal(torch::conv2d(ones, conv->weight, {}, {1, 1}, {0, 0})));
  auto total = torch::full({1}, number.toDouble() + x.sum().item().toFloat());
  return {first, last, changed, blob, total, x.nonzero(), x[torch::tensor({1, 0})]};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("parts", &parts);
  m.def("forward", &lltm_forward, "LLTM forward");
  m.def("backward", &lltm_backward, "LLTM backward");
  m.def("split", &split);
  m.def("call_back", &call_back);
  m.def("describe", &describe);
  m.def("element_bytes", &element_bytes);
}
