#include "distributed/operation.h"

#include "autograd/snapshot.h"
#include "core/device_memory.h"
#include "core/layout.h"
#include "core/misaligned.h"
#include "core/modes.h"
#include "ops/ops.h"

namespace rush::distributed {
namespace {

// What an engine adds by itself. What it lacks is done before and after, or refused.
struct Abilities {
  bool halves, averages, bits, short_integers;
};
constexpr Abilities kOnHost{false, false, true, true}, kOnDevice{true, true, false, false};

const Abilities& abilities(const Operation& op) { return op.device < 0 ? kOnHost : kOnDevice; }

void check_tensors(Operation& op) {
  const Device place = (op.inputs.empty() ? op.outputs : op.inputs)[0].device();
  check(place.is_cpu() || place.is_cuda(), ErrorKind::Runtime, name_of(op.kind),
        "collectives run on CPU and CUDA tensors, got one on ", place);
  op.device = place.is_cuda() ? place.index : -1;
  for (const auto* list : {&op.inputs, &op.outputs})
    for (const Tensor& t : *list) {
      check(t.device() == place, ErrorKind::Runtime, name_of(op.kind),
            "the tensors must be on one device, got ", place, " and ", t.device());
      check_dtype(t.dtype() == op.dtype(), name_of(op.kind),
                  "the tensors must have one dtype, got ", op.dtype(), " and ", t.dtype());
    }
}

void check_reduction(Operation& op) {
  const char* name = name_of(op.kind);
  const DType dtype = op.dtype();
  check(!is_complex(dtype) || op.reduce <= ReduceOp::Avg, ErrorKind::Value, name,
        "does not support ", name_of(op.reduce), " on complex tensors");
  check_dtype(op.reduce != ReduceOp::Avg || is_differentiable(dtype), name,
              "AVG needs floating or complex numbers, got ", dtype);
  check_dtype(op.reduce < ReduceOp::BitAnd || !is_differentiable(dtype), name, name_of(op.reduce),
              " needs integers, got ", dtype);
  const Abilities& can = abilities(op);
  check(can.bits || op.reduce < ReduceOp::BitAnd, ErrorKind::Value, name, "NCCL has no ",
        name_of(op.reduce), "; move the tensors to the CPU for it");
  check_dtype(can.short_integers || (dtype != DType::Int16 && dtype != DType::UInt16), name,
              "NCCL does not add ", dtype, "; convert to int32, or move the tensors to the CPU");
  const bool sums = op.reduce == ReduceOp::Avg && !can.averages;
  op.engine_reduce = sums ? ReduceOp::Sum : op.reduce;
  if (dtype == DType::Bool && op.reduce == ReduceOp::Sum) op.engine_reduce = ReduceOp::Max;
  if (dtype == DType::Bool && op.reduce == ReduceOp::Product) op.engine_reduce = ReduceOp::Min;
}

int64_t elements(const std::vector<Tensor>& tensors) {
  int64_t n = 0;
  for (const Tensor& t : tensors) n += t.numel();
  return n;
}

Tensor part_of(const Tensor& flat, int64_t first, int64_t length) {
  return slice(flat, 0, first, first + length, 1);
}

// Memory that lies end to end is copied as it is; the driver does that on a GPU.
void copy_part(Tensor to, const Tensor& from) {
  const bool plain = to.dtype() == from.dtype() && to.is_contiguous() && from.is_contiguous();
  if (to.is_cuda() && plain) {
    cuda_memory().copy(to.data(), from.data(), size_t(to.nbytes()), to.device().index);
    to.bump_version("a collective");
    return;
  }
  copy_(to, reshape(from, to.sizes()));
}

// Contiguous memory that holds what the tensors hold; that of a single tensor where it fits.
Tensor joined(const std::vector<Tensor>& tensors) {
  if (tensors.size() == 1 && !is_misaligned(tensors[0])) return contiguous(tensors[0]);
  const int64_t sizes[] = {elements(tensors)};
  Tensor flat = empty(sizes, tensors[0].dtype(), std::nullopt, tensors[0].device());
  int64_t first = 0;
  for (const Tensor& t : tensors) {
    if (t.numel() != 0) copy_part(part_of(flat, first, t.numel()), t);
    first += t.numel();
  }
  return flat;
}

// In a type that the engine adds: complex numbers as pairs, bool as bytes, and half types as
// float32 where it must be. The memory stays the same where it can.
Tensor addable(const Operation& op, const Tensor& t) {
  check_dtype(!is_float8(t.dtype()), "reduce", "tensors of ", t.dtype(),
              " are sent but not added up: use .to(dtype) first");
  if (is_complex(t.dtype())) return view_as_real(t);
  if (is_reduced_float(t.dtype()) && !abilities(op).halves) return to(t, DType::Float32);
  if (t.dtype() == DType::Bool) return view(t, DType::UInt8);
  return t;
}

Tensor from_addable(const Tensor& t, DType dtype) {
  if (is_complex(dtype)) return view_as_complex(t);
  if (dtype == DType::Bool) return view(t, DType::Bool);
  return t;
}

// Memory to receive into: that of the only output, where it fits.
Tensor room_for(const Operation& op) {
  const DType dtype = op.dtype();
  const bool converts = op.adds() && is_reduced_float(dtype) && !abilities(op).halves;
  if (op.outputs.size() == 1 && op.outputs[0].is_contiguous() && !converts &&
      !is_misaligned(op.outputs[0]))
    return op.adds() ? addable(op, op.outputs[0]) : op.outputs[0];
  const int64_t sizes[] = {elements(op.outputs)};
  const DType type = converts ? DType::Float32 : dtype;
  const Tensor room = empty(sizes, type, std::nullopt, op.outputs[0].device());
  return op.adds() ? addable(op, room) : room;
}

void check_sizes(const Operation& op, int size) {
  const int64_t in = elements(op.inputs), out = elements(op.outputs);
  switch (op.kind) {
    case Collective::AllGather:
    case Collective::Gather:
      if (op.kind == Collective::Gather && !op.at_root()) return;
      return check_shape(out == in * size, name_of(op.kind), "the outputs hold ", out,
                         " elements, and ", size, " ranks send ", in, " each");
    case Collective::Scatter:
    case Collective::ReduceScatter:
      if (op.kind == Collective::Scatter && !op.at_root()) return;
      return check_shape(in == out * size, name_of(op.kind), "the inputs hold ", in,
                         " elements, and ", size, " ranks receive ", out, " each");
    case Collective::AllToAll:
      for (const auto& [counts, n] : {std::pair{&op.input_counts, in}, {&op.output_counts, out}}) {
        int64_t sum = 0;
        for (const int64_t c : *counts) {
          check(c >= 0, ErrorKind::Value, "all_to_all", "a size is negative: ", c);
          sum += c;
        }
        check_shape(int(counts->size()) == size && sum == n, "all_to_all", "the parts have ", sum,
                    " elements for ", counts->size(), " ranks, and the tensors hold ", n, " for ",
                    size);
      }
      return;
    default:
      return;
  }
}

// NCCL takes what it sends from the place where this rank's part of the result will be.
bool is_own_part(const Operation& op) {
  if (op.device < 0) return false;
  const bool gathers = op.kind == Collective::AllGather;
  if (!gathers && op.kind != Collective::ReduceScatter) return false;
  const Tensor &whole = gathers ? op.received : op.sent, &part = gathers ? op.sent : op.received;
  return static_cast<const char*>(part.data()) ==
         static_cast<const char*>(whole.data()) + op.rank * part.nbytes();
}

bool is_direct(const Operation& op) {
  return op.outputs.size() == 1 && op.received.data() == op.outputs[0].data() &&
         op.received.nbytes() == op.outputs[0].nbytes();
}

}  // namespace

const char* name_of(Collective c) {
  constexpr const char* names[] = {"all_reduce", "broadcast", "all_gather", "barrier",
                                   "reduce",     "gather",    "scatter",    "reduce_scatter",
                                   "all_to_all", "send",      "recv"};
  return names[size_t(c)];
}

const char* name_of(ReduceOp op) {
  constexpr const char* names[] = {"SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"};
  return names[size_t(op)];
}

std::string describe(const Operation& op) {
  std::string text = name_of(op.kind), more;
  if (op.adds()) more = name_of(op.reduce);
  if (op.has_root() || op.is_message()) {
    const bool to_root = op.kind == Collective::Reduce || op.kind == Collective::Gather ||
                         op.kind == Collective::Send;
    more += concat(more.empty() ? "" : ", ", to_root ? "to " : "from ");
    more += op.root == kAnySource ? "any rank" : concat("rank ", op.root);
  }
  if (op.tag != 0) more += concat(", tag ", op.tag);
  if (!more.empty()) text += concat("(", more, ")");
  // The tensor whose shape all ranks share: with scatter and reduce_scatter the one received.
  const bool by_output = op.kind == Collective::Scatter || op.kind == Collective::ReduceScatter ||
                         op.kind == Collective::Recv;
  const auto& shown = by_output ? op.outputs : op.inputs;
  if (shown.empty()) return text;
  text += concat(" of ", shown[0].dtype(), shown[0].is_cuda() ? " on a GPU" : "");
  if (op.kind != Collective::AllToAll) text += concat(" ", shown[0].sizes());
  if (op.kind == Collective::AllReduce && shown.size() > 1)
    text += concat(" and ", shown.size() - 1, " more");
  return text;
}

void prepare(Operation& op, int size) {
  const NoGradGuard no_grad;
  if (op.inputs.empty() && op.outputs.empty()) return;
  check_tensors(op);
  flush_pending("a collective may write to its tensors at any time");
  for (const Tensor& t : op.outputs) before_write(t);
  if (op.adds()) check_reduction(op);
  check_sizes(op, size);
  if (!op.inputs.empty()) {
    op.sent = joined(op.inputs);
    if (op.adds()) op.sent = addable(op, op.sent);
  }
  if (op.outputs.empty()) return;
  const bool in_place = op.kind == Collective::AllReduce || op.kind == Collective::Broadcast ||
                        op.kind == Collective::Reduce;
  if (in_place) {
    op.received = op.sent;
    return;
  }
  op.received = room_for(op);
  if (op.sent.defined() && overlap(op.sent, op.received) != Overlap::No && !is_own_part(op))
    op.sent = clone(op.sent);
}

void copy_to_itself(Operation& op) {
  const NoGradGuard no_grad;
  if (op.received.defined() && op.sent.defined() && op.received.data() != op.sent.data() &&
      op.sent.numel() != 0)
    copy_part(op.received, op.sent);
}

void complete(Operation& op, int size) {
  const NoGradGuard no_grad;
  if (op.outputs.empty()) return;
  if (op.adds() && op.reduce == ReduceOp::Avg && op.engine_reduce == ReduceOp::Sum && size > 1)
    div_(op.received, wrap_number(Scalar(double(size))));
  if (is_direct(op)) return op.outputs[0].bump_version(name_of(op.kind));
  Tensor flat = op.adds() ? from_addable(op.received, op.dtype()) : op.received;
  if (op.outputs.size() == 1) {
    if (flat.numel() != 0) copy_part(op.outputs[0], flat);
    return;
  }
  const int64_t all[] = {-1};
  if (flat.numel() != 0) flat = reshape(flat, all);
  int64_t first = 0;
  for (Tensor& out : op.outputs) {
    if (out.numel() != 0) copy_part(out, part_of(flat, first, out.numel()));
    first += out.numel();
  }
}

}  // namespace rush::distributed
