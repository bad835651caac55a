// write_at_args.h: arguments of write_at.cu, for the host and the kernels.
#pragma once

#include "cuda/kernels/args.h"

namespace rush {

inline constexpr int kMostWrites = 2;
struct WriteAtArgs {
  struct Write {
    void* out;
    const void* source;
    const i64* index;             // the only one
    i64 lines;                    // elements that are written, at out[i + index * stride]
    i64 size, stride;             // along the indexed dim
    u64 launch;                   // number, for fault.h
    Nest<u32, 2> nest;            // out, source
    unsigned first;               // the block that begins with it
    bool wraps;                   // negative ones count from the end
    i64 out_bytes, source_bytes;  // for the host: how far both reach
  };
  int count;
  IndexFault* fault;
  Write writes[kMostWrites];
};

}  // namespace rush
