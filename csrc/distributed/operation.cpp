#include "distributed/operation.h"

#include "core/layout.h"
#include "core/modes.h"
#include "ops/ops.h"

namespace rush::distributed {
namespace {

void check_place(const Operation& op, const Tensor& t) {
  check(t.is_cpu(), ErrorKind::Runtime, name_of(op.kind),
        "collectives run on CPU tensors so far, got one on ", t.device(),
        "; move it with .cpu(), or reduce on one process with nn.DataParallel");
}

bool staged(const Operation& op) {
  return op.buffer.defined() && op.buffer.data() != op.tensor.data();
}

// Numbers that the engine adds: half types as float32, complex ones as pairs, bool as bytes.
void prepare_all_reduce(Operation& op) {
  const DType dtype = op.tensor.dtype();
  op.engine_reduce = op.reduce == ReduceOp::Avg ? ReduceOp::Sum : op.reduce;
  const bool bitwise = op.reduce >= ReduceOp::BitAnd;
  check(!is_complex(dtype) || op.reduce <= ReduceOp::Avg, ErrorKind::Value, "all_reduce",
        "does not support ", name_of(op.reduce), " on complex tensors");
  check_dtype(op.reduce != ReduceOp::Avg || is_differentiable(dtype), "all_reduce",
              "AVG needs floating or complex numbers, got ", dtype);
  check_dtype(!bitwise || !is_differentiable(dtype), "all_reduce", name_of(op.reduce),
              " needs integers, got ", dtype);
  Tensor t = contiguous(op.tensor);
  if (is_complex(dtype)) t = view_as_real(t);
  if (is_reduced_float(dtype)) t = to(t, DType::Float32);
  if (dtype == DType::Bool) {
    t = view(t, DType::UInt8);
    if (op.reduce == ReduceOp::Sum) op.engine_reduce = ReduceOp::Max;
    if (op.reduce == ReduceOp::Product) op.engine_reduce = ReduceOp::Min;
  }
  op.buffer = t;
}

void prepare_all_gather(Operation& op, int size) {
  int64_t room = 0;
  for (const Tensor& out : op.outputs) {
    check_place(op, out);
    check_dtype(out.dtype() == op.tensor.dtype(), "all_gather",
                "the tensors must have one dtype, got ", op.tensor.dtype(), " and ", out.dtype());
    room += out.numel();
  }
  check_shape(room == op.tensor.numel() * size, "all_gather", "the outputs hold ", room,
              " elements, and ", size, " ranks send ", op.tensor.numel(), " each");
  op.buffer = contiguous(op.tensor);
  const bool direct = op.outputs.size() == 1 && op.outputs[0].is_contiguous();
  const int64_t sizes[] = {size, op.tensor.numel()};
  op.gathered = direct ? op.outputs[0] : empty(sizes, op.tensor.dtype());
}

}  // namespace

const char* name_of(Collective c) {
  constexpr const char* names[] = {"all_reduce", "broadcast", "all_gather", "barrier"};
  return names[size_t(c)];
}

const char* name_of(ReduceOp op) {
  constexpr const char* names[] = {"SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"};
  return names[size_t(op)];
}

std::string describe(const Operation& op) {
  std::string text = name_of(op.kind);
  if (op.kind == Collective::AllReduce) text += concat("(", name_of(op.reduce), ")");
  if (op.kind == Collective::Broadcast) text += concat("(from rank ", op.root, ")");
  if (op.tensor.defined()) text += concat(" of ", op.tensor.dtype(), " ", op.tensor.sizes());
  return text;
}

void prepare(Operation& op, int size) {
  const NoGradGuard no_grad;
  if (!op.tensor.defined()) return;
  check_place(op, op.tensor);
  flush_pending("a collective may write to its tensors at any time");
  switch (op.kind) {
    case Collective::AllReduce:
      return prepare_all_reduce(op);
    case Collective::AllGather:
      return prepare_all_gather(op, size);
    default:
      op.buffer = contiguous(op.tensor);
  }
}

void complete(Operation& op, int size) {
  const NoGradGuard no_grad;
  if (op.kind == Collective::Barrier) return;
  if (op.kind == Collective::AllGather) {
    if (op.gathered.is_same(op.outputs[0])) return op.outputs[0].bump_version("all_gather");
    if (op.outputs.size() == 1) {
      copy_(op.outputs[0], reshape(op.gathered, op.outputs[0].sizes()));
      return;
    }
    for (size_t r = 0; r < op.outputs.size(); ++r)
      copy_(op.outputs[r], reshape(select(op.gathered, 0, int64_t(r)), op.outputs[r].sizes()));
    return;
  }
  if (op.kind == Collective::AllReduce && op.reduce == ReduceOp::Avg && size > 1)
    div_(op.buffer, wrap_number(Scalar(double(size))));
  if (!staged(op)) return op.tensor.bump_version(name_of(op.kind));
  Tensor result = op.buffer;
  if (is_complex(op.tensor.dtype())) result = view_as_complex(result);
  if (op.tensor.dtype() == DType::Bool) result = view(result, DType::Bool);
  copy_(op.tensor, result);
}

}  // namespace rush::distributed
