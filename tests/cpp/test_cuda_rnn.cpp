// The kernels of recurrent cells without a GPU: backward against differences of forward.
#include "cuda_on_cpu.h"

#include <cmath>
#include <random>
#include <vector>

#include "testing.h"

#include "cuda/kernels/rnn.cu"

using namespace rush;

namespace {

constexpr i64 kRows = 3, kUnits = 5, kCells = kRows * kUnits;
using Numbers = std::vector<double>;

Numbers random_numbers(i64 n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Numbers out(static_cast<size_t>(n));
  for (double& x : out) x = normal(random);
  return out;
}
double dot(const Numbers& a, const Numbers& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// d f / d x[i] by central differences, compared with `found`.
template <class F>
bool agrees(Numbers& x, const Numbers& found, F f) {
  bool all = x.size() == found.size();
  for (size_t i = 0; i < x.size(); ++i) {
    const double kept = x[i], step = 1e-6;
    x[i] = kept + step;
    const double up = f();
    x[i] = kept - step;
    const double down = f();
    x[i] = kept;
    all = all && std::abs((up - down) / (2 * step) - found[i]) < 1e-7;
  }
  return all;
}

struct Cell {
  i64 gates;
  Numbers in, state, b_in, b_state, before, h, c, kept, gh, gc;
  Numbers g_in, g_state, g_before;

  explicit Cell(i64 gates_)
      : gates(gates_),
        in(random_numbers(gates * kCells, 1)),
        state(random_numbers(gates * kCells, 2)),
        b_in(random_numbers(gates * kUnits, 3)),
        b_state(random_numbers(gates * kUnits, 4)),
        before(random_numbers(kCells, 5)),
        h(kCells),
        c(kCells),
        kept(4 * kCells),
        gh(random_numbers(kCells, 6)),
        gc(random_numbers(kCells, 7)),
        g_in(in.size()),
        g_state(in.size()),
        g_before(kCells) {}
  CellArgs args() {
    CellArgs a{};
    a.batch = kRows, a.units = kUnits;
    a.input_sums = in.data(), a.state_sums = state.data();
    a.b_input = b_in.data(), a.b_state = b_state.data();
    a.before = before.data(), a.h = h.data(), a.c = c.data(), a.kept = kept.data();
    a.h_grad = gh.data(), a.c_grad = gc.data();
    a.input_sums_grad = g_in.data(), a.state_sums_grad = g_state.data();
    a.before_grad = g_before.data();
    return a;
  }
};

}  // namespace

TEST(lstm_cell_backward) {
  Cell t(4);
  const auto loss = [&] {
    launch({1}, {kThreads}, lstm_cell<double, double>, t.args());
    return dot(t.h, t.gh) + dot(t.c, t.gc);
  };
  loss();
  launch({1}, {kThreads}, lstm_cell_backward<double, double>, t.args());
  const Numbers g_in = t.g_in, g_before = t.g_before;
  EXPECT(agrees(t.in, g_in, loss));
  EXPECT(agrees(t.state, g_in, loss));
  EXPECT(agrees(t.before, g_before, loss));
}

TEST(gru_cell_backward) {
  Cell t(3);
  const auto loss = [&] {
    launch({1}, {kThreads}, gru_cell<double, double>, t.args());
    return dot(t.h, t.gh);
  };
  loss();
  launch({1}, {kThreads}, gru_cell_backward<double, double>, t.args());
  const Numbers g_in = t.g_in, g_state = t.g_state, g_before = t.g_before;
  EXPECT(agrees(t.in, g_in, loss));
  EXPECT(agrees(t.state, g_state, loss));
  EXPECT(agrees(t.before, g_before, loss));
}

// A step inside a sequence is the cell, with states that are updated in place.
TEST(lstm_step_is_the_cell) {
  Cell t(4);
  launch({1}, {kThreads}, lstm_cell<double, double>, t.args());
  Numbers sums(t.in.size()), h = random_numbers(kCells, 8), c = t.before, out(2 * kCells),
                             kept_h(kCells), kept_c(kCells);
  for (size_t i = 0; i < sums.size(); ++i) sums[i] = t.in[i] + t.state[i];
  const Numbers old_h = h;
  LstmStepArgs a{};
  a.rows = kRows, a.units = kUnits, a.sums = sums.data();
  a.b_input = t.b_in.data(), a.b_state = t.b_state.data();
  a.h = h.data(), a.c = c.data(), a.out = out.data(), a.out_step = 2 * kUnits;
  a.kept_h = kept_h.data(), a.kept_c = kept_c.data();
  launch({1}, {kThreads}, lstm_step<double>, a);
  const auto close = [](const Numbers& x, const Numbers& y) {
    bool all = x.size() == y.size();
    for (size_t i = 0; i < x.size(); ++i) all = all && std::abs(x[i] - y[i]) < 1e-14;
    return all;
  };
  EXPECT(close(h, t.h) && close(c, t.c) && close(sums, t.kept));
  EXPECT(kept_h == old_h && kept_c == t.before);
  bool placed = true;
  for (i64 r = 0; r < kRows; ++r)
    for (i64 u = 0; u < kUnits; ++u)
      placed = placed && out[size_t(r * 2 * kUnits + u)] == h[size_t(r * kUnits + u)];
  EXPECT(placed);

  launch({1}, {kThreads}, lstm_cell_backward<double, double>, t.args());
  // The gradient of h comes in two parts, from the next step and from the output.
  Numbers from_out(2 * kCells), from_next = t.gh, gc = t.gc;
  for (i64 r = 0; r < kRows; ++r)
    for (i64 u = 0; u < kUnits; ++u) {
      from_out[size_t(r * 2 * kUnits + u)] = 0.25;
      from_next[size_t(r * kUnits + u)] -= 0.25;
    }
  LstmStepGradArgs b{};
  b.rows = kRows, b.units = kUnits, b.gates = sums.data(), b.kept_c = kept_c.data();
  b.out_grad = from_out.data(), b.out_step = 2 * kUnits;
  b.h_grad = from_next.data(), b.c_grad = gc.data();
  launch({1}, {kThreads}, lstm_step_backward<double>, b);
  EXPECT(close(sums, t.g_in) && close(gc, t.g_before));
}

TEST(pieces) {
  const auto x = random_numbers(100, 9);
  Numbers to(100);
  PiecesArgs a{};
  a.from[0] = x.data(), a.to[0] = to.data() + 60, a.count[0] = 40;
  a.from[1] = x.data() + 40, a.to[1] = to.data(), a.count[1] = 60;
  launch({2, 2}, {kThreads}, move_pieces<u64>, a);
  bool same = true;
  for (size_t i = 0; i < 100; ++i) same = same && to[i] == x[i < 60 ? i + 40 : i - 60];
  EXPECT(same);
}
