// A call inside vmap, as the rules see it; see vmap.h.
#include <array>
#include <memory>
#include <utility>

#include "core/interrupt.h"
#include "ops/framework/boxing.h"
#include "ops/ops.h"
#include "ops/vmap/vmap_rules.h"

namespace rush {

Value copy_of(const Value& v) {
  Value out;
  switch (v.tag()) {
    case Value::Tag::None:
      break;
    case Value::Tag::Tensor:
      out.borrow(v.tensor().impl());
      break;
    case Value::Tag::Tensors:
      out.borrow(v.tensors());
      break;
    case Value::Tag::Scalar:
      out.set(v.scalar());
      break;
    case Value::Tag::Int:
      out.set(v.integer());
      break;
    case Value::Tag::Ints:
      out.borrow(v.ints());
      break;
    case Value::Tag::Float:
      out.set(v.real());
      break;
    case Value::Tag::Floats:
      out.borrow(v.floats());
      break;
    case Value::Tag::Bool:
      out.set(v.boolean());
      break;
    case Value::Tag::String:
      out.borrow(v.string());
      break;
    case Value::Tag::DType:
      out.set(v.dtype());
      break;
    case Value::Tag::Device:
      out.set(v.device());
      break;
    case Value::Tag::Layout:
      out.set(v.layout());
      break;
    case Value::Tag::MemoryFormat:
      out.set(v.memory_format());
      break;
    case Value::Tag::Generator:
      out.borrow(v.generator());
      break;
  }
  return out;
}

namespace {

void wrap_result(Value& v, int level) {
  if (v.tag() == Value::Tag::Tensor) {
    v.own(add_batch(Tensor(v.tensor()), level));
  } else if (v.tag() == Value::Tag::Tensors) {
    std::vector<Tensor> list;
    for (const Tensor& t : v.tensors()) list.push_back(add_batch(t, level));
    v.own(std::move(list));
  }
}

// The results of one sample after the other, gathered.
class Gathered {
 public:
  explicit Gathered(const OpEntry& entry) : entry_(entry), columns_(entry.num_results) {}

  void add(std::array<Value, kMaxResults>& row) {
    for (size_t i = 0; i < columns_.size(); ++i) {
      Column& c = columns_[i];
      if (row[i].is_none()) continue;
      check(row[i].tag() == Value::Tag::Tensor || row[i].tag() == Value::Tag::Tensors,
            ErrorKind::Runtime, entry_.name,
            "inside vmap the result would be one Python number per sample, not one number");
      c.is_list = row[i].tag() == Value::Tag::Tensors;
      c.samples.emplace_back();
      visit(row[i], [&](const Tensor& t) { c.samples.back().push_back(t); });
    }
  }
  void store(Value* results, int level) {
    for (size_t i = 0; i < columns_.size(); ++i) {
      const Column& c = columns_[i];
      if (c.samples.empty()) continue;
      std::vector<Tensor> items;
      for (size_t k = 0; k < c.samples[0].size(); ++k) {
        std::vector<Tensor> column;
        for (const auto& sample : c.samples) {
          check(k < sample.size() && sample[k].sizes() == c.samples[0][k].sizes(),
                ErrorKind::Runtime, entry_.name,
                "the samples' results have different shapes; vmap needs equal ones");
          column.push_back(sample[k]);
        }
        items.push_back(add_batch(stack(column, 0), level));
      }
      if (c.is_list)
        results[i].own(std::move(items));
      else
        results[i].own(items[0]);
    }
  }

 private:
  struct Column {
    bool is_list = false;
    std::vector<std::vector<Tensor>> samples;
  };
  const OpEntry& entry_;
  std::vector<Column> columns_;
};

}  // namespace

BatchedCall::BatchedCall(const OpEntry& e, Value* args, Value* results, int l)
    : entry(e), level(l), size(vmap_size(l)), args_(args), results_(results) {
  for (size_t i = 0; i < count(); ++i) {
    next_.push_back(copy_of(args[i]));
    if (is_tensor(i)) next_[i].own(physical(i));
    if (args[i].tag() == Value::Tag::Tensors) {
      std::vector<Tensor> list;
      for (const Tensor& t : args[i].tensors()) list.push_back(without_batch(t, level));
      next_[i].own(std::move(list));
    }
  }
}

bool BatchedCall::is_batched(size_t i) const {
  bool any = false;
  visit(args_[i], [&](const Tensor& t) { any |= t.impl()->vmap_level == level; });
  return any;
}

int BatchedCall::find(std::string_view name) const {
  for (size_t i = 0; i < count(); ++i) {
    if (entry.args[i].name == name) return int(i);
  }
  return -1;
}

void BatchedCall::set(size_t i, Tensor t) {
  if (t.defined())
    next_[i].own(std::move(t));
  else
    next_[i].clear();
}

void BatchedCall::set(size_t i, Dims values) {
  ints_.push_back(std::make_unique<Dims>(std::move(values)));
  next_[i].clear();
  next_[i].borrow(IntList(*ints_.back()));
}

void BatchedCall::run() {
  std::array<Value, kMaxResults> out;
  entry.boxed(next_.data(), out.data());
  if (in_place()) {
    results_[0].borrow(args_[0].tensor().impl());
    return;
  }
  for (size_t i = 0; i < entry.num_results; ++i) {
    wrap_result(out[i], level);
    results_[i] = std::move(out[i]);
  }
}

void BatchedCall::run(const std::function<Tensor(const Tensor&, size_t)>& seen) {
  std::array<Value, kMaxResults> out;
  entry.boxed(next_.data(), out.data());
  for (size_t i = 0; i < entry.num_results; ++i)
    results_[i].own(add_batch(seen(out[i].tensor(), i), level));
}

void BatchedCall::finish(Tensor physical_result) {
  if (in_place()) {
    copy_(physical(0), physical_result);
    results_[0].borrow(args_[0].tensor().impl());
    return;
  }
  results_[0].own(add_batch(physical_result, level));
}

void BatchedCall::run_rule(const Rule& rule) {
  std::vector<int64_t> in_dims;
  for (size_t i = 0; i < count(); ++i) {
    in_dims.push_back(is_batched(i) ? 0 : -1);
    if (!is_batched(i) || is_tensor(i)) continue;
    std::vector<Tensor> list;
    for (const Tensor& t : args_[i].tensors()) list.push_back(with_all_samples(t, level));
    set(i, std::move(list));
  }
  std::array<Value, kMaxResults> out;
  const std::vector<int64_t> out_dims = rule(in_dims, next_.data(), out.data());
  for (size_t i = 0; i < entry.num_results; ++i) {
    visit(out[i], [&](const Tensor& t) {
      check(out_dims[i] < 0 || (t.dim() > 0 && t.size(0) == size), ErrorKind::Runtime, entry.name,
            "the rule for vmap says that result ", i, " has ", size, " samples, but its shape is ",
            t.sizes());
    });
    if (out_dims[i] >= 0)
      wrap_result(out[i], level);
    else if (out[i].tag() == Value::Tag::Tensor)
      out[i].own(Tensor(out[i].tensor()));
    results_[i] = std::move(out[i]);
  }
}

// Behind a pointer: memory that every thread has is scarce.
static thread_local std::unique_ptr<std::map<std::string, int64_t>> t_sample_loops;
std::map<std::string, int64_t> take_sample_loops() {
  const auto loops = std::exchange(t_sample_loops, nullptr);
  return loops ? std::move(*loops) : std::map<std::string, int64_t>{};
}

void BatchedCall::loop(Generator* repeat) {
  check(size > 0, ErrorKind::Runtime, entry.name,
        "vmap over no samples: this op runs sample by sample, so its result's shape is unknown");
  if (!t_sample_loops) t_sample_loops = std::make_unique<std::map<std::string, int64_t>>();
  ++(*t_sample_loops)[entry.name];
  const uint64_t start = repeat ? repeat->offset() : 0;
  Gathered gathered(entry);
  for (int64_t s = 0; s < size; ++s) {
    check_interrupt();
    std::vector<Value> sample;
    for (size_t i = 0; i < count(); ++i) {
      sample.push_back(copy_of(args_[i]));
      if (!is_batched(i)) continue;
      if (is_tensor(i)) {
        sample[i].own(select(physical(i), 0, s));
        continue;
      }
      std::vector<Tensor> list;
      for (const Tensor& t : args_[i].tensors()) {
        const bool own = t.defined() && t.impl()->vmap_level == level;
        list.push_back(own ? select(without_batch(t, level), 0, s) : t);
      }
      sample[i].own(std::move(list));
    }
    std::array<Value, kMaxResults> out;
    if (repeat) repeat->set_offset(start);
    entry.boxed(sample.data(), out.data());
    if (!in_place()) gathered.add(out);
  }
  if (in_place())
    results_[0].borrow(args_[0].tensor().impl());
  else
    gathered.store(results_, level);
}

}  // namespace rush
