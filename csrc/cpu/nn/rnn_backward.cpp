// rnn_backward.cpp: the backward pass of a recurrent layer.
//
// The steps backwards give the gradients of all sums (of every row, gate and unit). What is left
// needs no order in time: the gradients of inputs and weights are one large product each.
#include "core/interrupt.h"
#include "cpu/nn/rnn_plan.h"

namespace rush {

namespace {

template <class T>
struct Backward : RnnPass {
  const int64_t rows, batch;
  const int64_t sums, sums_row;  // gradients of sums per row (a GRU has one more than gates)
  const int64_t h_row;           // of h_grads
  const RnnWeight<T> w_state, w_project;
  const Scratch<T> sums_grads;
  const Scratch<T> h_grads;  // of the projected outputs
  const std::vector<T> zeros;
  const T *output, *kept_gates, *kept_cells, *kept_unprojected, *output_grad, *last_h_grad,
      *last_c_grad;
  T *h_grad, *c_grad;

  Backward(const RnnLayer& l, const Tensor& out, const RnnKept& kept, const RnnGrads& grads,
           const RnnInputGrads& to)
      : RnnPass(l),
        rows(l.rows()),
        batch(l.batch()),
        sums(std::max(gates, rnn_kept(l.mode)) * hidden),
        sums_row(padded_row<T>(sums)),
        h_row(padded_row<T>(outputs)),
        w_state(l.w_state.data<T>(), 1, outputs, gates * hidden, 1, outputs, worth_packing(l)),
        w_project(data_or_null<T>(l.w_project), 1, l.w_project.defined() ? hidden : 0, outputs, 1,
                  hidden, worth_packing(l)),
        sums_grads(rows * sums_row),
        h_grads(l.w_project.defined() ? rows * h_row : 0),
        zeros(size_t(std::max(hidden, outputs)), T(0)),
        output(out.data<T>()),
        kept_gates(data_or_null<T>(kept.gates)),
        kept_cells(data_or_null<T>(kept.cells)),
        kept_unprojected(data_or_null<T>(kept.unprojected)),
        output_grad(data_or_null<T>(grads.output)),
        last_h_grad(data_or_null<T>(grads.last_h)),
        last_c_grad(data_or_null<T>(grads.last_c)),
        h_grad(data_or_null<T>(to.h)),
        c_grad(data_or_null<T>(to.c)) {}

  void run_steps();

  // c = beta * c + transpose(n columns of a) @ b, over some rows.
  static void add_product(int64_t n, int64_t over, const T* a, int64_t a_row, int64_t m, const T* b,
                          int64_t b_row, T* c, T beta) {
    Multiply<T>::product({n, m, over, {a, 1, a_row}, {b, b_row, 1}, {c, m, 1}, T(1), beta});
  }
  // The columns of sums that belong to the input's weight: all, except that a GRU's new gate has a
  // gradient of its own for the input.
  template <class F>
  void for_input_gates(F&& run) const {
    if (layer.mode != RnnMode::Gru) return run(0, 0, gates * hidden);
    run(0, 0, 2 * hidden);
    run(3 * hidden, 2 * hidden, hidden);
  }

  void input_grad(T* to) const {
    const int64_t n = layer.input_size();
    T beta(0);
    for_input_gates([&](int64_t column, int64_t gate, int64_t count) {
      Multiply<T>::product({rows,
                            n,
                            count,
                            {sums_grads.get() + column, sums_row, 1},
                            {layer.w_input.data<T>() + gate * n, n, 1},
                            {to, n, 1},
                            T(1),
                            beta});
      beta = T(1);
    });
  }
  void w_input_grad(T* to) const {
    const int64_t n = layer.input_size();
    for_input_gates([&](int64_t column, int64_t gate, int64_t count) {
      add_product(count, rows, sums_grads.get() + column, sums_row, n, layer.input.data<T>(), n,
                  to + gate * n, T(0));
    });
  }
  void w_state_grad(T* to) const;
  void w_project_grad(T* to) const {
    add_product(outputs, rows, h_grads.get(), h_row, hidden, kept_unprojected, hidden, to, T(0));
  }
  void column_sums(int64_t column, int64_t count, T* to) const {
    const std::vector<T> ones(size_t(rows), T(1));
    Multiply<T>::vector(count, rows, {sums_grads.get() + column, 1, sums_row}, ones.data(), 1, to,
                        1, T(1), T(0));
  }
  void b_input_grad(T* to) const {
    for_input_gates([&](int64_t column, int64_t gate, int64_t count) {
      column_sums(column, count, to + gate);
    });
  }
  void b_state_grad(T* to) const { column_sums(0, gates * hidden, to); }
};

// Some sequences on their way back through all steps.
template <class T>
struct SequencesBack {
  const Backward<T>& f;
  const int64_t begin, end, most;
  const bool share, projects;
  const Scratch<T> flow, unprojected_flow, carry, no_carry, c_grad;

  SequencesBack(const Backward<T>& backward, int64_t first, int64_t last, bool share_units)
      : f(backward),
        begin(first),
        end(last),
        most(last - first),
        share(share_units),
        projects(f.layer.w_project.defined()),
        flow(most * f.w_state.padded_units()),
        unprojected_flow(projects ? most * f.w_project.padded_units() : 0),
        carry(most * f.outputs),
        no_carry(projects ? most * f.hidden : 0),
        c_grad(f.layer.mode == RnnMode::Lstm ? most * f.hidden : 0) {
    take(f.last_h_grad, f.outputs, carry.get());
    if (c_grad.get()) take(f.last_c_grad, f.hidden, c_grad.get());
    if (projects) std::fill_n(no_carry.get(), most * f.hidden, T(0));
  }
  void take(const T* grad, int64_t n, T* to) {
    if (grad)
      std::copy_n(grad + begin * n, most * n, to);
    else
      std::fill_n(to, most * n, T(0));
  }

  int64_t active(int64_t s) const { return f.steps.active_in(s, begin, end); }
  int64_t row(int64_t s) const { return f.steps.first[size_t(s)] + begin; }

  void run() {
    InterruptCounter interrupts(16);
    for (int64_t s = f.steps.count() - 1; s >= -1; --s) {
      interrupts.add();
      step(s);
    }
  }

  // Step -1: the first step is done, and what flows back from it goes to the initial state.
  void step(int64_t s) {
    const int64_t rows = active(s), later = active(s + 1);
    if (later > rows && f.c_grad)  // these sequences have come to their first step
      std::copy_n(c_grad.get() + rows * f.hidden, (later - rows) * f.hidden,
                  f.c_grad + (begin + rows) * f.hidden);
    const int64_t flowing = f.h_grad ? later : std::min(rows, later);
    for_blocks(f.w_state.blocks(), share && f.w_state.packed(), s + 1, [&](int64_t block) {
      const int64_t u = f.w_state.begin(block), width = f.w_state.width(block);
      T* const tile = flow.get() + most * u;
      if (flowing > 0)
        f.w_state.multiply(block, 0, 1, flowing, f.sums_grads.get() + row(s + 1) * f.sums_row,
                           f.sums_row, tile, width, false);
      for (int64_t r = rows; r < flowing; ++r)
        sum_rows(f.w_state.units(block), tile + r * width, carry.get() + r * f.outputs + u,
                 f.zeros.data(), f.h_grad + (begin + r) * f.outputs + u);
      if (rows > later) clear_rows(rows - later, width, tile + later * width, width);
      if (projects)
        gather(s, block, rows, tile);
      else
        run_cells(s, f.w_state, block, rows, tile, false);
    });
    if (!projects || rows == 0) return;
    for_blocks(f.w_project.blocks(), share && f.w_project.packed(), s + 1, [&](int64_t block) {
      T* const tile = unprojected_flow.get() + most * f.w_project.begin(block);
      f.w_project.multiply(block, 0, 1, rows, f.h_grads.get() + row(s) * f.h_row, f.h_row, tile,
                           f.w_project.width(block), false);
      run_cells(s, f.w_project, block, rows, tile, true);
    });
  }

  static void sum_rows(int64_t n, const T* a, const T* b, const T* c, T* to) {
    for (int64_t i = 0; i < n; ++i) to[i] = a[i] + b[i] + c[i];
  }

  // The gradient of projected outputs: from later steps, from outside, from the last state.
  void gather(int64_t s, int64_t block, int64_t rows, const T* tile) {
    const int64_t u = f.w_state.begin(block), n = f.w_state.units(block);
    for (int64_t r = 0; r < rows; ++r) {
      T* const past = carry.get() + r * f.outputs + u;
      const T* grad = f.output_grad ? f.output_grad + (row(s) + r) * f.outputs + u : f.zeros.data();
      sum_rows(n, tile + r * f.w_state.width(block), past, grad,
               f.h_grads.get() + (row(s) + r) * f.h_row + u);
      std::fill_n(past, n, T(0));
    }
  }

  // Rows whose state before the step is that of an earlier step, and rows that began with it.
  void run_cells(int64_t s, const RnnWeight<T>& blocks, int64_t block, int64_t rows, const T* tile,
                 bool projected) {
    const int64_t earlier = std::min(active(s - 1), rows);
    for_rows(rows, f.sums, !blocks.packed(), [&](int64_t first, int64_t last) {
      run_cell(s, blocks, block, first, std::min(last, earlier), tile, projected, true);
      run_cell(s, blocks, block, std::max(first, earlier), last, tile, projected, false);
    });
  }

  void run_cell(int64_t s, const RnnWeight<T>& blocks, int64_t block, int64_t first, int64_t last,
                const T* tile, bool projected, bool goes_on) {
    if (first >= last) return;
    const bool lstm = f.layer.mode == RnnMode::Lstm;
    const int64_t u = blocks.begin(block), width = blocks.width(block), n = f.hidden;
    const int64_t at = row(s) + first;
    CellBackward<T> p{};
    p.rows = last - first;
    p.units = blocks.units(block);
    p.flow = tile + first * width;
    p.flow_row = width;
    const bool has_grad = f.output_grad && !projected;
    p.grad = has_grad ? f.output_grad + at * n + u : f.zeros.data();
    p.grad_row = has_grad ? n : 0;
    p.carry = (projected ? no_carry.get() : carry.get()) + first * n + u;
    p.carry_row = n;
    p.gate = n;
    const int64_t kept = rnn_kept(f.layer.mode);
    p.kept = kept ? f.kept_gates + at * kept * n + u : f.output + at * n + u;
    p.kept_row = kept ? kept * n : n;
    const Tensor& initial = lstm ? f.layer.c : f.layer.h;
    if (goes_on) {
      p.before = (lstm ? f.kept_cells : f.output) + (row(s - 1) + first) * n + u;
      p.before_row = n;
    } else {
      p.before =
          initial.defined() ? data_or_null<T>(initial) + (begin + first) * n + u : f.zeros.data();
      p.before_row = initial.defined() ? n : 0;
    }
    if (lstm) {
      p.c = f.kept_cells + at * n + u;
      p.c_row = n;
      p.c_grad = c_grad.get() + first * n + u;
      p.c_grad_row = n;
    }
    p.sums_grad = f.sums_grads.get() + at * f.sums_row + u;
    p.sums_grad_row = f.sums_row;
    rnn_kernels<T>().backward[int(f.layer.mode)](p);
  }
};

template <class T>
void Backward<T>::run_steps() {
  const RnnSplit split = split_rnn(layer, steps, w_state);
  for_sequences(split, [&](int64_t begin, int64_t end) {
    SequencesBack<T>(*this, begin, end, split.share_units).run();
  });
}

// The states before each step are the outputs of the step before, and the initial ones.
template <class T>
void Backward<T>::w_state_grad(T* to) const {
  const int64_t columns = gates * hidden, n = outputs;
  const T* const initial = data_or_null<T>(layer.h);
  if (steps.active.front() == steps.active.back()) {  // without packing: outputs, one step moved
    const int64_t moved = rows - batch, first = layer.reverse ? moved : 0;
    T beta(0);
    if (moved > 0) {
      add_product(columns, moved, sums_grads.get() + (layer.reverse ? 0 : batch) * sums_row,
                  sums_row, n, output + (layer.reverse ? batch : 0) * n, n, to, beta);
      beta = T(1);
    }
    if (initial)
      add_product(columns, batch, sums_grads.get() + first * sums_row, sums_row, n, initial, n, to,
                  beta);
    else if (moved == 0)
      std::fill_n(to, columns * n, T(0));
    return;
  }
  const Scratch<T> before(rows * n);
  for (int64_t s = 0; s < steps.count(); ++s) {
    const int64_t now = steps.active[size_t(s)], at = steps.first[size_t(s)];
    const int64_t earlier = std::min(s > 0 ? steps.active[size_t(s - 1)] : 0, now);
    if (earlier > 0)
      std::copy_n(output + steps.first[size_t(s - 1)] * n, earlier * n, before.get() + at * n);
    T* const rest = before.get() + (at + earlier) * n;
    if (initial)
      std::copy_n(initial + earlier * n, (now - earlier) * n, rest);
    else
      std::fill_n(rest, (now - earlier) * n, T(0));
  }
  add_product(columns, rows, sums_grads.get(), sums_row, n, before.get(), n, to, T(0));
}

void rnn_backward_cpu(const RnnLayer& layer, const Tensor& output, const RnnKept& kept,
                      const RnnGrads& grads, const RnnInputGrads& out) {
  dispatch<DType::Float32, DType::Float64>("rnn", layer.input.dtype(), [&]<typename T>() {
    Backward<T> pass(layer, output, kept, grads, out);
    pass.run_steps();
    if (T* to = data_or_null<T>(out.input)) pass.input_grad(to);
    if (T* to = data_or_null<T>(out.w_input)) pass.w_input_grad(to);
    if (T* to = data_or_null<T>(out.w_state)) pass.w_state_grad(to);
    T *const b_input = data_or_null<T>(out.b_input), *const b_state = data_or_null<T>(out.b_state);
    if (b_input) pass.b_input_grad(b_input);
    if (b_state && b_input && layer.mode != RnnMode::Gru)  // added together, so they are the same
      std::copy_n(b_input, out.b_state.numel(), b_state);
    else if (b_state)
      pass.b_state_grad(b_state);
    if (T* to = data_or_null<T>(out.w_project)) pass.w_project_grad(to);
  });
}

const bool registered = [] {
  rnn_loops(DeviceType::CPU).layer_backward = rnn_backward_cpu;
  return true;
}();

}  // namespace
}  // namespace rush
