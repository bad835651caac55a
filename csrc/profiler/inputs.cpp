#include "profiler/inputs.h"

#include <bit>

namespace rush::profiler {
namespace {

using Tag = Value::Tag;

void put(std::vector<int64_t>& to, IntList values) {
  to.insert(to.end(), values.begin(), values.end());
}

void put_tensor(std::vector<int64_t>& to, const Tensor& t) {
  if (!t.defined()) {
    to.push_back(-1);
    to.push_back(0);
    return;
  }
  to.push_back(int64_t(t.dtype()));
  to.push_back(t.dim());
  put(to, t.sizes());
  put(to, t.strides());
}

void put_number(std::vector<int64_t>& to, bool floating, double real, int64_t integer) {
  to.push_back(floating);
  to.push_back(floating ? std::bit_cast<int64_t>(real) : integer);
}

void put_value(std::vector<int64_t>& to, const Value& v) {
  // A complex number has no room; it is shown as an argument without a value.
  const bool shown = v.tag() != Tag::Scalar || !v.scalar().is_complex();
  to.push_back(int64_t(shown ? v.tag() : Tag::None));
  if (!shown) return;
  switch (v.tag()) {
    case Tag::Tensor:
      return put_tensor(to, v.tensor());
    case Tag::Tensors:
      to.push_back(int64_t(v.tensors().size()));
      for (const Tensor& t : v.tensors()) put_tensor(to, t);
      return;
    case Tag::Ints:
      to.push_back(int64_t(v.ints().size()));
      return put(to, v.ints());
    case Tag::Floats:
      to.push_back(int64_t(v.floats().size()));
      for (const double x : v.floats()) to.push_back(std::bit_cast<int64_t>(x));
      return;
    case Tag::Scalar:
      if (v.scalar().is_floating()) return put_number(to, true, v.scalar().to_double(), 0);
      return put_number(to, false, 0, v.scalar().to_int());
    case Tag::Float:
      return put_number(to, true, v.real(), 0);
    case Tag::Int:
    case Tag::Bool:
      return put_number(to, false, 0, v.integer());
    default:
      return;
  }
}

class Reader {
 public:
  explicit Reader(const int64_t* words) : at_(words) {}
  int64_t next() { return *at_++; }
  std::span<const int64_t> take(size_t n) { return {std::exchange(at_, at_ + n), n}; }
  PackedTensor tensor() {
    PackedTensor t{int(next()), {}, {}};
    const auto n = size_t(next());
    t.sizes = take(n);
    t.strides = take(n);
    return t;
  }

 private:
  const int64_t* at_;
};

}  // namespace

void pack_inputs(const OpEntry& entry, const Value* args, std::vector<int64_t>& to) {
  // `out` of the out form counts as an argument, as it does in PyTorch.
  to.push_back(int64_t(entry.args.size()));
  for (size_t i = 0; i < entry.args.size(); ++i) put_value(to, args[i]);
}

void pack_gradients(const Node& node, std::vector<int64_t>& to) {
  to.push_back(int64_t(node.results().size()));
  for (const ResultMeta& m : node.results()) {
    to.insert(to.end(), {int64_t(Tag::Tensor), int64_t(m.dtype), int64_t(m.sizes.size())});
    put(to, m.sizes);
    const size_t strides = to.size();
    to.resize(strides + m.sizes.size());
    int64_t step = 1;  // what lies end to end; the gradient itself is not known yet
    for (size_t i = m.sizes.size(); i-- > 0; step *= m.sizes[i]) to[strides + i] = step;
  }
}

std::vector<PackedInput> unpack_inputs(const int64_t* words) {
  Reader reader(words);
  std::vector<PackedInput> inputs(size_t(reader.next()));
  for (PackedInput& input : inputs) {
    input.tag = Tag(reader.next());
    switch (input.tag) {
      case Tag::Tensor:
        input.tensors.push_back(reader.tensor());
        break;
      case Tag::Tensors:
        for (int64_t n = reader.next(); n > 0; --n) input.tensors.push_back(reader.tensor());
        break;
      case Tag::Ints:
      case Tag::Floats:
        input.floating = input.tag == Tag::Floats;
        input.words = reader.take(size_t(reader.next()));
        break;
      case Tag::Scalar:
      case Tag::Float:
      case Tag::Int:
      case Tag::Bool:
        input.floating = reader.next() != 0;
        input.words = reader.take(1);
        break;
      default:
        break;
    }
  }
  return inputs;
}

}  // namespace rush::profiler
