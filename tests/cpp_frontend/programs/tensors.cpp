// tensors.cpp: what tensors, indexing, printing, data loaders and files do, checked by the program
// itself.
//
//   tensors FOLDER            checks everything, saves cpp.pt and list.pt
//   tensors FOLDER load       loads python.pt, saves computed.pt
//   tensors FOLDER damaged    loads all *.bad, and says for each what happened
#include <rushlight/rushlight.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <sstream>
#include <string>
#include <thread>

namespace {

namespace nn = rush::nn;
using namespace rush::indexing;  // NOLINT(google-build-using-namespace): as programs write it
using rush::Tensor;

int failures = 0;
#define EXPECT(...)                                         \
  do {                                                      \
    if (!(__VA_ARGS__)) {                                   \
      ++failures;                                           \
      std::printf("line %d: %s\n", __LINE__, #__VA_ARGS__); \
    }                                                       \
  } while (false)

template <class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const rush::Error& error) {
    return error.what();
  }
  return "";
}

std::string text(const auto& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

void check_tensors() {
  const Tensor x = rush::arange(6).view({2, 3});
  EXPECT(x.dtype() == rush::kLong && x.size(1) == 3 && x.dim() == 2 && x.numel() == 6);
  EXPECT(x.sum().item<int64_t>() == 15 && x.sum(0).equal(rush::tensor({3, 5, 7})));
  EXPECT(x.sum({0, 1}, true).sizes() == rush::Dims{1, 1});
  EXPECT(x.to(rush::kDouble).mean(1).equal(rush::tensor({1.0, 4.0}, rush::kDouble)));
  EXPECT(rush::cat({x, x}, 1).size(1) == 6 && rush::stack({x, x, x}).size(0) == 3);
  EXPECT((x + 1).equal(1 + x) && (2 - x).equal(-(x - 2)) && (x * 2).equal(x + x));
  EXPECT((x > 2).sum().item<int>() == 3 && (x == 2).any().item<bool>());
  EXPECT(rush::where(x > 2, x, 0).sum().item<int64_t>() == 12);
  EXPECT(rush::zeros(3).size(0) == 3 && rush::zeros({}).dim() == 0);
  EXPECT(rush::full({2, 2}, 7).dtype() == rush::kLong);
  EXPECT(rush::ones({2}, rush::dtype(rush::kHalf)).dtype() == rush::kHalf);
  EXPECT(rush::randn({2}, rush::TensorOptions().requires_grad(true)).requires_grad());
  EXPECT(rush::tensor({{1, 2}, {3, 4}}).t().index({0, 1}).item<int>() == 3);
  EXPECT(rush::tensor(2.5).dtype() == rush::kFloat &&
         rush::tensor({true, false}).dtype() == rush::kBool);
  EXPECT(rush::tensor(std::vector<int>{4, 5}).dtype() == rush::kLong);
  EXPECT(x.to(rush::kFloat).norm().item<float>() > 7.4F);
  EXPECT(rush::arange(2, 5, rush::kFloat).equal(rush::tensor({2.0, 3.0, 4.0})));
  EXPECT(x.to(rush::kCPU, rush::kDouble).dtype() == rush::kDouble && x.itemsize() == 8);
  EXPECT(x.nonzero().size(0) == 5 && rush::device(rush::kCPU).device(rush::kCPU, 0).device());
  EXPECT(x.slice(1, 1, std::nullopt).equal(x.index({Slice(), Slice(1, None)})));
  {
    const rush::InferenceMode inference;
    EXPECT(message_of([&] { rush::ones({2}).requires_grad_(); }).empty());
    const Tensor made = rush::ones({2});
    const rush::InferenceMode over(false);
    EXPECT(!message_of([&] { made.requires_grad_(); }).empty());
  }
  {
    const rush::NoGradGuard none;
    const Tensor leaf = rush::ones({2}).requires_grad_();
    EXPECT(!(leaf * 2).requires_grad());
    const rush::AutoGradMode again(true);
    EXPECT((leaf * 2).requires_grad());
  }
  const Tensor image = rush::ones({1, 1, 3, 3}), weight = rush::ones({1, 1, 2, 2});
  EXPECT(rush::conv2d(image, weight, {}, 1, 0).equal(rush::full({1, 1, 2, 2}, 4.0)));
  EXPECT(rush::conv2d(image, weight, {}, {1, 1}, {0, 0}).size(3) == 2);
  EXPECT(rush::conv2d(image, weight, {}, 1, "same").size(3) == 3);
  const Tensor v = rush::tensor({1.0, 2.0, 3.0, 4.0});
  EXPECT(v.var(0).equal(v.var()) && v.std(false).item<float>() < v.std().item<float>());
  EXPECT(std::get<1>(x.max(1)).equal(rush::tensor({2, 2})) && x.argmax().item<int>() == 5);
  EXPECT(x.split(2, 1).size() == 2 && x.split({1, 2}, 1)[1].size(1) == 2);

  Tensor y = rush::zeros({2, 2});
  y += 1;
  y *= rush::full({2, 2}, 3.0);
  EXPECT(y.sum().item<float>() == 12);
  float data[] = {1, 2, 3, 4, 5, 6};
  const Tensor blob = rush::from_blob(data, {3, 2});
  data[5] = 60;
  EXPECT(blob.accessor<float, 2>()[2][1] == 60 && blob.data_ptr<float>() == data);
  bool let_go = false;
  {
    const Tensor own = rush::from_blob(data, {6}, [&](void*) { let_go = true; });
  }
  EXPECT(let_go);

  EXPECT(message_of([&] { x.view({4, 4}); }) == "view: shape [4, 4] is invalid for 6 elements");
  EXPECT(message_of([&] { (void)x.data_ptr<float>(); }).find("int64") != std::string::npos);
  EXPECT(message_of([&] { (void)x.accessor<int64_t, 3>(); }).find("2 dimensions") !=
         std::string::npos);
  EXPECT(message_of([] { rush::tensor({{1, 2}, {3}}); }).find("same number of items") !=
         std::string::npos);
  EXPECT(message_of([] { rush::matmul(rush::ones({2, 3}), rush::ones({2, 3})); }) != "");
}

void check_indexing() {
  const Tensor x = rush::arange(24).view({2, 3, 4});
  EXPECT(x[1][2][3].item<int>() == 23 && x[-1].sizes() == rush::Dims{3, 4});
  EXPECT(x.index({0, Slice(), 1}).equal(rush::tensor({1, 5, 9})));
  EXPECT(x.index({"...", Slice(1, None, 2)}).sizes() == rush::Dims{2, 3, 2});
  EXPECT(x.index({Slice(None, -1), None, Ellipsis, 0}).sizes() == rush::Dims{1, 1, 3});
  EXPECT(x.index({rush::tensor({1, 0}), Slice(), rush::tensor({2, 3})}).sizes() ==
         rush::Dims{2, 3});
  EXPECT(x.index({x > 20}).equal(rush::tensor({21, 22, 23})));
  EXPECT(x.index({true}).sizes() == rush::Dims{1, 2, 3, 4});
  const Tensor y = x.clone();
  y.index_put_({0, Slice(1, None)}, -1).index_put_({y > 20}, rush::tensor({1, 2, 3}));
  EXPECT(y[0].sum().item<int>() == 6 - 8 && y[1][2].sum().item<int>() == 20 + 6);
  EXPECT(message_of([&] { x.index({2}); }).find("out of bounds") != std::string::npos);
  EXPECT(message_of([&] { x.index({0, 0, 0, 0}); }).find("too many indices") != std::string::npos);
  EXPECT(message_of([&] { x.index({Slice(None, None, -1)}); }).find("greater than zero") !=
         std::string::npos);
  EXPECT(message_of([&] { x.index({"a"}); }).find("\"...\"") != std::string::npos);
}

void check_gradients() {
  const Tensor x = rush::tensor({1.0, 2.0, 3.0}).requires_grad_();
  (x * x).sum().backward();
  EXPECT(x.grad().equal(rush::tensor({2.0, 4.0, 6.0})));
  const Tensor y = x.pow(3).sum();
  const Tensor first = rush::autograd::grad({y}, {x}, {}, std::nullopt, true)[0];
  const Tensor second = rush::autograd::grad({first.sum()}, {x})[0];
  EXPECT(second.allclose(6 * x.detach()));
  {
    const rush::NoGradGuard no_grad;
    EXPECT(!(x * 2).requires_grad());
  }
  EXPECT((x * 2).requires_grad() && !x.detach().requires_grad() && x.is_leaf());
  const Tensor part = x.index({Slice(1, None)}).sum();
  x.set_grad({});
  part.backward();
  EXPECT(x.grad().equal(rush::tensor({0.0, 1.0, 1.0})));
  const Tensor once = (x * x).sum();
  once.backward();
  EXPECT(message_of([&] { once.backward(); }) != "");
}

void check_printing() {
  EXPECT(text(rush::tensor({{1, 20}, {300, -4}})) == "   1   20\n 300   -4\n[ CPULongType{2,2} ]");
  EXPECT(text(rush::tensor({0.5, -1.25})) == "  0.5000\n -1.2500\n[ CPUFloatType{2} ]");
  EXPECT(text(rush::tensor(7)) == "7\n[ CPULongType{} ]");
  EXPECT(text(rush::zeros({2, 1, 2})).find("(2,.,.) = \n 0  0\n") != std::string::npos);
  EXPECT(text(rush::zeros({0, 3})) == "[ CPUFloatType{0,3} ]");
  EXPECT(text(Tensor()) == "[ Tensor (undefined) ]");
  EXPECT(text(rush::tensor({1e-20, 1.0})).find("1.0000e-20") != std::string::npos);
}

struct BlockImpl : nn::Cloneable<BlockImpl> {
  BlockImpl() { reset(); }
  void reset() override {
    linear = register_module("linear", nn::Linear(2, 2));
    scale = register_parameter("scale", rush::ones({2}));
  }
  Tensor forward(const Tensor& x) { return linear(x) * scale; }
  nn::Linear linear = nullptr;
  Tensor scale;
};
RUSH_MODULE(Block);

void check_modules() {
  const Block block;
  EXPECT(block->named_parameters().keys() ==
         std::vector<std::string>({"scale", "linear.weight", "linear.bias"}));
  EXPECT(block->modules().size() == 2 && block->modules(false).size() == 1);
  const auto copy = std::dynamic_pointer_cast<BlockImpl>(block->clone());
  EXPECT(copy->scale.equal(block->scale) && !copy->scale.is_same(block->scale));
  {
    const rush::NoGradGuard no_grad;
    copy->scale.fill_(5);
  }
  EXPECT(block->scale.sum().item<float>() == 2);
  const Tensor held = block->linear->weight;
  block->to(rush::kDouble);
  EXPECT(held.dtype() == rush::kDouble && block->scale.dtype() == rush::kDouble);
  block->eval();
  EXPECT(!block->linear->is_training());
  EXPECT(block->as<Block>() != nullptr && block->as<nn::Linear>() == nullptr);

  nn::Sequential net({{"first", nn::Linear(3, 4)}, {"act", nn::Functional(rush::relu)}});
  net->push_back("last", nn::Linear(4, 2));
  EXPECT(net->named_parameters().contains("last.bias") && net->size() == 3);
  EXPECT(net->forward(rush::ones({5, 3})).sizes() == rush::Dims{5, 2});
  EXPECT(text(*net).find("(first): rush::nn::Linear(in_features=3") != std::string::npos);
  EXPECT(net->at<nn::LinearImpl>(0).options.out_features() == 4);
  int calls = 0;
  net->apply([&](nn::Module&) { ++calls; });
  EXPECT(calls == 4);
  nn::ModuleList list(nn::Linear(1, 1), nn::ReLU());
  EXPECT(list->size() == 2 && list->parameters().size() == 2);

  EXPECT(message_of([] {
           nn::Linear empty = nullptr;
           empty(rush::ones({1}));
         }).find("holds no module") != std::string::npos);
  EXPECT(message_of([&] {
           block->register_module("linear", nn::ReLU());
         }).find("is there already") != std::string::npos);
  EXPECT(message_of([&] { block->register_buffer("a.b", {}); }).find("no dots") !=
         std::string::npos);
  EXPECT(message_of([] { nn::Conv2d(nn::Conv2dOptions(3, 4, 3).groups(2)); }).find("divisible") !=
         std::string::npos);

  nn::Linear line(2, 1);
  const Tensor loss = (line(rush::ones({3, 2})) * 100).sum();
  loss.backward();
  EXPECT(nn::utils::clip_grad_norm_(line->parameters(), 1.0) > 400);
  EXPECT(nn::utils::clip_grad_norm_(line->parameters(), 1.0) < 1.01);
  const Tensor flat = nn::utils::parameters_to_vector(line->parameters());
  nn::utils::vector_to_parameters(flat.detach() * 0, line->parameters());
  EXPECT(line->weight.abs().sum().item<float>() == 0);

  // Groups with numbers of their own.
  using rush::optim::OptimizerParamGroup;
  rush::optim::SGD optimizer(
      {OptimizerParamGroup({line->weight}),
       OptimizerParamGroup({line->bias}, std::make_unique<rush::optim::SGDOptions>(0.5))},
      rush::optim::SGDOptions(0.25));
  line->weight.set_grad(rush::ones({1, 2}));
  line->bias.set_grad(rush::ones({1}));
  optimizer.step();
  EXPECT(line->weight.sum().item<float>() == -0.5F && line->bias.item<float>() == -0.5F);
  EXPECT(message_of([&] {
           optimizer.add_param_group(OptimizerParamGroup({line->bias}));
         }).find("more than one group") != std::string::npos);
}

struct Squares : rush::data::datasets::Dataset<Squares> {
  rush::data::Example<> get(size_t i) override {
    if (i == broken) throw std::runtime_error("example 7 cannot be read");
    return {rush::full({2}, double(i * i)), rush::tensor(int64_t(i))};
  }
  std::optional<size_t> size() const override { return 23; }
  size_t broken = 1000;
};

void check_loaders() {
  using rush::data::DataLoaderOptions;
  using rush::data::samplers::SequentialSampler;
  const auto stacked = [](Squares data) { return data.map(rush::data::transforms::Stack<>()); };
  for (const size_t workers : {0, 1, 3}) {
    const auto loader = rush::data::make_data_loader<SequentialSampler>(
        stacked({}), DataLoaderOptions(5).workers(workers));
    for (int pass = 0; pass < 3; ++pass) {
      int64_t next = 0;
      for (auto& batch : *loader) {
        EXPECT(batch.target[0].template item<int64_t>() == next);
        next += batch.target.size(0);
        if (pass == 1 && next >= 10) break;  // the pass after it begins at the beginning
      }
      EXPECT(next == (pass == 1 ? 10 : 23));
    }
  }
  rush::manual_seed(0);
  const auto shuffled = rush::data::make_data_loader(
      stacked({}), DataLoaderOptions(4).workers(2).drop_last(true).enforce_ordering(false));
  std::vector<int64_t> seen;
  for (auto& batch : *shuffled) {
    EXPECT(batch.data.size(0) == 4);
    for (int64_t i = 0; i < 4; ++i) seen.push_back(batch.target[i].template item<int64_t>());
  }
  std::sort(seen.begin(), seen.end());
  EXPECT(seen.size() == 20 && std::unique(seen.begin(), seen.end()) == seen.end());

  Squares bad;
  bad.broken = 7;
  const auto failing = rush::data::make_data_loader<SequentialSampler>(
      stacked(bad), DataLoaderOptions(5).workers(2));
  int batches = 0;
  std::string reason;
  try {
    for (auto& batch : *failing) batches += batch.data.size(0) == 5;
  } catch (const std::exception& error) {
    reason = error.what();
  }
  EXPECT(batches == 1 && reason == "example 7 cannot be read");
  EXPECT(message_of([] { rush::data::datasets::MNIST("/nowhere"); }).find("cannot open") !=
         std::string::npos);
}

void check_threads() {
  nn::Linear net(4, 4);
  const Tensor x = rush::ones({2, 4});
  const Tensor expected = net(x).detach();
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) wrong += !net(x).detach().equal(expected);
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT(wrong == 0);
}

void check_files(const std::string& folder) {
  nn::Sequential net(nn::Linear(4, 3), nn::BatchNorm1d(3));
  {
    const rush::NoGradGuard no_grad;
    net->at<nn::LinearImpl>(0).weight.fill_(1);
  }
  rush::save(net, folder + "/cpp.pt");
  rush::save(std::vector<Tensor>{rush::tensor({1, 2}), rush::full({1, 1}, 0.5)},
             folder + "/list.pt");
  std::stringstream bytes;
  const Tensor base = rush::arange(10), view = base.index({Slice(2, 8, 2)});
  rush::save(view, bytes);
  Tensor again;
  rush::load(again, bytes);
  EXPECT(again.equal(view));
  nn::Linear other(5, 5);
  EXPECT(message_of([&] { rush::load(other, folder + "/cpp.pt"); }).find("no 'weight'") !=
         std::string::npos);
  EXPECT(message_of([&] {
           rush::load(again, folder + "/cpp.pt");
         }).find("does not hold a tensor") != std::string::npos);
  EXPECT(message_of([&] { rush::load(again, folder + "/no such file"); }) != "");
  EXPECT(message_of([&] { rush::save(again, "/nowhere/at.pt"); }).find("cannot write") !=
         std::string::npos);
}

void load_pythons(const std::string& folder) {
  nn::Sequential net(nn::Linear(4, 3), nn::BatchNorm1d(3));
  rush::load(net, folder + "/python.pt");
  net->eval();
  const rush::NoGradGuard no_grad;
  rush::save(net->forward(rush::ones({2, 4})), folder + "/computed.pt");
}

void load_damaged(const std::string& folder) {
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() != ".bad") continue;
    std::string what = "loaded";
    try {
      nn::Linear net(4, 3);
      rush::load(net, file.path().string());
    } catch (const rush::Error& error) {
      what = std::string("refused, ") + error.what();
    }
    std::replace(what.begin(), what.end(), '\n', ' ');
    std::printf("%s: %s\n", file.path().filename().c_str(), what.c_str());
  }
}

// As programs for PyTorch are written, with another namespace.
namespace torch = rush;

struct PairImpl : torch::nn::Module {
  PairImpl(int64_t in, int64_t out) : first(in, out), second(out, 1) {
    register_module("first", first);
    register_module("second", second);
  }
  torch::Tensor forward(torch::Tensor x) { return second(torch::relu(first(x))); }
  torch::nn::Linear first, second;
};
TORCH_MODULE(Pair);

void check_names_of_pytorch() {
  using Sequential = torch::data::samplers::SequentialSampler;
  const int64_t batch = 3;  // a variable: no sampler
  Pair pair(4, 8);
  const auto dataset = torch::data::datasets::TensorDataset(torch::ones({7, 4}))
                           .map(torch::data::transforms::Stack<torch::data::TensorExample>());
  int64_t seen = 0;
  const auto in_order = torch::data::make_data_loader<Sequential>(dataset, batch);
  for (auto& b : *in_order) seen += pair->forward(b.data).size(0);
  const auto shuffled = torch::data::make_data_loader(dataset, batch);
  for (auto& b : *shuffled) seen += b.data.size(0);
  EXPECT(seen == 14);
  EXPECT(torch::str("step ", 3, ".pt") == "step 3.pt");
  torch::Device device(torch::kCPU);
  AT_ASSERT(!pair->parameters().empty() && torch::ones({2}).to(device).sum().item<float>() == 2);
  bool raised = false;
  try {
    TORCH_CHECK(batch > 3, "too few: ", batch);
  } catch (const rush::Error& error) {
    raised = std::string(error.what()) == "too few: 3";
  }
  EXPECT(raised);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : ".", task = argc > 2 ? argv[2] : "";
  try {
    if (task == "load") return load_pythons(folder), 0;
    if (task == "damaged") return load_damaged(folder), 0;
    check_tensors();
    check_indexing();
    check_gradients();
    check_printing();
    check_modules();
    check_loaders();
    check_threads();
    check_files(folder);
    check_names_of_pytorch();
  } catch (const std::exception& error) {
    std::printf("tensors: %s\n", error.what());
    return 1;
  }
  if (failures == 0) std::printf("all is well\n");
  return failures != 0;
}
