#include "device/linalg.h"

namespace rush {

constinit DeviceTable<ProductLoops> product_loops;
constinit DeviceTable<MatrixLoops> matrix_loops;

}  // namespace rush
