// Several pointwise steps by one kernel, which is generated and compiled for them.
#include "device/fused.h"

#include <algorithm>

#include "cuda/pointwise/divides.h"
#include "cuda/pointwise/fused_launch.h"
#include "cuda/pointwise/fused_rows.h"
#include "cuda/runtime/compile_thread.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/loops.h"

namespace rush::cuda {

namespace {

// What a kernel's arguments may take on every GPU.
constexpr size_t kMostArgBytes = 4096;

bool can_run(const FusedWork& work) {
  if (work.inputs.size() > kFusedInputs || work.steps.size() > kFusedSteps ||
      work.outputs.size() > kFusedOutputs || (work.join && work.inputs.size() == kFusedInputs))
    return false;
  size_t params = 0;
  for (const FusedStep& s : work.steps) {
    params += s.params_count;
    if (s.kind == FusedStep::Kind::Binary && divides_integers(BinaryFn(s.fn), s.compute))
      return false;  // zeros are looked for before
  }
  return sizeof(FusedArgs) + sizeof(FusedNest<u64>) + params * sizeof(Number) <= kMostArgBytes;
}

bool run(const FusedWork& work) {
  if ((work.outputs.empty() && !work.like) || work.lying().numel() == 0) return true;
  if (!can_run(work)) return false;
  if (std::ranges::any_of(work.steps, [](const FusedStep& s) { return s.row != nullptr; }))
    return run_fused_rows(work);
  const FusedLaunch l(work);
  const int device = work.outputs[0].out.device().index;
  const CUfunction kernel = CompileThread::get().find(fused_key(work, l.form()), device, work.wait,
                                                      [&] { return fused_source(work, l.form()); });
  if (!kernel) return false;
  std::array<Number, 4 * kFusedSteps> params;
  size_t count = 0;
  for (const FusedStep& s : work.steps)
    for (size_t i = 0; i < s.params_count; ++i) params[count++] = to_number(s.params[i]);
  if (!l.form().nest) {
    FusedArgs all = l.args();
    void* args[] = {&all, params.data()};
    const int64_t packs = (all.n + l.form().width - 1) / l.form().width;
    launch(kernel, device, blocks_for(packs / fused_packs_at_once(work, l.form()), device),
           {kThreads}, args);
    return true;
  }
  with_nest(l.walk(), [&]<class I>(FusedNest<I> nest) {
    l.walk().peel([&](const FusedLaunch::Offsets& offsets, int64_t n) {
      FusedArgs part = l.part(offsets, n);
      void* args[] = {&part, params.data(), &nest};
      launch(kernel, device, blocks_for(n, device), {kThreads}, args);
    });
  });
  return true;
}

// Those whose kernels hold a row, and of backward passes those that find all gradients at once.
bool takes_rows(const RowStep& row, DType type) {
  if (row.fn == RowOp::Scale || row.fn == RowOp::Fold || !is_floating(type)) return false;
  if (row.fn >= RowOp::Groups) return true;
  const bool backward = row.fn == RowOp::NormBackward;
  const int64_t most = kThreads * held_elements(type) * (backward ? 1 : 2);
  return row.width <= most && (!backward || row.beside[0].defined() || row.beside[1].defined());
}

const bool registered = [] {
  fused_loops(DeviceType::CUDA) = {run, takes_rows, true};
  return true;
}();

}  // namespace
}  // namespace rush::cuda
