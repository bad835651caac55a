// deferred.h: pointwise steps that wait, so that they can run in one pass (device/fused.h).
//
// Inside a compiled function each thread has a queue of recipes for its pending results (Note
// [Pending results] in core/layout.h). It runs as a whole as soon as anything of it is asked for,
// before anything is written to that it may read, and when the function returns.
//
// Note [What runs of a queue]
// - A result that nobody holds any more, and that no other step reads, is not computed.
// - Steps of one shape, device and order of dims form a group, with one step over rows at most, which runs in one pass if the device
//   can do that, else step by step. A step joins a group unless something between them has to come
//   first. Groups run in an order in which each finds its inputs.
// - Or with one join at most. Steps that only an operand of it is computed from come with it: Note
//   [Parts of a join] in device/fused.h. Such a step waits on where somebody holds its result, who may never use it.
// - Within a group only results that somebody holds, or that another group reads, go to memory.
//
// What comes out is the same, bit for bit, as without all this.
//
// Note [Pending results and threads]
// A queue belongs to a thread. Another thread that meets a pending result (a tensor handed over
// inside the function; the engine's threads) computes it by itself, from copies of the recipes, and
// whoever is first installs the storage. Its owner writes to what the recipes read only after it has
// run them itself, and so installed its own results: what the other one read meanwhile is dropped.
//
// Note [Products that wait]
// A product or a convolution with a bias is no step of a pass, but libraries take relu into the launch
// of one. So it waits, too, with operands that have their memory, until something of the queue is
// asked for. If nobody but relu reads it then, the device is asked for both together; else, or where it
// cannot do so, the product runs by itself, and what reads it comes in the passes after it. It waits
// only where the device has a way to take relu in.
// Rows that are looked up in a table wait in the same way: `cat` has them written to their place in its result.
// The program may hold them all the same, which cannot be known while cat is called, so they wait on,
// and are looked up once more if somebody asks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/source.h"
#include "device/fused.h"
#include "device/lists.h"

namespace rush::deferred {

// Does it pay that a result of these sizes waits?
RUSH_API bool pays(const Dims& sizes, Device device);
// For the loops of a device whose `out` is_unborn(): remembers the step instead of running it.
// False: it has to be run, by memory that out.data() will give it.
RUSH_API bool queue_step(FusedStep::Kind kind, unsigned fn, std::span<const Tensor* const> operands,
                         const Tensor& out, ParamSpan params, DType compute);
// The same for a step over rows. Its operands lie as `out` does, or it is not taken. What it has
// beside `out` waits as well: memory that it has already, since it is small, is given back.
RUSH_API bool take_rows(RowStep row, std::span<const Tensor* const> operands, const Tensor& out);
// The same for two tensors, one behind the other along a dim.
RUSH_API bool queue_join(const Tensor& first, const Tensor& second, int64_t dim, const Tensor& out);
// Sums down columns whose last stage, which is all that is left of them, waits for those of others; see
// Note [What waits longer] in device/deferred_queue.h. `out` is_unborn(), and takes_sums() said yes.
// They may read x later than now where reads_later() says so.
bool takes_sums(const Tensor& out);
bool reads_later(const Tensor& x);
void take_sums(ColumnSums sums, const Tensor& out);
// Of a pending t whose form lies otherwise than t does, and is a conversion of memory: another tensor of
// its values, whose form lies as it does. Converting moves the elements all the same, which saves moving
// them again. Undefined: it is nothing like that.
RUSH_API Tensor contiguous_cast(const Tensor& t);
// See Note [Products that wait].
struct Product {
  const char* name;
  // From the operands into memory. With relu: false says that nothing was done, there is no such launch.
  std::function<bool(std::span<const Tensor> operands, const Tensor& out, bool relu)> run;
  bool is_lookup = false;  // `out` may be a part of rows
};
// For a block whose `out` is_unborn(). False: it has to be run.
RUSH_API bool take_product(Product product, std::span<const Tensor* const> operands,
                           const Tensor& out);
// Is t such a product that waits, rows that are looked up? Looks them up into memory of t's shape.
RUSH_API bool is_lookup(const Tensor& t);
RUSH_API void look_up_into(const Tensor& t, const Tensor& memory);
// Calls of NormLoops and SoftmaxLoops as such steps.
bool take_row_norm(const Tensor& x, int64_t width, const Tensor& weight, const Tensor& bias,
                   bool centred, double eps, const Tensor& y, const Tensor& mean,
                   const Tensor& rstd);
bool take_row_norm_backward(const Tensor& g, const Tensor& x, int64_t width, const Tensor& weight,
                            const Tensor& mean, const Tensor& rstd, bool centred, const Tensor& gx,
                            const Tensor& gw, const Tensor& gb);
bool take_softmax(const Tensor& x, int64_t dim, bool log, const Tensor& out);
// A reduction, by the op `name`, of `rows` rows, the last dims of x, which waits; `out` has one result per row. It ends the
// pass that computes x, which need not go to memory then.
RUSH_API bool take_fold(ReduceFn fn, const char* name, const Tensor& x, int64_t rows,
                        const Tensor& out);
bool take_softmax_backward(const Tensor& g, const Tensor& y, int64_t dim, bool log,
                           const Tensor& gx);

// Runs what waits on this thread. `why` and `by`, if any, are for reports: "add_ writes in place".
RUSH_API void flush(const char* why, const char* by = nullptr);
// The same before these are written to (undefined ones do not count), if anything that waits reads them.
RUSH_API void flush_readers_of(std::span<const Tensor* const> written, const char* why);

// ---- what happened ----

struct Counters {
  int64_t steps = 0;    // that were deferred
  int64_t dropped = 0;  // of them, never computed
  int64_t passes = 0;   // groups of several steps that ran in one pass
  int64_t fused = 0;    // steps in these
  int64_t unfused = 0;  // steps that ran one by one
  int64_t flushes = 0;
  int64_t not_kept = 0;  // bytes of saved tensors that backward will make again
};
RUSH_API Counters counters();  // of this thread

struct Report {
  struct Step {
    std::string name;  // of the functor, in small letters: "mul", "gelu"
    SourcePoint source;
    bool kept;  // its value went to memory
  };
  struct Group {
    std::vector<Step> steps;
    Dims sizes;  // {-1}: a list of casts, each of another tensor
    size_t inputs;
    bool fused;
  };
  struct Flush {
    std::vector<Group> groups;
    std::vector<Step> dropped;
    std::string why;
    SourcePoint source;
  };
  std::vector<Flush> flushes;
};
// From now on the flushes of this thread are written into it; null ends that.
RUSH_API void report_to(Report* report);

// ---- settings, of this thread ----

struct Settings {
  // On the host, results smaller than this are computed at once: they stay in the caches anyway.
  int64_t least_elements = 4096;
  // Bytes from which on saved tensors may be made again: Note [What is made again] in device/again.h.
  // 0: none; -1: on a GPU, where it pays.
  int64_t recompute = 0;
  bool wait_for_code = false;  // instead of running step by step while it is being compiled
};
RUSH_API Settings& settings();

}  // namespace rush::deferred
