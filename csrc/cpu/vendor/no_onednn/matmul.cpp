#include "cpu/vendor/onednn_matmul.h"

namespace rush::onednn {

bool available() { return false; }
void set_wanted(bool) {}
bool wanted() { return false; }
std::optional<IsaLevel> opened_level() { return std::nullopt; }
bool has_bfloat16() { return false; }
bool gemm(const Product<float>&) { return false; }
bool gemm(int64_t, int64_t, int64_t, Matrix<const bfloat16>, Matrix<const bfloat16>,
          Matrix<bfloat16>) {
  return false;
}
bool gemm(int64_t, int64_t, int64_t, Matrix<const bfloat16>, Matrix<const bfloat16>,
          Matrix<float>) {
  return false;
}

}  // namespace rush::onednn
