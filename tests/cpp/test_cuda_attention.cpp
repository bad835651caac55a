// The kernels of attention.cu and attention_decode.cu without a GPU.
#include "tensor_core_on_cpu.h"

#include "cuda/kernels/attention.cu"
#include "cuda/kernels/attention_decode.cu"

#include "attention_problems.h"

// Odd sizes, several tiles.
TEST(bfloat16_heads) { run<bfloat16, 32, 64, 64, true, 0>({2, 1, 70, 81, 32, 32}, 0.02); }
TEST(half_heads_causal_and_shared) {
  run<half, 32, 64, 64, true, 0>({2, 2, 81, 70, 24, 32, true}, 0.004);
}
TEST(half_heads_with_masks) {
  run<half, 32, 64, 64, true, 0, kMasked>({1, 1, 17, 40, 32, 16, false, 1}, 0.004);
  run<half, 32, 64, 64, true, 0, 3>({1, 1, 17, 40, 32, 32, true, 2, 0.25f}, 0.008);
}
TEST(half_heads_of_128) { run<half, 128, 64, 32, true, 1>({1, 1, 20, 40, 128, 96}, 0.01); }
TEST(half_heads_of_256) { run<half, 256, 32, 16, true, 1>({1, 1, 20, 40, 200, 256}, 0.02); }
TEST(dropout_over_several_tiles) {
  run<half, 32, 64, 64, true, 0, kDropout>({2, 1, 70, 133, 32, 32, false, 0, 0.4f}, 0.008);
}
TEST(one_query_of_heads_that_share_keys) {
  run<bfloat16, 32, 64, 64, true, 0>({8, 4, 1, 300, 32, 32}, 0.02);
  run<half, 64, 64, 64, true, 0>({3, 3, 1, 129, 64, 40}, 0.004);
  run<half, 32, 64, 64, true, 0, kMasked>({4, 2, 1, 65, 32, 32, false, 2}, 0.004);
  run<half, 32, 64, 64, true, 0, kMasked>({4, 2, 1, 65, 32, 32, false, 3}, 0.004);
}
TEST(few_queries) {
  run<half, 32, 64, 64, true, 0>({4, 2, 5, 130, 32, 24}, 0.004);
  run<half, 128, 64, 32, true, 1>({1, 1, 16, 70, 128, 128}, 0.01);
  run<half, 32, 64, 64, true, 0, kMasked>({2, 1, 9, 200, 30, 32, false, 1}, 0.004);  // not aligned
}
TEST(float_heads) { run<float, 32, 64, 64, true, 0>({1, 1, 70, 81, 32, 32}, 3e-6); }
TEST(float_heads_not_aligned_with_a_mask) {
  run<float, 32, 64, 64, true, 0, 3>({1, 1, 18, 35, 30, 21, true, 1, 0.2f}, 3e-6);
}
TEST(float_heads_rounded) { run<float, 64, 32, 32, false, 0>({1, 1, 20, 33, 64, 64}, 4e-4); }
TEST(float_heads_of_128) { run<float, 128, 16, 16, true, 1>({1, 1, 20, 20, 100, 128}, 1e-5); }
