// origin.h: what an image in memory was made of, where that tells its values without reading it.
//
// Note [What is known without being read]
// An activation behind a batch norm saves its result y: where that lies between its limits the gradient
// passes. The norm's backward reads its input x twice, for the sums and for the gradient, and y is made of
// x by one multiply-add with numbers of the channel, and comparisons. So both passes compute y, by
// forward's formula and so with its bits, and read the gradient and x alone; the gradient behind the
// activation is not written for the second one.
// - When the queue has computed y from an x in memory it leaves an Origin with the memory of y.
// - That holds until something that it is about is written to: y, x, or the norm's weight, bias and
//   statistics. Each of their storages has a number that changes before a write, in whatever way
//   (before_write_to() in core/layout.h). What can be written to unseen has no part in it.
// - It owns the numbers of the channels, and not x, which must not live longer for it: who asks has x.
//   No number is given twice, so what has the address of x by now is not taken for x.
// - It is used in the stream where it was left, and in the recording of a graph where it was left: a
//   replay writes without a word.
#pragma once

#include <memory>

#include "device/fused.h"

namespace rush::deferred {

struct Origin {
  RowStep row;           // RowOp::Channels, of x
  FusedStep activation;  // of its result; where its operands are is not looked at
  Origin();
  ~Origin();
  Origin(const Origin&) = delete;
  Origin& operator=(const Origin&) = delete;
};

// y in memory is what the activation makes of what the norm makes of x, which is in memory. From now on
// y knows it, unless something of this can change unseen.
void leave_origin(const Tensor& y, const Tensor& x, const RowStep& row,
                  const FusedStep& activation);
// What y was made of x by, if nothing has changed since: null where it is not known.
std::shared_ptr<const Origin> origin_of(const Tensor& y, const Tensor& x);
// Before the memory is written to; null: any memory.
void forget_origins(const Storage* written);

// Is anything left at all? For measurements of what it is worth.
RUSH_API bool leaves_origins();
RUSH_API void set_leaves_origins(bool on);

}  // namespace rush::deferred
