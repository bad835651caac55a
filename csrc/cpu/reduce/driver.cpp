#include "cpu/reduce/driver.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "core/cpu_features.h"
#include "cpu/copy/copy.h"
#include "cpu/loop_nest.h"

namespace rush {

namespace {

constexpr int64_t kSegment = 65536;     // elements; see Note [Segments do not depend on threads]
constexpr int64_t kConvert = 4096;      // elements converted at a time
constexpr int64_t kColumnChunk = 1024;  // columns of a work item
constexpr int64_t kFewColumns = 64;     // fewer: several rows are folded side by side
constexpr int64_t kRowBatch = 64;       // rows whose results are finished together

struct Dim {
  int64_t size, x, out, second;  // strides in bytes
};

// Dims of one kind, innermost first, with a running index.
struct DimList {
  int n = 0;
  int64_t total = 1;
  Dim dims[kMaxDims];

  void add(const Dim& d) {
    dims[n++] = d;
    total *= d.size;
  }
  // Byte offsets of the index-th element.
  struct Offsets {
    int64_t x = 0, out = 0, second = 0;
  };
  Offsets at(int64_t index) const {
    Offsets o;
    for (int d = 0; d < n; ++d) {
      const int64_t i = index % dims[d].size;
      index /= dims[d].size;
      o.x += i * dims[d].x;
      o.out += i * dims[d].out;
      o.second += i * dims[d].second;
    }
    return o;
  }
};

class Folder {
 public:
  Folder(const FoldCall& call, const char* x, DType x_type, char* out, DType out_type)
      : call_(call), k_(*call.kernel), x_(x), out_(out) {
    second_ = call.second ? call.second->data<char>() : nullptr;
    item_ = element_size(x_type);
    element_size_ = element_size(call.element);
    direct_ = x_type == call.element;
    bring_ = convert_fn(x_type, call.element);
    value_type_ = k_.whole_result ? DType::Int64 : call.element;
    put_ = convert_fn(value_type_, out_type);
    finishes_in_place_ = value_type_ == out_type && !second_;
    if (second_) put_second_ = convert_fn(value_type_, call.second->dtype());
  }
  Folder(const FoldCall& call, const Tensor& x, const Tensor& out)
      : Folder(call, x.data<char>(), x.dtype(), out.data<char>(), out.dtype()) {
    empty_ = x.numel() == 0;
  }

  void run(const Tensor& x, const Tensor& out) {
    if (x.is_contiguous() && out.numel() == 1 && !empty_) {  // everything into one
      inner_ = {x.numel(), item_, 0, 0};
      run_rows();
      return;
    }
    collect(x, out);
    if (empty_ || inner_reduced_) {
      run_rows();
    } else {
      run_columns();
    }
  }

  // `rows` rows end to end; `of` so many in all, which decide how they are folded.
  void run_flat(int64_t rows, int64_t of, int64_t width, int64_t out_item) {
    inner_ = {width, item_, 0, 0};
    kept_.add({rows, width * item_, out_item, 0});
    all_rows_ = of;
    run_rows();
  }
  // n elements end to end into an acc.
  void run_segment(int64_t n, char* acc) {
    inner_ = {n, item_, 0, 0};
    blank(acc, 1);
    fold_row(x_, n, acc);
  }
  // Accs of segments into the one result.
  void join_segments(char* accs, int64_t count, const DimList::Offsets& at = {}) const {
    for (int64_t s = 1; s < count; ++s) k_.merge(accs, accs + s * k_.acc_size, 1);
    finish(accs, 1, at, 0, 0);
  }

 private:
  void collect(const Tensor& x, const Tensor& out) {
    if (empty_) {  // outputs of nothing: one blank result each
      inner_ = {0, item_, 0, 0};
      for (int64_t d = out.dim() - 1; d >= 0; --d)
        kept_.add({out.sizes()[d], 0, out_stride(out, d), second_stride(d)});
      return;
    }
    std::vector<LoopOperand> ops{x, out};
    if (call_.second) ops.push_back(*call_.second);
    const LoopNest nest(x.sizes(), ops);
    auto dim = [&](int d) {
      const int64_t* strides = nest.strides[d];
      return Dim{nest.sizes[d], strides[0], strides[1], call_.second ? strides[2] : 0};
    };
    inner_ = dim(0);
    inner_reduced_ = inner_.out == 0;
    for (int d = 1; d < nest.dims; ++d) (nest.strides[d][1] == 0 ? reduced_ : kept_).add(dim(d));
  }
  static int64_t out_stride(const Tensor& t, int64_t d) {
    return t.strides()[d] * t.element_size();
  }
  int64_t second_stride(int64_t d) const { return call_.second ? out_stride(*call_.second, d) : 0; }

  // n elements at one stride into one acc.
  void fold_row(const char* x, int64_t n, char* acc) const {
    if (direct_ && inner_.x == item_) {
      k_.row(x, n, acc, call_.param);
      return;
    }
    alignas(64) char buffer[kConvert * 16];
    for (int64_t i = 0; i < n; i += kConvert) {
      const int64_t m = std::min(kConvert, n - i);
      bring_(buffer, element_size_, x + i * inner_.x, inner_.x, m);
      k_.row(buffer, m, acc, call_.param);
    }
  }

  // Rows of n columns, row_stride apart, into the kernel's type, end to end.
  void bring_rows(const char* x, int64_t row_stride, int64_t rows, int64_t n, char* buffer) const {
    if (inner_.x == item_ && row_stride == n * item_) {
      bring_(buffer, element_size_, x, item_, rows * n);
      return;
    }
    for (int64_t r = 0; r < rows; ++r)
      bring_(buffer + r * n * element_size_, element_size_, x + r * row_stride, inner_.x, n);
  }

  // Rows of n elements, each into an acc of its own.
  void fold_rows(const char* x, int64_t row_stride, int64_t rows, int64_t n, char* accs) const {
    if (direct_ && inner_.x == item_) {
      k_.rows(x, row_stride, rows, n, accs, call_.param);
      return;
    }
    if (n > kConvert) {
      for (int64_t r = 0; r < rows; ++r) fold_row(x + r * row_stride, n, accs + r * k_.acc_size);
      return;
    }
    alignas(64) char buffer[kConvert * 16];
    const int64_t batch = kConvert / n;
    for (int64_t r = 0; r < rows; r += batch) {
      const int64_t m = std::min(batch, rows - r);
      bring_rows(x + r * row_stride, row_stride, m, n, buffer);
      k_.rows(buffer, n * element_size_, m, n, accs + r * k_.acc_size, call_.param);
    }
  }

  void finish(const char* accs, int64_t n, const DimList::Offsets& at, int64_t out_step,
              int64_t second_step) const {
    const int64_t size = element_size(value_type_);
    if (finishes_in_place_ && out_step == size) {
      k_.finish(accs, out_ + at.out, n, call_.count, call_.param);
      return;
    }
    alignas(64) char values[256 * 16];
    for (int64_t i = 0; i < n; i += 256) {
      const int64_t m = std::min<int64_t>(256, n - i);
      k_.finish(accs + i * k_.acc_size, values, m, call_.count, call_.param);
      put_(out_ + at.out + i * out_step, out_step, values, size, m);
      if (!second_) continue;
      k_.finish(accs + i * k_.acc_size, values, m, call_.count, call_.second_param);
      put_second_(second_ + at.second + i * second_step, second_step, values, size, m);
    }
  }

  void blank(char* accs, int64_t n) const {
    std::memcpy(accs, k_.blank, size_t(k_.acc_size));
    for (int64_t done = 1; done < n; done *= 2)
      std::memcpy(accs + done * k_.acc_size, accs, size_t(std::min(done, n - done) * k_.acc_size));
  }

  // The innermost dim is folded.
  void run_rows() {
    const int64_t n = inner_.size, rows = reduced_.total, outputs = kept_.total;
    if (can_transpose()) return run_transposed();
    const int64_t parts = n > kSegment ? (n + kSegment - 1) / kSegment : 1;
    const int64_t group = parts > 1 ? 1 : std::max<int64_t>(1, kSegment / std::max<int64_t>(n, 1));
    const int64_t segments = parts * ((rows + group - 1) / group);
    auto fold_segment = [&](const char* x, int64_t segment, char* acc) {
      const int64_t begin = segment % parts * kSegment, row = segment / parts * group;
      const int64_t length = std::min(kSegment, n - begin);
      for (int64_t r = row; r < std::min(rows, row + group); ++r)
        fold_row(x + reduced_.at(r).x + begin * inner_.x, parts > 1 ? length : n, acc);
    };
    if (segments == 1) {
      const Dim along = kept_.n > 0 ? kept_.dims[0] : Dim{1, 0, 0, 0};
      const int64_t each = std::max<int64_t>(1, n * rows);
      parallel_for(outputs, std::max<int64_t>(1, kGrain / each), [&](int64_t begin, int64_t end) {
        alignas(64) char accs[kRowBatch * 64];
        for (int64_t o = begin; o < end;) {
          const int64_t m = std::min({end - o, kRowBatch, along.size - o % along.size});
          const auto at = kept_.at(o);
          blank(accs, m);
          if (reduced_.n == 0 && k_.rows && n > 0) {
            fold_rows(x_ + at.x, along.x, m, n, accs);
          } else {
            for (int64_t k = 0; k < m; ++k)
              fold_segment(x_ + at.x + k * along.x, 0, accs + k * k_.acc_size);
          }
          finish(accs, m, at, along.out, along.second);
          o += m;
        }
      });
      return;
    }
    const std::unique_ptr<char[]> accs(new char[size_t(outputs * segments * k_.acc_size)]);
    auto acc_of = [&](int64_t i) { return accs.get() + i * k_.acc_size; };
    // One more segment is done sooner than a thread wakes.
    parallel_for(outputs * segments, 2, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        blank(acc_of(i), 1);
        fold_segment(x_ + kept_.at(i / segments).x, i % segments, acc_of(i));
      }
    });
    for (int64_t o = 0; o < outputs; ++o)
      join_segments(acc_of(o * segments), segments, kept_.at(o));
  }

  // Many short rows end to end: transposed they become columns, which vectorise.
  bool can_transpose() const {
    return inner_.size > 1 && inner_.size <= 16 && inner_.x == item_ && reduced_.n == 0 &&
           kept_.n > 0 && kept_.dims[0].x == inner_.size * item_ &&
           std::max(kept_.dims[0].size, all_rows_) >= 16;
  }

  void run_transposed() {
    const int64_t n = inner_.size;
    const Dim along = kept_.dims[0];
    constexpr int64_t chunk = 256;
    const int64_t chunks = (along.size + chunk - 1) / chunk, outers = kept_.total / along.size;
    DimList outer;
    for (int d = 1; d < kept_.n; ++d) outer.add(kept_.dims[d]);
    const int64_t grain = std::max<int64_t>(1, kGrain / (chunk * n));
    parallel_for(outers * chunks, grain, [&](int64_t begin, int64_t end) {
      alignas(64) char columns[chunk * 16 * 16], accs[chunk * 64];
      for (int64_t i = begin; i < end; ++i) {
        auto at = outer.at(i / chunks);
        const int64_t first = i % chunks * chunk, m = std::min(chunk, along.size - first);
        const char* x = x_ + at.x + first * along.x;
        for (int64_t c = 0; c < n; ++c)
          bring_(columns + c * m * element_size_, element_size_, x + c * item_, along.x, m);
        blank(accs, m);
        k_.columns(columns, m * element_size_, n, m, accs, call_.param);
        at.out += first * along.out;
        at.second += first * along.second;
        finish(accs, m, at, along.out, along.second);
      }
    });
  }

  // Elements of the kernel's type: rows of n columns, row_stride apart.
  void fold_direct(const char* x, int64_t row_stride, int64_t rows, int64_t n, char* accs) const {
    const int64_t side = kFewColumns / n;  // rows to fold side by side
    if (side > 1 && row_stride == n * element_size_ && rows >= 4 * side) {
      alignas(64) char wide[kFewColumns * 64];
      blank(wide, side * n);
      const int64_t full = rows / side;
      k_.columns(x, row_stride * side, full, side * n, wide, call_.param);
      for (int64_t g = 0; g < side; ++g) k_.merge(accs, wide + g * n * k_.acc_size, n);
      x += full * side * row_stride;
      rows -= full * side;
    }
    if (rows > 0) k_.columns(x, row_stride, rows, n, accs, call_.param);
  }

  void fold_columns(const char* x, int64_t row_stride, int64_t rows, int64_t n, char* accs) const {
    if (direct_ && inner_.x == item_) {
      fold_direct(x, row_stride, rows, n, accs);
      return;
    }
    alignas(64) char buffer[kConvert * 16];
    const int64_t batch = std::max<int64_t>(1, kConvert / n);
    for (int64_t r = 0; r < rows; r += batch) {
      const int64_t m = std::min(batch, rows - r);
      bring_rows(x + r * row_stride, row_stride, m, n, buffer);
      fold_direct(buffer, n * element_size_, m, n, accs);
    }
  }

  // Rows [begin, end) of the folded dims, for the columns at x.
  void fold_span(const char* x, int64_t begin, int64_t end, int64_t n, char* accs) const {
    const Dim& first = reduced_.dims[0];
    for (int64_t r = begin; r < end;) {
      const int64_t run = std::min(end - r, first.size - r % first.size);
      fold_columns(x + reduced_.at(r).x, first.x, run, n, accs);
      r += run;
    }
  }

  // The innermost dim stays: fold down columns.
  void run_columns() {
    const int64_t n = inner_.size, rows = reduced_.total;
    if (reduced_.n == 0) reduced_.add({1, 0, 0, 0});
    const int64_t width = std::min(n, kColumnChunk), chunks = (n + width - 1) / width;
    const int64_t items = kept_.total * chunks;
    // Enough work items for any machine: no need to cut the rows.
    const int64_t group = items >= 64 ? rows : std::max<int64_t>(64, kSegment * 4 / width);
    const int64_t segments = (rows + group - 1) / group;
    const int64_t grain =
        std::max<int64_t>(1, kGrain / std::max<int64_t>(1, width * std::min(rows, group)));
    if (k_.few_rows && direct_ && finishes_in_place_ && inner_.x == item_ && reduced_.n <= 1 &&
        rows <= kFewRows && inner_.out == element_size(value_type_)) {
      parallel_for(items, grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t c = i % chunks * width, m = std::min(width, n - c);
          const auto at = kept_.at(i / chunks);
          k_.few_rows(x_ + at.x + c * inner_.x, reduced_.dims[0].x, rows, m,
                      out_ + at.out + c * inner_.out, call_.count, call_.param);
        }
      });
      return;
    }
    if (segments == 1) {
      parallel_for(items, grain, [&](int64_t begin, int64_t end) {
        const std::unique_ptr<char[]> accs(new char[size_t(width * k_.acc_size)]);
        for (int64_t i = begin; i < end; ++i) {
          const int64_t c = i % chunks * width, m = std::min(width, n - c);
          auto at = kept_.at(i / chunks);
          blank(accs.get(), m);
          fold_span(x_ + at.x + c * inner_.x, 0, rows, m, accs.get());
          at.out += c * inner_.out;
          at.second += c * inner_.second;
          finish(accs.get(), m, at, inner_.out, inner_.second);
        }
      });
      return;
    }
    const int64_t block = width * k_.acc_size;
    const std::unique_ptr<char[]> accs(new char[size_t(items * segments * block)]);
    parallel_for(items * segments, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t item = i / segments, row = i % segments * group;
        const int64_t c = item % chunks * width, m = std::min(width, n - c);
        char* into = accs.get() + i * block;
        blank(into, m);
        const char* x = x_ + kept_.at(item / chunks).x + c * inner_.x;
        fold_span(x, row, std::min(rows, row + group), m, into);
      }
    });
    for (int64_t item = 0; item < items; ++item) {
      const int64_t c = item % chunks * width, m = std::min(width, n - c);
      char* into = accs.get() + item * segments * block;
      for (int64_t s = 1; s < segments; ++s) k_.merge(into, into + s * block, m);
      auto at = kept_.at(item / chunks);
      at.out += c * inner_.out;
      at.second += c * inner_.second;
      finish(into, m, at, inner_.out, inner_.second);
    }
  }

  const FoldCall& call_;
  const FoldKernel& k_;
  const char* x_;
  char *out_, *second_;
  int64_t item_, element_size_, all_rows_ = 0;
  bool direct_, finishes_in_place_, empty_ = false, inner_reduced_ = true;
  ConvertFn bring_, put_, put_second_ = nullptr;
  DType value_type_;
  Dim inner_{1, 0, 0, 0};
  DimList kept_, reduced_;
};

template <Isa isa, class... Types>
void use(const FoldTable** tables) {
  ((tables[int(dtype_of<Types>)] = fold_table<isa, Types>()), ...);
}

}  // namespace

const FoldTable& folds_for(DType element) {
  static const PerIsa<std::array<const FoldTable*, kDTypeCount>> tables(
      []([[maybe_unused]] IsaLevel level) {
        std::array<const FoldTable*, kDTypeCount> t{};
        use<Isa::baseline, float, double, int64_t, uint64_t, bool, complex<float>, complex<double>>(
            t.data());
#ifdef __x86_64__
        if (level >= IsaLevel::Avx2)
          use<Isa::avx2, float, double, int64_t, uint64_t, bool>(t.data());
        if (level >= IsaLevel::Avx512) use<Isa::avx512, float, double>(t.data());
#endif
        return t;
      });
  return *tables.now()[size_t(element)];
}

void run_fold(const FoldCall& call, const Tensor& x, const Tensor& out) {
  if (out.numel() == 0) return;
  const int64_t n = x.numel();
  if (n > 0 && n <= kSegment && out.numel() == 1 && x.is_contiguous() && !call.second &&
      x.dtype() == call.element && out.dtype() == call.element && !call.kernel->whole_result) {
    const FoldKernel& k = *call.kernel;  // what most small sums are, without the geometry
    alignas(64) char acc[64];
    std::memcpy(acc, k.blank, size_t(k.acc_size));
    k.row(x.data<char>(), n, acc, call.param);
    k.finish(acc, out.data<char>(), 1, call.count, call.param);
    return;
  }
  Folder(call, x, out).run(x, out);
}

// ---- piece by piece ----

bool FoldPieces::takes(DType x, int64_t rows, int64_t width) {
  if (!is_floating(x) || is_float8(x) || width < 2) return false;
  // A row of several segments has to be the only one: else they would be of different lengths.
  return rows == 1 ? width > kSegment : width <= kSegment;
}

FoldPieces::FoldPieces(ReduceFn fn, DType x, int64_t rows, int64_t width, const Tensor& out)
    : call_(fold_call(fn, x, out.dtype(), double(width))),
      x_(x),
      rows_(rows),
      width_(width),
      out_(out) {
  constexpr int64_t kPiece = 32768;  // elements, about
  unit_ = rows == 1 ? kSegment : std::max<int64_t>(1, kPiece / width) * width;
  if (rows == 1) {
    const int64_t segments = (width + kSegment - 1) / kSegment;
    accs_.reset(new char[size_t(segments * call_.kernel->acc_size)]);
  }
}

void FoldPieces::run(const char* piece, int64_t first, int64_t n) {
  const int64_t item = out_.element_size();
  char* const out = out_.data<char>() + (accs_ ? 0 : first / width_ * item);
  Folder folder(call_, piece, x_, out, out_.dtype());
  if (accs_)
    folder.run_segment(n, accs_.get() + first / unit_ * call_.kernel->acc_size);
  else
    folder.run_flat(n / width_, rows_, width_, item);
}

void FoldPieces::finish() {
  if (!accs_) return;
  Folder(call_, nullptr, x_, out_.data<char>(), out_.dtype())
      .join_segments(accs_.get(), (width_ + unit_ - 1) / unit_);
}

}  // namespace rush
