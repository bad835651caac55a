// host_device.h: marks functions that kernels of extensions call, where nvcc compiles them.
#pragma once

#ifdef __CUDACC__
#define RUSH_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define RUSH_HOST_DEVICE inline
#endif
