// The kernels of attention_hopper.cu and attention_grads_hopper.cu without a GPU: by the products of warpgroups.
#include "tensor_core_on_cpu.h"

#include "cuda/kernels/attention_grads_hopper.cu"
#include "cuda/kernels/attention_hopper.cu"

#include "attention_problems.h"

TEST(heads_of_64) { run<bfloat16, 64, 64, 64, true, 0>({1, 1, 70, 81, 64, 64}, 0.02); }
TEST(heads_of_64_causal_and_shared) {
  run<half, 64, 64, 64, true, 0>({2, 2, 81, 70, 56, 64, true}, 0.004);
}
TEST(heads_of_64_with_masks) {
  run<half, 64, 64, 64, true, 0, kMasked>({1, 1, 17, 40, 64, 40, false, 1}, 0.004);
  run<half, 64, 64, 64, true, 0, 3>({1, 1, 66, 71, 61, 64, true, 2, 0.25f}, 0.01);
  run<half, 64, 64, 64, true, 0, kMasked>({2, 1, 130, 138, 64, 64, false, 3}, 0.004);
}
TEST(heads_of_64_with_dropout) {
  run<half, 64, 64, 64, true, 0, kDropout>({2, 1, 33, 133, 64, 64, false, 0, 0.4f}, 0.008);
}
TEST(heads_of_128) { run<half, 128, 64, 32, true, 1>({1, 1, 20, 70, 128, 96}, 0.01); }
TEST(heads_of_128_of_several_blocks) {
  run<bfloat16, 128, 64, 32, true, 1>({2, 2, 201, 197, 128, 120, true}, 0.03);
}
