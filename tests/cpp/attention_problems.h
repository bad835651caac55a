// attention_problems.h: problems for the kernels of attention without a GPU: compiled by g++ and run
// on the CPU, with the tensor cores acted out, against plain loops in double. A program includes the
// kernels before.
#pragma once

#include <cmath>
#include <random>
#include <vector>

#include "testing.h"

using namespace rush;

namespace {

using Numbers = std::vector<double>;

struct Problem {
  int heads, group, queries, keys, width, value_width;
  bool causal = false;
  int mask = 0;  // 1: bool, 2: added, 3: added, in the operands' type
  float dropout = 0;
  double scale = 0.3;
};

template <class T>
std::vector<T> random_numbers(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<T> out(n);
  for (T& x : out) x = T(normal(random));
  return out;
}
template <class T>
Numbers wide(const std::vector<T>& v) {
  Numbers out;
  for (const T& x : v) out.push_back(double(float(x)));
  return out;
}

struct Answers {
  Numbers out, lse, gq, gk, gv;
};

// All by the book: weights as a matrix.
Answers by_the_book(const Problem& p, const AttentionArgs& a, const Numbers& q, const Numbers& k,
                    const Numbers& v, const Numbers& g, const Numbers& added) {
  const size_t nq = size_t(p.queries), nk = size_t(p.keys), w = size_t(p.width),
               vw = size_t(p.value_width);
  Answers r{Numbers(g.size()), Numbers(size_t(p.heads) * nq), Numbers(q.size()), Numbers(k.size()),
            Numbers(v.size())};
  for (size_t h = 0; h < size_t(p.heads); ++h) {
    const size_t kh = h / size_t(p.group);
    for (size_t i = 0; i < nq; ++i) {
      Numbers s(nk), keep(nk, 1.0), dw(nk);
      double top = -INFINITY, sum = 0, delta = 0;
      for (size_t j = 0; j < nk; ++j) {
        for (size_t d = 0; d < w; ++d) s[j] += q[(h * nq + i) * w + d] * k[(kh * nk + j) * w + d];
        s[j] *= p.scale;
        const size_t at = h * nq * nk + i * nk + j;
        if (p.mask >= 2) s[j] += added[at];
        if (p.mask == 1 && !static_cast<const bool*>(a.mask)[at]) s[j] = -INFINITY;
        if (p.causal && j > i) s[j] = -INFINITY;
        if (p.dropout > 0) {  // see Note [Dropout of weights]
          const Philox4 counter{{u32(j / 8), u32(i), u32(h), u32(a.call)}};
          const Philox4 words =
              philox_raw<7>(counter, u32(a.seed), u32(a.seed >> 32) ^ u32(a.call >> 32));
          const u32 number = words.v[j % 8 / 2] >> (j % 2 * 16) & 0x7fff;
          keep[j] = number < std::round(a.keep * 32768) ? double(a.keep_scale) : 0.0;
        }
        top = std::max(top, s[j]);
      }
      for (double& x : s) x = top == -INFINITY ? 0 : std::exp(x - top), sum += x;
      r.lse[h * nq + i] = sum == 0 ? -INFINITY : top + std::log(sum);
      for (size_t j = 0; j < nk; ++j) {
        s[j] = sum == 0 ? 0 : s[j] / sum;
        for (size_t d = 0; d < vw; ++d) {
          const double go = g[(h * nq + i) * vw + d], value = v[(kh * nk + j) * vw + d];
          r.out[(h * nq + i) * vw + d] += s[j] * keep[j] * value;
          r.gv[(kh * nk + j) * vw + d] += s[j] * keep[j] * go;
          dw[j] += go * value * keep[j];
        }
        delta += s[j] * dw[j];
      }
      for (size_t j = 0; j < nk; ++j) {
        const double ds = s[j] * (dw[j] - delta) * p.scale;
        for (size_t d = 0; d < w; ++d) {
          r.gq[(h * nq + i) * w + d] += ds * k[(kh * nk + j) * w + d];
          r.gk[(kh * nk + j) * w + d] += ds * q[(h * nq + i) * w + d];
        }
      }
    }
  }
  return r;
}

template <class T>
bool close(const std::vector<T>& got, const Numbers& want, double tolerance) {
  double worst = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double x = double(float(got[i]));
    if (std::isinf(want[i]) && x == want[i]) continue;
    const double error = std::abs(x - want[i]);
    worst = error <= worst ? worst : error;
  }
  if (!(worst <= tolerance)) std::cerr << "worst error " << worst << "\n";
  return worst <= tolerance;
}

#ifndef RUSH_WARPGROUPS
// The same by the kernel for few queries, with keys split among blocks in several ways.
template <class T, int D>
void run_decode(const Problem& p, const AttentionArgs& call, const Answers& want,
                std::vector<T>& out, std::vector<float>& lse, double tolerance) {
  const int tiles = (p.keys + kDecodeKeys - 1) / kDecodeKeys;
  for (const bool across : {false, true}) {
    if (across && p.queries != 1) continue;
    for (int each = tiles; each >= 1; each = each == 1 ? 0 : each / 2) {
      AttentionDecodeArgs args{call, nullptr, nullptr, 0, 0, each, across};
      args.rows = across ? p.group : p.queries;
      args.splits = (tiles + each - 1) / each;
      const int units = across ? p.heads / p.group : p.heads;
      std::vector<float> parts(size_t(units * args.splits * args.rows * (D + 2)));
      std::vector<u32> counters(size_t(units), 0);
      args.parts = parts.data(), args.counters = counters.data();
      std::fill(out.begin(), out.end(), T(7.0f));
      std::fill(lse.begin(), lse.end(), 7.0f);
      launch_together({unsigned(units * args.splits)}, {kTileThreads},
                      p.mask ? attention_decode<T, D, true> : attention_decode<T, D, false>, args);
      EXPECT(close(out, want.out, tolerance));
      EXPECT(close(lse, want.lse, tolerance));
      for (const u32 c : counters) EXPECT(c == 0);
    }
  }
}
#endif

#ifdef RUSH_WARPGROUPS
// All three gradients by one kernel.
template <class T, int D, int extras>
void run_grads(const Problem& p, const AttentionArgs& call, const Answers& want, std::vector<T>& gq,
               std::vector<T>& gk, std::vector<T>& gv, double tolerance) {
  AttentionGradsArgs args{call, nullptr, nullptr, (p.queries + 63) / 64};
  const int own_keys = 64 * kGroups<D>;
  args.call.blocks = (p.keys + own_keys - 1) / own_keys;
  const size_t tiles = size_t(p.heads * args.tiles);
  std::vector<Pack<float, 4>> sums(tiles * 64 * D / 4), terms(tiles * 2 * 64 / 4);
  for (auto& four : sums) four = {{7, 7, 7, 7}};
  args.sums = sums[0].v, args.terms = terms[0].v;
  for (auto* v : {&gq, &gk, &gv}) std::fill(v->begin(), v->end(), T(7.0f));
  const Dim3 block{unsigned(kGradThreads<D>)};
  launch_together({unsigned((args.tiles + 1) / 2 * p.heads)}, {256}, attention_terms<T, D>, args);
  launch_together({unsigned(args.call.blocks * p.heads / p.group)}, block,
                  attention_grads<T, D, extras>, args);
  launch_together({unsigned(tiles)}, block, attention_query_sums<T, D>, args);
  EXPECT(close(gq, want.gq, 3 * tolerance));
  EXPECT(close(gk, want.gk, 6 * tolerance));
  EXPECT(close(gv, want.gv, 6 * tolerance));
}
#endif

template <class T, int D, int Ahead, int Back, bool exact, int part, int extras = 0>
void run(const Problem& p, double tolerance) {
  EXPECT(extras == ((p.mask ? kMasked : 0) | (p.dropout > 0 ? kDropout : 0)));
  const size_t nq = size_t(p.queries), nk = size_t(p.keys), w = size_t(p.width),
               vw = size_t(p.value_width), heads = size_t(p.heads),
               key_heads = heads / size_t(p.group);
  const auto q = random_numbers<T>(heads * nq * w, 1), k = random_numbers<T>(key_heads * nk * w, 2);
  const auto v = random_numbers<T>(key_heads * nk * vw, 3);
  const auto g = random_numbers<T>(heads * nq * vw, 4);
  const auto added = random_numbers<float>(heads * nq * nk, 5);
  std::vector<char> seen(heads * nq * nk);
  // The fourth query may look nowhere.
  for (size_t i = 0; i < seen.size(); ++i) seen[i] = added[i] > -0.5f && i / nk % nq != 3;
  std::vector<T> out(g.size()), gq(q.size()), gk(k.size()), gv(v.size());
  std::vector<float> lse(heads * nq), delta(heads * nq);

  AttentionArgs a{};
  a.q = q.data(), a.k = k.data(), a.v = v.data(), a.g = g.data(), a.out = out.data();
  a.gq = gq.data(), a.gk = gk.data(), a.gv = gv.data();
  a.lse = lse.data(), a.delta = delta.data();
  const auto narrow = random_numbers<T>(heads * nq * nk, 5);
  if (p.mask == 1) a.mask = seen.data();
  if (p.mask == 2) a.mask = added.data();
  if (p.mask == 3) a.mask = narrow.data();
  a.mask_is_bool = p.mask == 1, a.mask_is_half = p.mask == 3;
  const auto steps = [](size_t rows, size_t width) {
    return HeadSteps{i64(width), i64(rows * width), 0};
  };
  a.q_steps = a.gq_steps = steps(nq, w), a.k_steps = a.gk_steps = steps(nk, w);
  a.v_steps = a.gv_steps = steps(nk, vw), a.out_steps = a.g_steps = steps(nq, vw);
  a.mask_steps = steps(nq, nk), a.mask_col = 1;
  a.queries = p.queries, a.keys = p.keys, a.width = p.width, a.value_width = p.value_width;
  a.heads = p.heads, a.group = p.group, a.causal = p.causal, a.scale = float(p.scale);
  a.aligned = w * sizeof(T) % 16 == 0 && vw * sizeof(T) % 16 == 0;
  a.keep = 1 - p.dropout, a.keep_scale = 1 / a.keep, a.seed = 7, a.call = 9;

  const Answers want = by_the_book(p, a, wide(q), wide(k), wide(v), wide(g),
                                   p.mask == 3 ? wide(narrow) : wide(added));
  const Dim3 block{kTileThreads};
  a.blocks = (p.queries + 63) / 64;
  const Dim3 by_query{unsigned(a.blocks * p.heads)};
  launch_together(by_query, block, attention_forward<T, D, Ahead, exact, extras>, a);
  EXPECT(close(out, want.out, tolerance));
  EXPECT(close(lse, want.lse, tolerance));
#ifndef RUSH_WARPGROUPS
  if constexpr (sizeof(T) == 2 && D <= 128)
    if (p.queries <= kTileRows && !p.causal && p.dropout == 0)
      run_decode<T, D>(p, a, want, out, lse, tolerance);
#endif
  launch_together(by_query, block, attention_query_grad<T, D, Back, exact, extras>, a);
  EXPECT(close(gq, want.gq, 3 * tolerance));
  a.blocks = (p.keys + 63) / 64;
  const Dim3 by_key{unsigned(a.blocks) * unsigned(key_heads)};
  launch_together(by_key, block, attention_key_grad<T, D, Back, exact, extras, part>, a);
  if constexpr (part == kValuePart)
    launch_together(by_key, block, attention_key_grad<T, D, Back, exact, extras, kKeyPart>, a);
  EXPECT(close(gk, want.gk, 6 * tolerance));
  EXPECT(close(gv, want.gv, 6 * tolerance));
#ifdef RUSH_WARPGROUPS
  run_grads<T, D, extras>(p, a, want, gq, gk, gv, tolerance);
#endif
}

}  // namespace
