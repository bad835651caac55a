// Weights kept in another layout: here one that negates every element, so that each copy tells
// which contents it was made of.
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "core/storage.h"
#include "cpu/nn/weight_layouts.h"
#include "ops/framework/operators.h"
#include "testing.h"

using namespace rush;

namespace {

const WeightLayout kLayout{1, 2, 3}, kOther{1, 2, 4};

Tensor weight(int64_t n = 64) { return full(Dims{n}, 1, DType::Float32); }

void negate(void* memory, const void* context) {
  const Tensor& w = *static_cast<const Tensor*>(context);
  for (int64_t i = 0; i < w.numel(); ++i) static_cast<float*>(memory)[i] = -w.data<float>()[i];
}
Ref<Storage> negated(const Tensor& w, const WeightLayout& layout = kLayout, bool at_once = true) {
  return weight_in_layout(w, layout, size_t(w.nbytes()), at_once, negate, &w);
}
float first(const Ref<Storage>& s) { return *static_cast<const float*>(s->data()); }

}  // namespace

TEST(a_copy_serves_until_somebody_writes) {
  const Tensor w = weight();
  const auto a = negated(w), b = negated(w);
  EXPECT(a == b && first(a) == -1);
  add_(w, w);
  const auto c = negated(w);
  EXPECT(!(c == a) && first(c) == -2 && first(a) == -1);
}

TEST(writes_through_other_tensors_count) {
  const Tensor w = weight();
  negated(w);
  const Tensor other = make_tensor(w.storage(), Dims{4}, Dims{2}, 0, DType::Float32);
  fill_(other, wrap_number(5));  // its version counter is its own
  EXPECT(first(negated(w)) == -5);
}

TEST(layouts_offsets_and_strides_are_told_apart) {
  const Tensor w = weight();
  const Tensor tail = slice(w, 0, 32, 64, 1), sparse = slice(w, 0, 0, 64, 2);
  const auto a = negated(w), b = negated(w, kOther), c = negated(tail), d = negated(sparse);
  EXPECT(!(a == b) && !(a == c) && !(a == d) && !(c == d));
  EXPECT(negated(w, kOther) == b && negated(sparse) == d);
}

TEST(in_training_the_second_call_keeps) {
  const Tensor w = weight();
  const int64_t before = weight_layout_stats().copies;
  const auto a = negated(w, kLayout, false);
  EXPECT(weight_layout_stats().copies == before);
  const auto b = negated(w, kLayout, false);
  EXPECT(weight_layout_stats().copies == before + 1);
  EXPECT(!(a == b) && negated(w, kLayout, false) == b);
}

TEST(what_cannot_be_watched_is_not_kept) {
  const Tensor lent = weight();
  negated(lent);
  const int64_t before = weight_layout_stats().copies;
  lent.storage()->expose();
  *lent.data<float>() = 9;
  EXPECT(first(negated(lent)) == -9);
  EXPECT(weight_layout_stats().copies == before - 1);

  float memory[64] = {3};
  const auto nothing = [](void*) noexcept {};
  const Tensor foreign = make_tensor(Storage::wrap(memory, sizeof memory, {}, nothing, nullptr),
                                     Dims{64}, Dims{1}, 0, DType::Float32);
  EXPECT(first(negated(foreign)) == -3);
  memory[0] = 4;
  EXPECT(first(negated(foreign)) == -4);
  EXPECT(negated(weight(), {}).get() != nullptr);  // a layout without a description
}

TEST(copies_are_bounded_and_go_with_their_storage) {
  const auto before = weight_layout_stats();
  {
    const Tensor w = weight(1024);
    for (int64_t i = 0; i < 20; ++i) negated(w, {i});
    EXPECT(weight_layout_stats().bytes - before.bytes <= 2 * w.nbytes());
    EXPECT(weight_layout_stats().copies > before.copies);
  }
  EXPECT(weight_layout_stats().copies == before.copies);
  EXPECT(weight_layout_stats().bytes == before.bytes);
}

TEST(readers_and_a_writer) {
  const Tensor w = weight(16);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::atomic<float> written{1};  // before the weight is told
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!stop) {
        const float least = written.load();
        const auto copy = weight_in_layout(
            w, kLayout, 4, true,
            [](void* memory, const void* context) {
              std::memcpy(memory, static_cast<const Tensor*>(context)->data(), 4);
            },
            &w);
        if (first(copy) < least) ++wrong;
      }
    });
  }
  for (int i = 2; i < 2000; ++i) {
    fill_(w, wrap_number(i));
    written = float(i);
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT(wrong == 0);
}
