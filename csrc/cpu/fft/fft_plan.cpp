#include "cpu/fft/fft_plan.h"

#include <cmath>
#include <unordered_map>

#include "core/error.h"
#include "core/interrupt.h"
#include "core/mutex.h"
#include "cpu/fft/fft_rows.h"

namespace rush {
namespace {

constexpr int64_t kLargestPrime = 47;
constexpr int64_t kPerLook = 1 << 15;  // roots between looks for an interrupt
// Beyond this, the two parts of a long row could not be done by plain passes.
constexpr int64_t kLongest = int64_t(1) << 28;

// cos and sin of -2 pi k / n, with the angle brought into the first eighth of the circle, where
// both are most exact.
struct Root {
  double re, im;
};
Root root(int64_t k, int64_t n) {
  const int64_t at = ((k % n) + n) % n;
  const int64_t eighths = 8 * at / n;  // 8 * at stays far below 2^63
  constexpr double two_pi = 6.28318530717958647692;
  const auto angle = [&](int64_t numerator, int64_t parts) {  // 2 pi (at / n - numerator / parts)
    return two_pi * (double(at * parts - numerator * n) / (double(n) * double(parts)));
  };
  double c = 0, s = 0;  // of +2 pi at / n
  switch (eighths) {
    case 0:
      c = std::cos(angle(0, 1)), s = std::sin(angle(0, 1));
      break;
    case 1:
    case 2:
      c = -std::sin(angle(1, 4)), s = std::cos(angle(1, 4));
      break;
    case 3:
    case 4:
      c = -std::cos(angle(1, 2)), s = -std::sin(angle(1, 2));
      break;
    case 5:
    case 6:
      c = std::sin(angle(3, 4)), s = -std::cos(angle(3, 4));
      break;
    default:
      c = std::cos(angle(1, 1)), s = std::sin(angle(1, 1));
  }
  return {c, -s};
}

std::vector<int64_t> prime_factors(int64_t n) {
  std::vector<int64_t> found;
  for (int64_t p = 2; p * p <= n; ++p)
    for (; n % p == 0; n /= p) found.push_back(p);
  if (n > 1) found.push_back(n);
  return found;
}

// The factors of the passes: eights and fours instead of twos.
std::vector<int64_t> radices(int64_t n) {
  std::vector<int64_t> found;
  int twos = 0;
  for (; n % 2 == 0; n /= 2) ++twos;
  while (twos >= 5 || twos == 3) found.push_back(8), twos -= 3;
  while (twos >= 2) found.push_back(4), twos -= 2;
  if (twos) found.push_back(2);
  for (const int64_t p : prime_factors(n)) found.push_back(p);
  return found;
}

// The divisor of n nearest to its root from below.
int64_t middle_divisor(int64_t n) {
  int64_t best = 1;
  for (int64_t d = 2; d * d <= n; ++d)
    if (n % d == 0) best = d;
  return best;
}

}  // namespace

int64_t good_fft_length(int64_t n) {
  for (int64_t m = n;; ++m) {
    int64_t rest = m;
    for (const int64_t p : {2, 3, 5})
      for (; rest % p == 0; rest /= p) {
      }
    if (rest == 1) return m;
  }
}

template <class T>
FftPlan<T>::FftPlan(int64_t length) : n(length), smooth(true) {
  check(n <= kLongest, ErrorKind::Runtime, "fft", "transforms of more than ", kLongest,
        " elements are not possible, got ", n);
  for (const int64_t p : prime_factors(n)) smooth = smooth && p <= kLargestPrime;
  InterruptCounter interrupts(kPerLook);
  if (smooth && n <= kLongestLanes && n > 1) {
    int64_t left = n;
    for (const int64_t r : radices(n)) {
      Pass pass{r, left / r, {}, {}};
      pass.twiddles.reserve(size_t(2 * pass.m * (r - 1)));
      for (int64_t p = 0; p < pass.m; ++p)
        for (int64_t k = 1; k < r; ++k) {
          interrupts.add();
          const Root w = root(p * k, left);
          pass.twiddles.push_back(T(w.re));
          pass.twiddles.push_back(T(w.im));
        }
      for (int64_t k = 0; k < r; ++k) {  // with a positive angle, as the loop wants them
        const Root w = root(k, r);
        pass.roots.push_back(T(w.re));
        pass.roots.push_back(T(-w.im));
      }
      passes.push_back(std::move(pass));
      left /= r;
    }
  }
  const int64_t cut = smooth ? middle_divisor(n) : 1;
  if (cut >= 4) {
    n1 = cut, n2 = n / cut;
    first = fft_plan<T>(n1);
    second = fft_plan<T>(n2);
    if (!first->has_lanes() || !second->has_lanes()) {  // the plain passes will do
      n1 = n2 = 0;
    } else {
      turn_re.resize(size_t(n)), turn_im.resize(size_t(n));
      for (int64_t i = 0; i < n1; ++i)
        for (int64_t j = 0; j < n2; ++j) {
          interrupts.add();
          const Root w = root(i * j, n);
          turn_re[size_t(i * n2 + j)] = T(w.re);
          turn_im[size_t(i * n2 + j)] = T(w.im);
        }
    }
  }
  if (n > 1 && n2 == 0 && passes.empty()) make_convolution(*this);
}

template <class T>
size_t FftPlan<T>::bytes() const {
  size_t numbers = turn_re.size() * 2 + chirp_re.size() * 2 + kernel_re.size() * 2;
  for (const Pass& p : passes) numbers += p.twiddles.size() + p.roots.size();
  return numbers * sizeof(T) + sizeof(*this);
}

namespace {

// Plans stay until they are too many bytes together; then all go, and those in use live on with
// their users.
constexpr size_t kMostBytes = size_t(256) << 20;

template <class T>
struct Cache {
  Mutex mutex{LockRank::LibraryFolders};  // never held while that one is taken
  std::unordered_map<int64_t, std::shared_ptr<const std::vector<T>>> roots;
  std::unordered_map<int64_t, std::shared_ptr<const FftPlan<T>>> plans;
  size_t bytes = 0;
};
template <class T>
Cache<T>& cache() {
  static auto* all = new Cache<T>;
  return *all;
}

}  // namespace

template <class T>
std::shared_ptr<const FftPlan<T>> fft_plan(int64_t n) {
  Cache<T>& c = cache<T>();
  {
    std::lock_guard lock(c.mutex);
    if (const auto it = c.plans.find(n); it != c.plans.end()) return it->second;
  }
  auto made = std::make_shared<const FftPlan<T>>(n);  // without the lock: it asks for others
  std::lock_guard lock(c.mutex);
  if (c.bytes + made->bytes() > kMostBytes) c.plans.clear(), c.roots.clear(), c.bytes = 0;
  if (c.plans.emplace(n, made).second) c.bytes += made->bytes();
  return made;
}

template <class T>
std::shared_ptr<const std::vector<T>> real_fft_roots(int64_t n) {
  Cache<T>& c = cache<T>();
  {
    std::lock_guard lock(c.mutex);
    if (const auto it = c.roots.find(n); it != c.roots.end()) return it->second;
  }
  auto made = std::make_shared<std::vector<T>>();  // without the lock: it may be interrupted
  made->reserve(size_t(2 * (n / 4 + 1)));
  InterruptCounter interrupts(kPerLook);
  for (int64_t k = 0; k <= n / 4; ++k) {
    interrupts.add();
    const Root w = root(k, n);
    made->push_back(T(w.re));
    made->push_back(T(w.im));
  }
  const size_t bytes = made->size() * sizeof(T);
  std::lock_guard lock(c.mutex);
  if (c.bytes + bytes > kMostBytes) c.plans.clear(), c.roots.clear(), c.bytes = 0;
  if (c.roots.emplace(n, made).second) c.bytes += bytes;
  return made;
}
template std::shared_ptr<const std::vector<float>> real_fft_roots(int64_t);
template std::shared_ptr<const std::vector<double>> real_fft_roots(int64_t);

template <class T>
void make_convolution(FftPlan<T>& plan) {
  const int64_t n = plan.n, m = good_fft_length(2 * n - 1);
  plan.convolution = fft_plan<T>(m);
  plan.chirp_re.resize(size_t(n)), plan.chirp_im.resize(size_t(n));
  std::vector<T> kernel(size_t(2 * m), T(0));
  InterruptCounter interrupts(kPerLook);
  for (int64_t k = 0; k < n; ++k) {
    interrupts.add();
    const int64_t square = int64_t(__int128(k) * k % (2 * n));
    const Root w = root(square, 2 * n);
    plan.chirp_re[size_t(k)] = T(w.re);
    plan.chirp_im[size_t(k)] = T(w.im);
    for (const int64_t at : {k, (m - k) % m}) {
      kernel[size_t(2 * at)] = T(w.re);
      kernel[size_t(2 * at + 1)] = T(-w.im);
    }
  }
  fft_row(*plan.convolution, kernel.data(), kernel.data(), true, T(1));
  plan.kernel_re.resize(size_t(m)), plan.kernel_im.resize(size_t(m));
  for (int64_t k = 0; k < m; ++k) {
    plan.kernel_re[size_t(k)] = kernel[size_t(2 * k)];
    plan.kernel_im[size_t(k)] = kernel[size_t(2 * k + 1)];
  }
}

template struct FftPlan<float>;
template struct FftPlan<double>;
template std::shared_ptr<const FftPlan<float>> fft_plan(int64_t);
template std::shared_ptr<const FftPlan<double>> fft_plan(int64_t);

}  // namespace rush
