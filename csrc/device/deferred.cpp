#include "device/deferred.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "core/modes.h"
#include "device/deferred_queue.h"
#include "device/pass_listener.h"
#include "device/runtime.h"

namespace rush::deferred {

constinit std::atomic<const PassListener*> g_pass_listener{nullptr};

namespace {

using Kind = FusedStep::Kind;

// Threads may end after static objects are gone, so it is never freed.
constinit std::atomic<Queues*> g_queues{nullptr};

}  // namespace

Queues& queues() {
  static const bool made = (g_queues.store(new Queues), true);
  (void)made;
  return *g_queues.load(std::memory_order_relaxed);
}

namespace {

pthread_key_t queue_key() {
  static const pthread_key_t key = [] {  // thread-local memory of the linker's is scarce
    pthread_key_t made;
    pthread_key_create(&made, [](void* q) { delete static_cast<Queue*>(q); });
    // A child process has the thread that forked, whoever of the others held the mutex.
    pthread_atfork(nullptr, nullptr, [] {
      auto* fresh = new Queues;
      if (auto* own = static_cast<Queue*>(pthread_getspecific(queue_key())))
        fresh->all.push_back(own);
      g_queues.store(fresh);
    });
    return made;
  }();
  return key;
}

}  // namespace

Queue& queue() {
  auto* known = static_cast<Queue*>(pthread_getspecific(queue_key()));
  if (!known) pthread_setspecific(queue_key(), known = new Queue);
  return *known;
}

namespace {

// ---- taking ----

bool may_be_read_later(const Tensor& t, Device device) {
  const Storage* s = t.impl()->storage.load();
  if (!s) return true;  // pending, or arranged by this thread's own work
  return !s->may_change_unseen() && (t.device() == device || t.numel() == 1);
}

// Rows that are longer do not stay in a cache while they are worked on.
constexpr int64_t kLongestRow = 16384;

}  // namespace

// Python's 2 in `x * 2` is a new tensor each time; one serves for all that are equal.
const Tensor& Queue::known_number(const Tensor& number) const {
  for (const Recipe& r : waiting_) {
    for (int i = 0; i < r.operand_count(); ++i) {
      const Tensor& other = r.operands[size_t(i)];
      if (other.is_wrapped_number() && other.dtype() == number.dtype() &&
          std::memcmp(other.data(), number.data(), size_t(number.element_size())) == 0)
        return other;
    }
  }
  return number;
}

bool Queue::queue_step(Kind kind, unsigned fn, std::span<const Tensor* const> operands,
                       const Tensor& out, ParamSpan params, DType compute) {
  if (running_) return false;
  for (const Tensor* t : operands) {
    if (!may_be_read_later(*t, out.device())) return false;
  }
  if (kind == Kind::Convert && take_cast_of_sums(*operands[0], out)) return true;
  Recipe r{kind, uint8_t(params.size()), uint16_t(fn), compute, {}, {}, out, source_here()};
  std::copy(params.begin(), params.end(), r.params.begin());
  add(std::move(r), operands);
  return true;
}

// See Note [What waits longer].
void Queue::take_sums(ColumnSums sums, const Tensor& out) {
  if (!running_ && late_.size() % 16 == 15) let_go_unwanted();
  if (!running_ && holds_too_much()) flush("many sums were waiting", nullptr);
  Recipe r{Kind::Convert, 0, 0, DType::Float32, {}, {}, out, source_here()};
  r.operands[0] = sums.from;
  r.sums = std::make_shared<const ColumnSums>(std::move(sums));
  out.impl()->set(TensorImpl::kContiguous, true);
  std::lock_guard lock(queues().mutex);
  late_.push_back(std::move(r));
  set_recipe(out.impl(), kMostWaiting + late_.size());
  ++counters.steps;
}

bool Queue::take_cast_of_sums(const Tensor& x, const Tensor& out) {
  const Tensor form = arranged_form(x);
  if (form.impl()->storage.load() || !is_late(form.impl())) return false;
  const Recipe& made = late_[recipe_of(form.impl()) - kMostWaiting - 1];
  if (!made.sums || made.sums->rounded != form.dtype() || !takes_sums(out) || !lie_alike(form, out))
    return false;
  take_sums(*made.sums, out);
  return true;
}

Tensor Queue::contiguous_cast(const Tensor& t) {
  const Tensor form = arranged_form(t);
  if (running_ || !owns(form.impl())) return {};
  const size_t number = recipe_of(form.impl()) - 1;
  const Recipe& made = number < kMostWaiting ? waiting_[number] : late_[number - kMostWaiting];
  const Tensor from = made.operands[0];
  if (made.kind != Kind::Convert || made.sums || made.product || !from.impl()->storage.load())
    return {};
  const Tensor out = make_pending(t.sizes(), {}, t.dtype(), t.device());
  if (!list_loops(out).moves_channels || !list_loops(out).moves_channels(from, out)) return {};
  const Tensor* operands[] = {&from};
  if (!queue_step(Kind::Convert, 0, operands, out, {}, {})) return {};
  return over_pending(out, {});
}

bool Queue::take_rows(RowStep row, std::span<const Tensor* const> operands, const Tensor& out) {
  if (running_ || (row.has_result() && row.width > kLongestRow) || !fused_loops(out).takes_rows ||
      !fused_loops(out).takes_rows(row, out.dtype()))
    return false;
  for (const Tensor* t : operands) {
    if (!may_be_read_later(*t, out.device()) || t->dtype() != out.dtype() || !lie_alike(*t, out))
      return false;
  }
  for (const Tensor& t : row.with) {
    if (!t.defined()) continue;
    t.storage();
    if (!may_be_read_later(t, out.device())) return false;
  }
  for (const Tensor& t : row.beside) {
    if (t.defined() && t.impl()->storage.load()) t.impl()->storage = {};
  }
  Recipe r{Kind::Rows, 0, uint16_t(row.fn), out.dtype(), {}, {}, out, source_here()};
  r.row = std::make_shared<const RowStep>(std::move(row));
  add(std::move(r), operands);
  return true;
}

bool Queue::take_fold(ReduceFn fn, const char* name, const Tensor& x, int64_t rows,
                      const Tensor& out) {
  // Below so many times least_elements, x would stay in a cache anyway; and there would be fewer pieces
  // than threads.
  constexpr int64_t kLeast = 128;
  if (running_ || number_of(x) < 0 || x.numel() < kLeast * settings.least_elements ||
      !is_contiguous(x.sizes(), x.strides()))
    return false;
  const Tensor shaped = make_pending(x.sizes(), {}, x.dtype(), x.device());
  const Tensor* operands[] = {&x};
  if (!take_rows({.fn = RowOp::Fold,
                  .width = x.numel() / rows,
                  .rows = rows,
                  .fold = fn,
                  .name = name,
                  .beside = {out}},
                 operands, shaped))
    return false;
  out.impl()->set(TensorImpl::kContiguous, true);
  return true;
}

bool Queue::queue_join(const Tensor& first, const Tensor& second, int64_t dim, const Tensor& out) {
  if (running_ || !fused_loops(out).joins) return false;
  for (const Tensor* t : {&first, &second}) {
    if (t->dtype() != out.dtype() || t->dim() != out.dim() || t->numel() == 0 ||
        t->device() != out.device() || !may_be_read_later(*t, out.device()))
      return false;
  }
  Recipe r{Kind::Join, 0, 0, out.dtype(), {}, {}, out, source_here()};
  r.dim = int(dim);
  const Tensor* operands[] = {&first, &second};
  add(std::move(r), operands);
  return true;
}

// See Note [Products that wait].
bool Queue::take_product(Product product, std::span<const Tensor* const> operands,
                         const Tensor& out) {
  if (running_) return false;
  for (const Tensor* t : operands) {
    t->storage();
    if (!may_be_read_later(*t, out.device())) return false;
  }
  Recipe r{Kind::Convert, 0, 0, out.dtype(), {}, {}, out, source_here()};
  r.product = std::make_shared<const Product>(std::move(product));
  add(std::move(r), operands);
  return true;
}

// A cast that waits longer is to be read by a step: it can share a pass with that.
void Queue::take_back(const TensorImpl* form) {
  if (form->storage.load() || !is_late(form) || waiting_.size() + 1 >= kMostWaiting) return;
  const size_t at = recipe_of(form) - kMostWaiting - 1;
  if (late_[at].sums) return;
  std::lock_guard lock(queues().mutex);
  waiting_.push_back(std::move(late_[at]));
  late_.erase(late_.begin() + std::ptrdiff_t(at));
  number(waiting_.size());
  for (size_t s = at; s < late_.size(); ++s) set_recipe(late_[s].out.impl(), kMostWaiting + s + 1);
}

void Queue::add(Recipe r, std::span<const Tensor* const> operands) {
  if (waiting_.size() == kMostWaiting) flush("as many steps as may wait were waiting", nullptr);
  fresh_.clear();
  for (size_t i = 0; i < operands.size(); ++i) {
    r.operands[i] =
        operands[i]->is_wrapped_number() ? known_number(*operands[i]) : arranged_form(*operands[i]);
    take_back(r.operands[i].impl());
    // One that another thread has not computed yet: this thread's queue does not know it.
    if (!r.operands[i].impl()->storage.load() && number_of(r.operands[i]) < 0)
      r.operands[i].storage();
  }
  TensorImpl* form = r.out.impl();
  form->set(TensorImpl::kContiguous, is_contiguous(form->sizes, form->strides));
  std::lock_guard lock(queues().mutex);
  if (waiting_.empty()) waiting_.reserve(16);
  waiting_.push_back(std::move(r));
  number(waiting_.size());
  ++counters.steps;
}

// Tells the forms which recipe is theirs.
void Queue::number(size_t recipe) const {
  const Recipe& r = waiting_[recipe - 1];
  set_recipe(r.out.impl(), recipe);
  for (size_t i = 0; r.row && i < r.row->beside.size(); ++i)
    if (r.row->beside[i].defined()) set_recipe(r.row->beside[i].impl(), recipe);
}

bool Queue::reads_any(std::span<const Tensor* const> written) const {
  const auto is_written = [&](const Tensor& t) {
    const Storage* s = t.defined() ? t.impl()->storage.load() : nullptr;
    return s && std::ranges::any_of(written, [&](const Tensor* w) {
             return w->defined() && w->impl()->storage.load() == s;
           });
  };
  const auto reads = [&](const Recipe& r) {
    return std::ranges::any_of(r.operands, is_written) ||
           (r.row && std::ranges::any_of(r.row->with, is_written)) ||
           (r.sums && is_written(r.sums->from));
  };
  return std::ranges::any_of(waiting_, reads) || std::ranges::any_of(late_, reads);
}

// ---- other threads ----

bool Queue::copy_recipes(const TensorImpl* form, std::vector<Recipe>& to) const {
  const auto gives = [&](const Recipe& r) { return r.gives(form); };
  if (const auto late = std::ranges::find_if(late_, gives); late != late_.end()) {
    to.push_back(*late);
    return true;
  }
  const auto at = std::ranges::find_if(waiting_, gives);
  if (at == waiting_.end()) return false;
  // Recipes read earlier ones only.
  std::vector<uint8_t> needed(waiting_.size(), 0);
  needed[size_t(at - waiting_.begin())] = 1;
  for (size_t s = waiting_.size(); s-- > 0;) {
    if (!needed[s]) continue;
    for (int i = 0; i < waiting_[s].operand_count(); ++i) {
      const TensorImpl* t = waiting_[s].operands[size_t(i)].impl();
      for (size_t other = 0; other < s; ++other)
        if (waiting_[other].out.impl() == t) needed[other] = 1;
    }
  }
  for (size_t s = 0; s < waiting_.size(); ++s)
    if (needed[s]) to.push_back(waiting_[s]);
  return true;
}

namespace {

// See Note [Pending results and threads].
void compute_for_another(TensorImpl* form) {
  std::vector<Recipe> recipes;
  {
    std::lock_guard lock(queues().mutex);
    for (const Queue* q : queues().all)
      if (q->copy_recipes(form, recipes)) break;
  }
  std::unordered_map<const TensorImpl*, Tensor> values;
  for (const Recipe& r : recipes) {
    std::array<Tensor, 3> operands;
    for (int i = 0; i < r.operand_count(); ++i) {
      const auto found = values.find(r.operands[size_t(i)].impl());
      operands[size_t(i)] = found == values.end() ? r.operands[size_t(i)] : found->second;
    }
    Tensor out = r.out;
    if (!r.row || r.row->has_result())
      values[r.out.impl()] = out =
          make_tensor(out.sizes(), out.strides(), out.dtype(), out.device());
    std::array<Tensor, 3> beside;
    for (size_t i = 0; r.row && i < beside.size(); ++i) {
      const Tensor& t = r.row->beside[i];
      if (!t.defined()) continue;
      values[t.impl()] = beside[i] = make_tensor(t.sizes(), t.strides(), t.dtype(), t.device());
    }
    run_alone(r, {operands.data(), size_t(r.operand_count())}, out, beside);
  }
  if (const auto own = values.find(form); own != values.end()) {
    own->second.storage()->hide();
    form->storage.install(Ref<Storage>(own->second.storage()));
  }
  // Not found: its owner has just computed it, or was not copied by a fork.
  check(form->storage.load() != nullptr, ErrorKind::Runtime, "compile",
        "a result was still to be computed by another thread when this process was forked");
}

const bool registered = [] {
  g_compute_pending = [](TensorImpl* form) {
    if (recipe_of(form) == 0) return give_storage(form);
    Queue& own = queue();
    if (own.owns(form) && !own.is_running())
      own.flush("values were asked for", nullptr, form);
    else
      compute_for_another(form);
  };
  g_flush_pending = [](const char* why) { queue().flush_before_write(why); };
  g_references_to_pending = [](const TensorImpl* form) { return queue().references_to(form); };
  return true;
}();

}  // namespace

bool pays(const Dims& sizes, Device device) {
  constexpr int64_t kMost = int64_t(1)
                            << 40;  // what cannot be allocated fails where it is asked for
  int64_t n = 1;
  for (const int64_t size : sizes) {
    if (size == 0 || size > kMost / n) return false;
    n *= size;
  }
  return !device.is_meta() &&
         (device_traits(device).asynchronous || n >= queue().settings.least_elements);
}
bool queue_step(Kind kind, unsigned fn, std::span<const Tensor* const> operands, const Tensor& out,
                ParamSpan params, DType compute) {
  return queue().queue_step(kind, fn, operands, out, params, compute);
}
bool take_rows(RowStep row, std::span<const Tensor* const> operands, const Tensor& out) {
  return queue().take_rows(std::move(row), operands, out);
}
bool take_fold(ReduceFn fn, const char* name, const Tensor& x, int64_t rows, const Tensor& out) {
  return queue().take_fold(fn, name, x, rows, out);
}
bool queue_join(const Tensor& first, const Tensor& second, int64_t dim, const Tensor& out) {
  return queue().queue_join(first, second, dim, out);
}
bool take_product(Product product, std::span<const Tensor* const> operands, const Tensor& out) {
  return queue().take_product(std::move(product), operands, out);
}
bool is_lookup(const Tensor& t) {
  const Recipe* r = queue().product_of(t);
  return r && r->product->is_lookup;
}
void look_up_into(const Tensor& t, const Tensor& memory) {
  const Recipe r = *queue().product_of(t);  // a copy: whoever asks for memory may change the queue
  r.product->run(r.operands, memory, false);
}
bool reads_later(const Tensor& x) { return may_be_read_later(x, x.device()); }
bool takes_sums(const Tensor& out) {
  const DType t = out.dtype();
  return list_loops(out).column_sums && (t == DType::Float32 || is_reduced_float(t)) &&
         is_contiguous(out.sizes(), out.strides());
}
void take_sums(ColumnSums sums, const Tensor& out) { queue().take_sums(std::move(sums), out); }
Tensor contiguous_cast(const Tensor& t) { return queue().contiguous_cast(t); }
void flush(const char* why, const char* by) { queue().flush(why, by); }
void flush_readers_of(std::span<const Tensor* const> written, const char* why) {
  queue().forget_made();
  if (queue().reads_any(written)) queue().flush(why, nullptr);
}
Counters counters() { return queue().counters; }
void report_to(Report* report) { queue().report = report; }
Settings& settings() { return queue().settings; }

}  // namespace rush::deferred
