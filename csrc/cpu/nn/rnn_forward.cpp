// rnn_forward.cpp: the forward pass of a recurrent layer.
//
// The input's products do not wait for the states, so they are done for some steps at once; their
// sums stay in the cache until the steps add what comes from the state and run the gates.
#include "core/interrupt.h"
#include "cpu/nn/rnn_plan.h"

namespace rush {

namespace {

template <class T>
struct Forward : RnnPass {
  const RnnWeight<T> w_input, w_state, w_project;
  std::vector<T> bias;
  T *output, *last_h, *last_c, *kept_gates, *kept_cells, *kept_unprojected;

  Forward(const RnnLayer& l, const Tensor& out, const Tensor& h, const Tensor& c,
          const RnnKept& kept)
      : RnnPass(l),
        w_input(l.w_input.data<T>(), gates, hidden, l.input_size(), l.input_size(), 1,
                worth_packing(l)),
        w_state(l.w_state.data<T>(), gates, hidden, outputs, outputs, 1, worth_packing(l)),
        w_project(data_or_null<T>(l.w_project), 1, l.w_project.defined() ? outputs : 0, hidden,
                  hidden, 1, worth_packing(l)),
        bias(size_t(4 * hidden), T(0)),
        output(out.data<T>()),
        last_h(h.data<T>()),
        last_c(data_or_null<T>(c)),
        kept_gates(data_or_null<T>(kept.gates)),
        kept_cells(data_or_null<T>(kept.cells)),
        kept_unprojected(data_or_null<T>(kept.unprojected)) {
    add_bias(l.b_input, 0);
    // The new gate of a GRU multiplies the state's part by the reset gate, bias and all.
    add_bias(l.b_state, l.mode == RnnMode::Gru ? hidden : 0);
  }

  void add_bias(const Tensor& b, int64_t last_gate_shift) {
    if (!b.defined()) return;
    for (int64_t i = 0; i < gates * hidden; ++i)
      bias[size_t(i + (i >= (gates - 1) * hidden ? last_gate_shift : 0))] += b.data<T>()[i];
  }

  void run() {
    const RnnSplit split = split_rnn(layer, steps, w_state);
    for_sequences(split, [&](int64_t begin, int64_t end) { sequences(begin, end, split); });
  }

  void sequences(int64_t begin, int64_t end, const RnnSplit& split);
};

// Some sequences on their way through all steps.
template <class T>
struct Sequences {
  const Forward<T>& f;
  const int64_t begin, end, most;  // sequences, and how many
  const bool share;                // the threads share the units of a step
  const bool projects;
  const int64_t together;  // steps whose input products are done at once
  const int64_t h_row, x_row;
  const bool gathers;  // are inputs copied together first?
  Scratch<T> x, sums, state_sums, h_now, h_next, c, unprojected, projected;
  T *now, *next;

  Sequences(const Forward<T>& forward, int64_t first, int64_t last, bool share_units)
      : f(forward),
        begin(first),
        end(last),
        most(last - first),
        share(share_units),
        projects(f.layer.w_project.defined()),
        together(std::clamp<int64_t>(128 / most, 1, f.steps.count())),
        h_row(padded_row<T>(f.outputs)),
        x_row(padded_row<T>(f.layer.input_size())),
        gathers(most < 8 || rows_collide<T>(f.layer.input_size())),
        x(gathers ? together * most * x_row : 0),
        sums(together * most * f.gates * f.w_input.padded_units()),
        state_sums(f.layer.mode == RnnMode::Gru ? most * f.w_state.padded_units() : 0),
        h_now(most * h_row),
        h_next(most * h_row),
        c(f.layer.mode == RnnMode::Lstm ? most * f.hidden : 0),
        unprojected(projects ? most * padded_row<T>(f.hidden) : 0),
        projected(projects ? most * f.w_project.padded_units() : 0),
        now(h_now.get()),
        next(h_next.get()) {}

  int64_t active(int64_t s) const { return f.steps.active_in(s, begin, end); }
  int64_t row(int64_t s) const { return f.steps.first[size_t(s)] + begin; }
  T* sums_of(int64_t block) const {
    return sums.get() + together * most * f.gates * f.w_input.begin(block);
  }

  void run() {
    InterruptCounter interrupts(16);
    for (int64_t s = 0; s < f.steps.count(); s += together) {
      const int64_t stop = std::min(s + together, f.steps.count());
      multiply_inputs(s, stop);
      int64_t at = 0;  // the row of sums
      for (int64_t t = s; t < stop; at += active(t), ++t) {
        interrupts.add();
        step(t, at);
      }
    }
    finish(0, active(f.steps.count() - 1));
  }

  void multiply_inputs(int64_t s, int64_t stop) {
    const int64_t n = f.layer.input_size();
    const T* input = data_or_null<T>(f.layer.input);
    int64_t rows = 0;
    for (int64_t t = s; t < stop; rows += active(t), ++t) {
      if (gathers) copy_rows(active(t), n, input + row(t) * n, n, x.get() + rows * x_row, x_row);
    }
    for_blocks(f.w_input.blocks(), share && f.w_input.packed(), 0, [&](int64_t block) {
      const int64_t sums_row = f.gates * f.w_input.width(block);
      T* to = sums_of(block);
      if (gathers)
        return f.w_input.multiply(block, 0, f.gates, rows, x.get(), x_row, to, sums_row, false);
      for (int64_t t = s; t < stop; to += active(t) * sums_row, ++t)
        f.w_input.multiply(block, 0, f.gates, active(t), input + row(t) * n, n, to, sums_row,
                           false);
    });
  }

  // Sequences that begin at this step get their first state.
  void start(int64_t from, int64_t to) {
    const auto take = [&](const Tensor& state, int64_t n, T* rows, int64_t rows_row) {
      if (state.defined())
        copy_rows(to - from, n, data_or_null<T>(state) + (begin + from) * n, n,
                  rows + from * rows_row, rows_row);
      else
        clear_rows(to - from, n, rows + from * rows_row, rows_row);
    };
    take(f.layer.h, f.outputs, now, h_row);
    if (c.get()) take(f.layer.c, f.hidden, c.get(), f.hidden);
  }

  // Sequences that ended at the step before.
  void finish(int64_t from, int64_t to) {
    copy_rows(to - from, f.outputs, now + from * h_row, h_row,
              f.last_h + (begin + from) * f.outputs, f.outputs);
    if (c.get())
      copy_rows(to - from, f.hidden, c.get() + from * f.hidden, f.hidden,
                f.last_c + (begin + from) * f.hidden, f.hidden);
  }

  void step(int64_t s, int64_t at) {
    const int64_t rows = active(s), before = active(s - 1);
    if (rows > before) start(before, rows);
    if (rows < before) finish(rows, before);
    if (rows == 0) return;
    const bool state_is_zero = s == 0 && !f.layer.h.defined();
    for_blocks(f.w_state.blocks(), share && f.w_state.packed(), s, [&](int64_t block) {
      const int64_t width = f.w_state.width(block), sums_row = f.gates * width;
      T* to = sums_of(block) + at * sums_row;
      const bool gru = f.layer.mode == RnnMode::Gru;
      T* const q = state_sums.get() + most * f.w_state.begin(block);
      if (!state_is_zero) {
        const int64_t added = gru ? 2 : f.gates;
        f.w_state.multiply(block, 0, added, rows, now, h_row, to, sums_row, true);
        if (gru) f.w_state.multiply(block, 2, 1, rows, now, h_row, q, width, false);
      } else if (gru) {
        clear_rows(rows, width, q, width);
      }
      // Without packing there is one block, and nobody else shares its rows among the threads.
      for_rows(rows, sums_row, !f.w_state.packed(),
               [&](int64_t first, int64_t last) { run_cell(s, block, first, last, to, q); });
    });
    if (projects) project(s, rows);
    std::swap(now, next);
  }

  void run_cell(int64_t s, int64_t block, int64_t first, int64_t last, const T* block_sums,
                const T* q) {
    const int64_t u = f.w_state.begin(block), width = f.w_state.width(block), n = f.hidden;
    const int64_t h_to = projects ? padded_row<T>(n) : h_row, at = row(s) + first;
    CellForward<T> p{};
    p.rows = last - first;
    p.units = f.w_state.units(block);
    p.sums_row = f.gates * width;
    p.sums_gate = width;
    p.sums = block_sums + first * p.sums_row;
    p.state_sums = q + first * width;
    p.state_sums_row = width;
    p.bias = f.bias.data() + u;
    p.gate = n;
    p.h_before = now + first * h_row + u;
    p.h_before_row = h_row;
    p.c = c.get() + first * n + u;
    p.c_row = n;
    p.h = (projects ? unprojected.get() : next) + first * h_to + u;
    p.h_row = h_to;
    T* const out = projects ? f.kept_unprojected : f.output;
    p.out = out ? out + at * n + u : p.h;
    p.out_row = out ? n : h_to;
    if (f.kept_gates) {
      p.kept = f.kept_gates + at * rnn_kept(f.layer.mode) * n + u;
      p.kept_row = rnn_kept(f.layer.mode) * n;
      p.cells = f.kept_cells + at * n + u;
      p.cells_row = n;
    }
    rnn_kernels<T>().forward[int(f.layer.mode)](p);
  }

  void project(int64_t s, int64_t rows) {
    for_blocks(f.w_project.blocks(), share && f.w_project.packed(), s, [&](int64_t block) {
      const int64_t u = f.w_project.begin(block), width = f.w_project.width(block);
      const int64_t n = f.w_project.units(block);
      T* const tile = projected.get() + most * u;
      f.w_project.multiply(block, 0, 1, rows, unprojected.get(), padded_row<T>(f.hidden), tile,
                           width, false);
      copy_rows(rows, n, tile, width, next + u, h_row);
      copy_rows(rows, n, tile, width, f.output + row(s) * f.outputs + u, f.outputs);
    });
  }
};

template <class T>
void Forward<T>::sequences(int64_t begin, int64_t end, const RnnSplit& split) {
  Sequences<T>(*this, begin, end, split.share_units).run();
}

void rnn_forward_cpu(const RnnLayer& layer, const Tensor& output, const Tensor& last_h,
                     const Tensor& last_c, const RnnKept& kept) {
  dispatch<DType::Float32, DType::Float64>("rnn", layer.input.dtype(), [&]<typename T>() {
    Forward<T>(layer, output, last_h, last_c, kept).run();
  });
}

const bool registered = [] {
  rnn_loops(DeviceType::CPU).layer_forward = rnn_forward_cpu;
  return true;
}();

}  // namespace
}  // namespace rush
