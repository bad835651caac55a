// The tables of neural networks. See device/table.h.
#include <atomic>

#include "device/nn/attention.h"
#include "device/nn/convolution.h"
#include "device/nn/dropout.h"
#include "device/nn/embedding.h"
#include "device/nn/image.h"
#include "device/nn/loss.h"
#include "device/nn/norm.h"
#include "device/nn/pool.h"
#include "device/nn/rnn.h"
#include "device/nn/softmax.h"

namespace rush {

constinit DeviceTable<AttentionLoops> attention_loops;
constinit DeviceTable<ConvolutionLoops> convolution_loops;
constinit DeviceTable<DropoutLoops> dropout_loops;
constinit DeviceTable<EmbeddingLoops> embedding_loops;
constinit DeviceTable<ImageLoops> image_loops;
constinit DeviceTable<LossLoops> loss_loops;
constinit DeviceTable<NormLoops> norm_loops;
constinit DeviceTable<PoolLoops> pool_loops;
constinit DeviceTable<RnnLoops> rnn_loops;
constinit DeviceTable<SoftmaxLoops> softmax_loops;

namespace {
constinit std::atomic<uint32_t> g_attention_backends{kMathAttention | kFlashAttention |
                                                     kEfficientAttention | kCudnnAttention};
}
uint32_t attention_backends() { return g_attention_backends.load(std::memory_order_relaxed); }
void set_attention_backends(uint32_t bits) {
  g_attention_backends.store(bits, std::memory_order_relaxed);
}

}  // namespace rush
