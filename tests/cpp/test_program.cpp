// Programs in C++: traced, run from several threads, written, read and trained without Python.
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "autograd/meta.h"
#include "core/modes.h"
#include "frontend/autograd.h"
#include "frontend/optim.h"
#include "frontend/random.h"
#include "jit/archive.h"
#include "jit/json.h"
#include "jit/print.h"
#include "jit/program.h"
#include "jit/program_file.h"
#include "jit/tracer.h"
#include "ops/framework/operators.h"
#include "testing.h"

using namespace rush;
using jit::IValue;

namespace {

Tensor random(std::vector<int64_t> sizes) { return randn(IntList(sizes)); }

bool same(const Tensor& a, const Tensor& b) { return equal(a, b); }

struct Layer {
  Tensor weight = random({4, 3}), bias = random({4});
  Layer() {
    set_requires_grad(weight, true);
    set_requires_grad(bias, true);
  }
  Tensor operator()(const Tensor& x) const { return relu(linear(x, weight, bias)) * 2.0; }

  jit::CodePointer traced() const {
    jit::Code code;
    code.state = {{"weight", true, false, true}, {"bias", true, false, true}};
    const Tensor state[] = {weight, bias};
    const auto tracer = std::make_shared<jit::Tracer>(code, state);
    const Tensor x = tracer->add_input("x", random({2, 3})).toTensor();
    tracer->start();
    const Tensor y = (*this)(x);
    tracer->stop();
    return tracer->finish("forward", y);
  }
};

struct StringSink final : jit::ByteSink {
  std::string bytes;
  void write(std::span<const char> more) override { bytes.append(more.data(), more.size()); }
};

TEST(a_trace_has_the_outermost_ops) {
  const Layer layer;
  const jit::CodePointer code = layer.traced();
  EXPECT(jit::shown(*code, "forward") ==
         "def forward(self, x: %0):\n"
         "  %1 = linear(%0, self.weight, self.bias)\n"
         "  %2 = relu(%1)\n"
         "  %3 = mul(%2, 2)\n"
         "  return %3\n");
  EXPECT(!jit::is_tracing());
}

TEST(threads_run_one_program) {
  const Layer layer;
  const jit::CodePointer code = layer.traced();
  jit::Variables variables{{layer.weight, layer.bias}, {}};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k) {
    threads.emplace_back([&, k] {
      const NoGradGuard no_grad;
      const Tensor x = full(std::vector<int64_t>{5, 3}, Scalar(0.1 * k));
      const Tensor right = layer(x);
      for (int i = 0; i < 50; ++i) {
        if (!same(code->run("forward", variables, {IValue(x)}), right)) ++wrong;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT(wrong == 0);
}

TEST(files_and_training) {
  const Layer layer;
  StringSink sink;
  jit::Variables variables{{layer.weight, layer.bias}, {}};
  jit::write_program(sink, *layer.traced(), variables, {{"notes", "text"}});
  const std::string path = "/tmp/rushlight_test_program_" + std::to_string(getpid()) + ".rush";
  std::FILE* file = std::fopen(path.c_str(), "wb");
  std::fwrite(sink.bytes.data(), 1, sink.bytes.size(), file);
  std::fclose(file);
  const Program net = jit::load(path);
  std::remove(path.c_str());
  const Tensor x = random({6, 3});
  EXPECT(same(net({x}), layer(x)));
  EXPECT(net.named_parameters()[1].first == "bias" && net.buffers().empty());

  optim::SGDOptions options;
  options.lr(0.1);
  optim::SGD sgd(net.parameters(), options);
  const Tensor before = clone(detach(net.parameters()[1]));
  const Tensor loss = sum(net({x}));
  backward(loss);
  const Tensor grad = grad_of(net.parameters()[1]);
  sgd.step();
  EXPECT(allclose(detach(net.parameters()[1]), before - grad * 0.1));
  sgd.zero_grad();
  EXPECT(!grad_of(net.parameters()[1]).defined());
}

TEST(inputs_are_checked) {
  const Layer layer;
  const jit::CodePointer code = layer.traced();
  jit::Variables variables{{layer.weight, layer.bias}, {}};
  const auto message = [&](std::vector<IValue> inputs) {
    return testing::message_of([&] { code->run("forward", variables, inputs); });
  };
  EXPECT(message({}).find("expected 1 inputs, got 0") != std::string::npos);
  EXPECT(message({IValue::tuple({})}).find("now it is a tuple of 0 items") != std::string::npos);
  EXPECT(message({random({2, 9})}).find("in instruction 0") != std::string::npos);
}

TEST(json_is_strict) {
  const auto fault = [](std::string_view text) {
    return testing::message_of([&] { jit::Json::parse(text, "text"); });
  };
  for (const char* text :
       {"{\"a\":[1,-2,3.5e2,true,null,\"\\u00e9\\ud83d\\ude00\\n\"]}", "[]", "0", "-0.0", "1e-7"}) {
    const std::string again = jit::Json::parse(text, "text").text();
    EXPECT(jit::Json::parse(again, "text").text() == again);
  }
  for (const char* text :
       {"", "{", "[1,]", "01", "+1", "1.", ".5", "1e", "nul", "\"\x01\"", "\"\\x\"", "\"\xff\"",
        "\"\\ud800\"", "{\"a\":1,\"a\":2}", "[1] 2", "9223372036854775808", "1e999", "'a'", "\"\\"})
    EXPECT(fault(text).find("not valid JSON") != std::string::npos);
  EXPECT(fault(std::string(301, '[')).find("nested") != std::string::npos);
}

TEST(sums_of_zip_files) {
  EXPECT(jit::crc32(std::string_view("123456789")) == 0xCBF43926u);
  EXPECT(jit::crc32(std::string_view("6789"), jit::crc32(std::string_view("12345"))) ==
         0xCBF43926u);
  // Long runs are folded; single bytes go through the tables.
  std::string bytes;
  for (size_t i = 0; i < 700; ++i) bytes += char(i * i * 31 + i / 7);
  for (size_t begin = 0; begin < 20; ++begin) {
    uint32_t sum = 0;
    for (size_t end = begin; end < bytes.size(); ++end) {
      EXPECT(jit::crc32(std::string_view(bytes).substr(begin, end - begin)) == sum);
      sum = jit::crc32(std::string_view(bytes).substr(end, 1), sum);
    }
  }
}

TEST(optimisers_check_their_options) {
  const Layer layer;
  optim::AdamOptions options;
  options.betas({1, 0.999});
  EXPECT(testing::message_of([&] { optim::Adam({layer.weight}, options); }) ==
         "Adam: beta1 must be in [0, 1), got 1");
  EXPECT(testing::message_of([&] { optim::SGD(std::vector<Tensor>{}, {}); }) ==
         "optimizer: there are no parameters");
}

}  // namespace
