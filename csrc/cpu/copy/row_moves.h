// row_moves.h: many short rows at once. A call of memcpy for each costs more than what is in it, so
// rows are moved by two or a few loads and stores that may overlap.
#pragma once

#include <cstdint>
#include <cstring>

namespace rush {

namespace detail {

// `count` words from the front and as many up to the end: together they cover the row.
template <class Word, int count>
void move_rows(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t rows,
               int64_t bytes) {
  constexpr int64_t size = sizeof(Word);
  const int64_t tail = bytes - count * size;
  for (int64_t k = 0; k < rows; ++k, to += to_step, from += from_step) {
    Word front[count], back[count];
#pragma GCC unroll 4
    for (int i = 0; i < count; ++i) {
      __builtin_memcpy(&front[i], from + i * size, size);
      __builtin_memcpy(&back[i], from + tail + i * size, size);
    }
#pragma GCC unroll 4
    for (int i = 0; i < count; ++i) {
      __builtin_memcpy(to + i * size, &front[i], size);
      __builtin_memcpy(to + tail + i * size, &back[i], size);
    }
  }
}

struct Word16 {
  uint64_t low, high;
};

}  // namespace detail

// Copies `rows` rows of so many bytes, which lie `to_step` and `from_step` apart.
inline void copy_rows(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t rows,
                      int64_t bytes) {
  const auto run = [&]<class Word, int count>() {
    detail::move_rows<Word, count>(to, to_step, from, from_step, rows, bytes);
  };
  if (bytes > 128) {
    for (int64_t k = 0; k < rows; ++k)
      std::memcpy(to + k * to_step, from + k * from_step, size_t(bytes));
    return;
  }
  if (bytes >= 64) return run.operator()<detail::Word16, 4>();
  if (bytes >= 32) return run.operator()<detail::Word16, 2>();
  if (bytes >= 16) return run.operator()<detail::Word16, 1>();
  if (bytes >= 8) return run.operator()<uint64_t, 1>();
  if (bytes >= 4) return run.operator()<uint32_t, 1>();
  if (bytes >= 2) return run.operator()<uint16_t, 1>();
  if (bytes == 1) return run.operator()<uint8_t, 1>();
}

}  // namespace rush
