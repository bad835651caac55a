#include "cpu/kernels/fft_tables.h"
#include "cpu/kernels/vector_bytes.h"

namespace rush {

namespace RUSH_ISA {
namespace {

// Whole vectors by name: g++ does not vectorise a loop whose body holds small arrays.
template <class T>
struct VectorOf {
  typedef T type __attribute__((vector_size(kVectorBytes)));
};

// V is a number or a vector of them, R the number.
template <class V>
struct Complex {
  V re, im;
};
template <class V>
inline Complex<V> operator+(Complex<V> a, Complex<V> b) {
  return {a.re + b.re, a.im + b.im};
}
template <class V>
inline Complex<V> operator-(Complex<V> a, Complex<V> b) {
  return {a.re - b.re, a.im - b.im};
}
template <class V>
inline Complex<V> over_i(Complex<V> a) {  // times -i
  return {a.im, -a.re};
}
template <class V, class R>
inline Complex<V> scaled(Complex<V> a, R b) {
  return {a.re * b, a.im * b};
}
template <class V, class R>
inline Complex<V> rotated_by(Complex<V> a, Complex<R> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

// DFTs of a few elements, in place.
template <int radix, class R, class V>
inline void dft(Complex<V>* x) {
  using C = Complex<V>;
  if constexpr (radix == 2) {
    const C a = x[0], b = x[1];
    x[0] = a + b;
    x[1] = a - b;
  } else if constexpr (radix == 3) {
    const C sum = x[1] + x[2], rotated = scaled(over_i(x[1] - x[2]), R(0.86602540378443864676));
    const C middle = x[0] - scaled(sum, R(0.5));
    x[0] = x[0] + sum;
    x[1] = middle + rotated;
    x[2] = middle - rotated;
  } else if constexpr (radix == 4) {
    const C a = x[0] + x[2], b = x[0] - x[2], c = x[1] + x[3], d = over_i(x[1] - x[3]);
    x[0] = a + c;
    x[1] = b + d;
    x[2] = a - c;
    x[3] = b - d;
  } else if constexpr (radix == 5) {
    constexpr R c1 = R(0.30901699437494742410), c2 = R(-0.80901699437494742410);
    constexpr R s1 = R(0.95105651629515357212), s2 = R(0.58778525229247312917);
    const C a = x[1] + x[4], b = x[2] + x[3], c = over_i(x[1] - x[4]), d = over_i(x[2] - x[3]);
    const C p = x[0] + scaled(a, c1) + scaled(b, c2), q = x[0] + scaled(a, c2) + scaled(b, c1);
    const C r = scaled(c, s1) + scaled(d, s2), s = scaled(c, s2) - scaled(d, s1);
    x[0] = x[0] + a + b;
    x[1] = p + r;
    x[2] = q + s;
    x[3] = q - s;
    x[4] = p - r;
  } else {
    static_assert(radix == 8);
    constexpr R half_root = R(0.70710678118654752440);
    C even[4] = {x[0] + x[4], x[1] + x[5], x[2] + x[6], x[3] + x[7]};
    const C o0 = x[0] - x[4], o1 = x[1] - x[5], o2 = over_i(x[2] - x[6]), o3 = x[3] - x[7];
    // the odd ones rotated by the eighth roots of one
    const C t1 = scaled(C{o1.re + o1.im, o1.im - o1.re}, half_root);
    const C t3 = scaled(C{o3.im - o3.re, -(o3.re + o3.im)}, half_root);
    dft<4, R>(even);
    const C a = o0 + o2, b = o0 - o2, c = t1 + t3, d = over_i(t1 - t3);
    x[0] = even[0];
    x[2] = even[1];
    x[4] = even[2];
    x[6] = even[3];
    x[1] = a + c;
    x[3] = b + d;
    x[5] = a - c;
    x[7] = b - d;
  }
}

template <class V, class T>
inline V load(const T* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof(V));
  return v;
}
template <class V, class T>
inline void store(T* p, V v) {
  __builtin_memcpy(p, &v, sizeof(V));
}

template <int radix, bool rotated, class V, class T>
inline void butterfly(const T* xr, const T* xi, T* yr, T* yi, int64_t apart, int64_t inner,
                      const Complex<T>* w) {
  Complex<V> x[radix];
  for (int k = 0; k < radix; ++k) x[k] = {load<V>(xr + k * apart), load<V>(xi + k * apart)};
  dft<radix, T>(x);
  if constexpr (rotated) {
    for (int k = 1; k < radix; ++k) x[k] = rotated_by(x[k], w[k]);
  }
  for (int k = 0; k < radix; ++k) {
    store(yr + k * inner, x[k].re);
    store(yi + k * inner, x[k].im);
  }
}

template <int radix, bool rotated, class T>
void butterflies(const T* xr, const T* xi, T* yr, T* yi, int64_t apart, int64_t inner,
                 const T* twiddles) {
  using V = typename VectorOf<T>::type;
  constexpr int64_t width = kVectorBytes / int64_t(sizeof(T));
  Complex<T> w[radix];
  if constexpr (rotated) {
    for (int k = 1; k < radix; ++k) w[k] = {twiddles[2 * k - 2], twiddles[2 * k - 1]};
  }
  int64_t i = 0;
  for (; i + width <= inner; i += width)
    butterfly<radix, rotated, V>(xr + i, xi + i, yr + i, yi + i, apart, inner, w);
  for (; i < inner; ++i)
    butterfly<radix, rotated, T>(xr + i, xi + i, yr + i, yi + i, apart, inner, w);
}

template <int radix, class T>
void pass_of(const T* xr, const T* xi, T* yr, T* yi, int64_t m, int64_t inner, const T* twiddles) {
  butterflies<radix, false>(xr, xi, yr, yi, m * inner, inner, twiddles);
  for (int64_t p = 1; p < m; ++p) {
    const int64_t from = p * inner, to = radix * p * inner;
    butterflies<radix, true>(xr + from, xi + from, yr + to, yi + to, m * inner, inner,
                             twiddles + 2 * p * (radix - 1));
  }
}

// Odd primes without formulas of their own: sums and differences of x_t and x_(radix - t) halve the
// products.
constexpr int64_t kLargestPrime = 47, kPiece = 64;

template <class T>
void pass_of_prime(int64_t radix, const T* xr, const T* xi, T* yr, T* yi, int64_t m, int64_t inner,
                   const T* twiddles, const T* roots) {
  const int64_t half = radix / 2, apart = m * inner;
  T sum_re[kLargestPrime / 2 + 1][kPiece], sum_im[kLargestPrime / 2 + 1][kPiece];
  T dif_re[kLargestPrime / 2 + 1][kPiece], dif_im[kLargestPrime / 2 + 1][kPiece];
  for (int64_t p = 0; p < m; ++p) {
    for (int64_t at = 0; at < inner; at += kPiece) {
      const int64_t n = inner - at < kPiece ? inner - at : kPiece;
      const T *ar = xr + p * inner + at, *ai = xi + p * inner + at;
      T *br = yr + radix * p * inner + at, *bi = yi + radix * p * inner + at;
      for (int64_t i = 0; i < n; ++i) br[i] = ar[i], bi[i] = ai[i];
      for (int64_t t = 1; t <= half; ++t) {
        const int64_t a = t * apart, b = (radix - t) * apart;
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) {
          sum_re[t][i] = ar[a + i] + ar[b + i];
          sum_im[t][i] = ai[a + i] + ai[b + i];
          dif_re[t][i] = ar[a + i] - ar[b + i];
          dif_im[t][i] = ai[a + i] - ai[b + i];
          br[i] += sum_re[t][i];
          bi[i] += sum_im[t][i];
        }
      }
      for (int64_t k = 1; k <= half; ++k) {
        T even_re[kPiece], even_im[kPiece], odd_re[kPiece], odd_im[kPiece];
        for (int64_t i = 0; i < n; ++i) {
          even_re[i] = ar[i], even_im[i] = ai[i];
          odd_re[i] = odd_im[i] = T(0);
        }
        for (int64_t t = 1; t <= half; ++t) {
          const int64_t turn = t * k % radix;
          const T c = roots[2 * turn], s = roots[2 * turn + 1];
#pragma omp simd
          for (int64_t i = 0; i < n; ++i) {
            even_re[i] += c * sum_re[t][i];
            even_im[i] += c * sum_im[t][i];
            odd_re[i] += s * dif_im[t][i];  // -i s (difference)
            odd_im[i] -= s * dif_re[t][i];
          }
        }
        const T* w = twiddles + 2 * p * (radix - 1);
        const T cr = w[2 * k - 2], ci = w[2 * k - 1];
        const T dr = w[2 * (radix - k) - 2], di = w[2 * (radix - k) - 1];
        T *or1 = br + k * inner, *oi1 = bi + k * inner;
        T *or2 = br + (radix - k) * inner, *oi2 = bi + (radix - k) * inner;
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) {
          const T pr = even_re[i] + odd_re[i], pi = even_im[i] + odd_im[i];
          const T qr = even_re[i] - odd_re[i], qi = even_im[i] - odd_im[i];
          or1[i] = pr * cr - pi * ci;
          oi1[i] = pr * ci + pi * cr;
          or2[i] = qr * dr - qi * di;
          oi2[i] = qr * di + qi * dr;
        }
      }
    }
  }
}

template <class T>
struct Fft {
  static void pass(int64_t radix, const T* xr, const T* xi, T* yr, T* yi, int64_t m, int64_t inner,
                   const T* twiddles, const T* roots) {
    switch (radix) {
      case 2:
        return pass_of<2>(xr, xi, yr, yi, m, inner, twiddles);
      case 3:
        return pass_of<3>(xr, xi, yr, yi, m, inner, twiddles);
      case 4:
        return pass_of<4>(xr, xi, yr, yi, m, inner, twiddles);
      case 5:
        return pass_of<5>(xr, xi, yr, yi, m, inner, twiddles);
      case 8:
        return pass_of<8>(xr, xi, yr, yi, m, inner, twiddles);
      default:
        return pass_of_prime(radix, xr, xi, yr, yi, m, inner, twiddles, roots);
    }
  }

  static void split(const T* in, T* re, T* im, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      re[i] = in[2 * i];
      im[i] = in[2 * i + 1];
    }
  }
  static void join(const T* re, const T* im, T* out, int64_t n, T scale) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      out[2 * i] = re[i] * scale;
      out[2 * i + 1] = im[i] * scale;
    }
  }
  static void turn(T* re, T* im, const T* wr, const T* wi, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      const T r = re[i] * wr[i] - im[i] * wi[i];
      im[i] = re[i] * wi[i] + im[i] * wr[i];
      re[i] = r;
    }
  }

  // In blocks of 4 x 4, each four vectors shuffled in two steps.
  typedef T Four __attribute__((vector_size(4 * sizeof(T)), aligned(sizeof(T)), may_alias));
  static void transpose(const T* a, int64_t lda, T* b, int64_t ldb, int64_t rows, int64_t cols) {
    const int64_t rows4 = rows & ~int64_t(3), cols4 = cols & ~int64_t(3);
    for (int64_t i = 0; i < rows4; i += 4) {
      for (int64_t j = 0; j < cols4; j += 4) {
        const T* from = a + i * lda + j;
        const Four r0 = *reinterpret_cast<const Four*>(from);
        const Four r1 = *reinterpret_cast<const Four*>(from + lda);
        const Four r2 = *reinterpret_cast<const Four*>(from + 2 * lda);
        const Four r3 = *reinterpret_cast<const Four*>(from + 3 * lda);
        const Four p = __builtin_shufflevector(r0, r1, 0, 4, 1, 5);
        const Four q = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
        const Four r = __builtin_shufflevector(r2, r3, 0, 4, 1, 5);
        const Four s = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
        T* to = b + j * ldb + i;
        *reinterpret_cast<Four*>(to) = __builtin_shufflevector(p, r, 0, 1, 4, 5);
        *reinterpret_cast<Four*>(to + ldb) = __builtin_shufflevector(p, r, 2, 3, 6, 7);
        *reinterpret_cast<Four*>(to + 2 * ldb) = __builtin_shufflevector(q, s, 0, 1, 4, 5);
        *reinterpret_cast<Four*>(to + 3 * ldb) = __builtin_shufflevector(q, s, 2, 3, 6, 7);
      }
      for (int64_t j = cols4; j < cols; ++j)
        for (int64_t k = 0; k < 4; ++k) b[j * ldb + i + k] = a[(i + k) * lda + j];
    }
    for (int64_t i = rows4; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j) b[j * ldb + i] = a[i * lda + j];
  }

  static constexpr FftTable<T> table = {pass, split, join, turn, transpose};
};

}  // namespace
}  // namespace RUSH_ISA

template <>
const FftTable<float>* fft_table<Isa::RUSH_ISA, float>() {
  return &RUSH_ISA::Fft<float>::table;
}
template <>
const FftTable<double>* fft_table<Isa::RUSH_ISA, double>() {
  return &RUSH_ISA::Fft<double>::table;
}

}  // namespace rush
