// attention_hopper.cu: attention.cu with the products of whole warpgroups, for heads of 64 and 128
// in half precision; see warpgroup.h. Compiled for sm_90a alone.
#define RUSH_WARPGROUPS
#include "cuda/kernels/attention.cu"
