// fused_rows.h: the step over rows of a FusedWork, by blocks of whole rows.
#pragma once

#include <memory>

#include "device/fused.h"

namespace rush {

class FusedRows {
 public:
  // For `elements` in all.
  static std::unique_ptr<FusedRows> make(const RowStep& step, DType type, int64_t elements);
  virtual ~FusedRows() = default;

  int64_t width() const { return width_; }
  // As many rows in turn have to be worked on by one thread, in their order; 1: in any way.
  int64_t unit() const { return unit_; }
  // `n` elements from number `first` on, all of one unit and of whole rows.
  virtual void run(char* out, const char* a, const char* b, int64_t first, int64_t n) = 0;
  // After all rows.
  virtual void finish() {}

 protected:
  int64_t width_ = 1, unit_ = 1;
};

}  // namespace rush
