// weight_dropout.h: which weights of attention dropout keeps. Compiled by g++ and NVRTC.
//
// Note [Dropout of weights]
// Eight keys of a query share a block of random words, and two of them a word, the even one its
// lower half. A weight is dropped if the half's lower 15 bits reach `limit`, so that probabilities
// are multiples of 2^-15. The words are Philox4x32-7's: seven rounds are the fewest that pass the
// tests of its authors. The counter is made of the place of the eight keys, the query, the head
// (counted through all batches) and the call.
#pragma once

#include "functors/philox.h"

namespace rush {

struct WeightDropout {
  static constexpr int kKeys = 8, kRounds = 7;
  static constexpr u32 kOnes = 0x10001;  // a one in either half

  u32 seed[2], call;
  u32 added;  // to 15 bits in either half: what reaches the limit gets the half's upper bit

  RUSH_FN WeightDropout(u64 seed_, u64 call_, float keep)
      : seed{u32(seed_), u32(seed_ >> 32) ^ u32(call_ >> 32)},
        call(u32(call_)),
        added((0x8000u - u32(keep * 32768.0f + 0.5f)) * kOnes) {}

  RUSH_FN Philox4 words(u32 eight, u32 query, u32 head) const {
    return philox_raw<kRounds>(Philox4{{eight, query, head, call}}, seed[0], seed[1]);
  }
  // Bits 15 and 31: whether the weights of a word's two keys are dropped. The others are zero.
  RUSH_FN u32 dropped(u32 word) const { return ((word & 0x7fff * kOnes) + added) & 0x8000 * kOnes; }
};

}  // namespace rush
