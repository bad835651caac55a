#include "ops/index/index_steps.h"

#include "core/warn.h"
#include "ops/framework/registry.h"
#include "ops/ops.h"

namespace rush {
namespace {

Tensor in_dtype(const Tensor& t, DType dtype) {
  if (t.dtype() == dtype) return t;
  const NoGradGuard no_grad;
  const Tensor out = make_tensor(t.sizes(), dtype, t.device());
  copy_(out, t);
  return out;
}

// Index tensors are int64 or bool from here on.
Tensor checked_index(const Tensor& t) {
  switch (t.dtype()) {
    case DType::Bool:
    case DType::Int64:
      return t;
    case DType::Int32:
      return in_dtype(t, DType::Int64);
    case DType::UInt8:
      warn(
          "indexing with dtype rushlight.uint8 is now deprecated, please use a dtype "
          "rushlight.bool instead.");
      return in_dtype(t, DType::Bool);
    default:
      fail(ErrorKind::Index, "",
           "tensors used as indices must be int64, int32, uint8 or bool, got ", t.dtype());
  }
}

// The two ops that take index tensors, through the table: interceptors see them as any other call.
const OpEntry& table_entry(const char* name) {
  const auto found = find_ops(name);
  check(!found.empty(), ErrorKind::NotImplemented, name, "this build has no such op");
  return found.front();
}

void call_entry(const OpEntry& entry, Value* args, Value* result) {
  if (t_modes & kSlowPath) return run_intercepted(entry, args, result);
  entry.boxed(args, result);
}

Tensor gather_by(const Tensor& self, TensorList indices) {
  if (has_gpu_mask(self, indices)) return index_by_masks(self, indices);
  static const OpEntry& entry = table_entry("index");
  Value args[2], result;
  args[0].borrow(self.impl());
  args[1].borrow(indices);
  call_entry(entry, args, &result);
  return result.tensor();
}

void put_by(const Tensor& self, TensorList indices, const Tensor& values) {
  if (values.dim() > 0 && has_gpu_mask(self, indices))
    return put_by(self, without_masks(indices), values);
  static const OpEntry& entry = table_entry("index_put_");
  Value args[4], result;
  args[0].borrow(self.impl());
  args[1].borrow(indices);
  args[2].borrow(values.impl());
  args[3].set(false);  // accumulate
  call_entry(entry, args, &result);
}

// Leading dimensions of size 1 mean nothing to broadcasting, and may be more than the target has.
Tensor without_leading_ones(const Tensor& value) {
  Tensor out = value;
  while (out.dim() > 0 && out.sizes()[0] == 1) out = select(out, 0, 0);
  return out;
}

}  // namespace

void index_out_of_bounds(int64_t index, int64_t dim, int64_t size) {
  fail(ErrorKind::Index, "", "index ", index, " is out of bounds for dimension ", dim,
       " with size ", size);
}

void too_many_indices(const Tensor& t, int64_t used) {
  check(t.dim() > 0, ErrorKind::Index, "",
        "invalid index of a 0-dim tensor: use tensor.item() to "
        "convert a 0-dim tensor to a Python number");
  fail(ErrorKind::Index, "", "too many indices for tensor of dimension ", t.dim(), ": got ", used);
}

int64_t IndexSteps::next_size() const {
  if (source_dim_ >= self_.dim()) too_many_indices(self_, source_dim_ + 1);
  return self_.sizes()[source_dim_];
}

void IndexSteps::select(int64_t index) {
  const int64_t size = next_size();
  current_ = rush::select(current_, dim_, wrapped_index(index, source_dim_++, size));
}

void IndexSteps::slice(const SliceRange& r) {
  const int64_t size = next_size();
  if (r.length != size) current_ = rush::slice(current_, dim_, r.start, r.stop, r.step);
  advance(1);
  ++source_dim_;
}

void IndexSteps::new_axis() {
  current_ = unsqueeze(current_, dim_);
  advance(1);
}

void IndexSteps::keep(int64_t count) {
  advance(count);
  source_dim_ += count;
}

void IndexSteps::truth(bool value) {
  current_ = unsqueeze(current_, dim_++);
  const Tensor index = make_tensor(Dims{value ? 1 : 0}, DType::Int64);
  if (value) index.data<int64_t>()[0] = 0;
  indices_.push_back(index);
  has_indices_ = true;
}

void IndexSteps::index(Tensor t) {
  const int64_t covered = t.dtype() == DType::Bool ? t.dim() : 1;
  if (source_dim_ + covered > self_.dim()) too_many_indices(self_, source_dim_ + covered);
  if (t.dtype() == DType::Bool) check_mask(t);
  indices_.push_back(std::move(t));
  dim_ += covered;
  source_dim_ += covered;
  has_indices_ = true;
}

void IndexSteps::tensor(const Tensor& t) {
  if (t.dim() > 0 || !(is_mask(t) || is_integral(t.dtype()))) return index(checked_index(t));
  if (is_mask(t)) return truth(t.item().to<bool>());
  if (t.is_batched()) return index(t);  // inside vmap: a number for each sample
  select(t.item().to_int());
}

void IndexSteps::advance(int64_t count) {
  dim_ += count;
  indices_.resize(indices_.size() + size_t(count));
}

void IndexSteps::check_mask(const Tensor& mask) const {
  const IntList own = IntList(self_.sizes()).subspan(size_t(source_dim_), size_t(mask.dim()));
  check_index(equal(mask.sizes(), own), "", "the shape of the mask ", mask.sizes(),
              " does not match the shape of the indexed tensor ", self_.sizes(), " at dimension ",
              source_dim_);
}

Tensor indexed(const IndexSteps& steps) {
  if (steps.has_indices()) return gather_by(steps.current(), steps.indices());
  // x[...] and x[()] are new tensors, as every other index is.
  return steps.current().is_same(steps.self()) ? alias(steps.self()) : steps.current();
}

void assign(const IndexSteps& steps, const Tensor& given_value) {
  const Tensor& target = steps.current();
  const Tensor value = without_leading_ones(given_value);
  if (!steps.has_indices()) {
    copy_(target, value);
    return;
  }
  const bool same = value.dtype() == target.dtype();
  put_by(target, steps.indices(), same ? value : cast(value, target.dtype()));
}

void assign(const IndexSteps& steps, const Scalar& value) {
  const Tensor& target = steps.current();
  const bool takes_complex = target.is_complex() || target.dtype() == DType::Bool;
  check_dtype(!value.is_complex() || takes_complex, "",
              "a complex number cannot be assigned to a tensor of dtype ", target.dtype());
  const Tensor number = wrap_number(value);
  const bool converted = is_float8(target.dtype());  // where fill_ refuses what is too large
  if (!steps.has_indices()) {
    converted ? copy_(target, number) : fill_(target, number);
  } else {
    put_by(target, steps.indices(),
           converted ? cast(number, target.dtype()) : scalar_tensor(value, target.dtype()));
  }
}

}  // namespace rush
