// builtins_containers.cpp: lists and dicts, and what is asked of any value.
#include <algorithm>

#include "jit/builtin_rows.h"

namespace rush::jit {

std::vector<size_t> slice_places(const Args& a, size_t first, size_t n) {
  const int64_t step = a.i_or(first + 2, 1), size = int64_t(n);
  if (step == 0) raise_value("slice step cannot be zero");
  const auto bound = [&](size_t k, int64_t missing) {
    if (a[k].isNone()) return missing;
    int64_t at = a.i(k);
    if (at < 0) at += size;
    return step > 0 ? std::clamp<int64_t>(at, 0, size) : std::clamp<int64_t>(at, -1, size - 1);
  };
  const int64_t begin = bound(first, step > 0 ? 0 : size - 1),
                end = bound(first + 1, step > 0 ? size : -1);
  std::vector<size_t> places;
  // Counted by distance, so that a huge step cannot overflow.
  if (step > 0) {
    for (int64_t i = begin; i < end;) {
      places.push_back(size_t(i));
      if (end - i <= step) break;
      i += step;
    }
  } else {
    for (int64_t i = begin; i > end;) {
      places.push_back(size_t(i));
      if (step == INT64_MIN || i - end <= -step) break;
      i += step;
    }
  }
  return places;
}

namespace {

using Items = IValue::Items;
constexpr size_t kMostItems = size_t{1} << 32;

IValue append(const Args& a) {
  a.list(0).push_back(a[1]);
  return {};
}
IValue extend(const Args& a) {
  const Items more = a.list(1);  // it may be the same list
  a.list(0).insert(a.list(0).end(), more.begin(), more.end());
  return {};
}
IValue insert(const Args& a) {
  Items& items = a.list(0);
  const auto n = int64_t(items.size());
  const int64_t at = a.i(1) < 0 ? std::max<int64_t>(a.i(1) + n, 0) : std::min(a.i(1), n);
  items.insert(items.begin() + at, a[2]);
  return {};
}
IValue pop(const Args& a) {
  Items& items = a.list(0);
  if (items.empty()) raise_index("pop from empty list");
  const size_t at = place_in(a.i(1), items.size(), "pop");
  IValue v = std::move(items[at]);
  items.erase(items.begin() + ptrdiff_t(at));
  return v;
}
IValue set_item(const Args& a) {
  Items& items = a.list(0);
  items[place_in(a.i(1), items.size(), "list assignment")] = a[2];
  return {};
}
IValue del_item(const Args& a) {
  Items& items = a.list(0);
  items.erase(items.begin() + ptrdiff_t(place_in(a.i(1), items.size(), "list assignment")));
  return {};
}
size_t find_in(const Items& items, const IValue& v) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (equal(items[i], v)) return i;
  }
  return items.size();
}
IValue remove(const Args& a) {
  Items& items = a.list(0);
  const size_t at = find_in(items, a[1]);
  if (at == items.size()) raise_value("list.remove(x): x not in list");
  items.erase(items.begin() + ptrdiff_t(at));
  return {};
}
int64_t index_of(const Args& a) {
  const size_t at = find_in(a.list(0), a[1]);
  if (at == a.list(0).size()) raise_value(shown(a[1], true) + " is not in list");
  return int64_t(at);
}
int64_t count_of(const Args& a) {
  return std::count_if(a.list(0).begin(), a.list(0).end(),
                       [&](const IValue& v) { return equal(v, a[1]); });
}
IValue slice(const Args& a) {
  Items found;
  const Items& items = a.list(0);
  for (const size_t at : slice_places(a, 1, items.size())) found.push_back(items[at]);
  return IValue::list(std::move(found));
}
IValue repeated(const Args& a) {
  const Items& items = a.list(0);
  const int64_t n = std::max<int64_t>(a.i(1), 0);
  if (!items.empty() && size_t(n) > kMostItems / items.size())
    raise("MemoryError", ErrorKind::OutOfMemory, "the list is too long");
  Items found;
  found.reserve(items.size() * size_t(n));
  for (int64_t k = 0; k < n; ++k) found.insert(found.end(), items.begin(), items.end());
  return IValue::list(std::move(found));
}
IValue joined(const Args& a) {
  Items found = a.list(0);
  found.insert(found.end(), a.list(1).begin(), a.list(1).end());
  return IValue::list(std::move(found));
}
bool less(const IValue& x, const IValue& y) {
  if (x.isString()) return x.string() < y.string();
  if (x.isTuple() || x.isList()) {
    const Items &p = x.items(), &q = y.items();
    for (size_t i = 0; i < std::min(p.size(), q.size()); ++i) {
      if (!equal(p[i], q[i])) return less(p[i], q[i]);
    }
    return p.size() < q.size();
  }
  if (!x.is_number() || !y.is_number())
    raise("TypeError", ErrorKind::Type,
          concat("'<' not supported between ", kind_name(x.kind()), " and ", kind_name(y.kind())));
  if (x.isDouble() || y.isDouble()) return x.scalar().to_double() < y.scalar().to_double();
  return x.integer() < y.integer();
}
void sort(Items& items, bool reverse) {
  // With a NaN there is no order: a merge sort stays inside of the list whatever it is told.
  std::stable_sort(items.begin(), items.end(), [&](const IValue& x, const IValue& y) {
    return reverse ? less(y, x) : less(x, y);
  });
}
IValue sort_here(const Args& a) {
  sort(a.list(0), a.b(1));
  return {};
}
IValue sorted(const Args& a) {
  Items items = a.list(0);
  sort(items, a.b(1));
  return IValue::list(std::move(items));
}
IValue reverse_here(const Args& a) {
  std::reverse(a.list(0).begin(), a.list(0).end());
  return {};
}
IValue reversed(const Args& a) { return IValue::list(Items(a.list(0).rbegin(), a.list(0).rend())); }
IValue extreme(const Args& a, bool largest) {
  const Items& items = a.list(0);
  if (items.empty()) raise_value(concat(largest ? "max" : "min", "() iterable argument is empty"));
  size_t best = 0;
  for (size_t i = 1; i < items.size(); ++i) {
    if (largest ? less(items[best], items[i]) : less(items[i], items[best])) best = i;
  }
  return items[best];
}
int64_t sum_int(const Args& a) {
  int64_t sum = a.i(1);
  for (const IValue& v : a.list(0)) {
    if (__builtin_add_overflow(sum, v.integer(), &sum))
      raise("OverflowError", ErrorKind::Overflow, "the sum does not fit into 64 bits");
  }
  return sum;
}
double sum_float(const Args& a) {
  double sum = a.d(1);
  for (const IValue& v : a.list(0)) sum += v.real();
  return sum;
}
// How many numbers a range has.
__int128 count_of_range(const Args& a) {
  const int64_t begin = a.i(0), end = a.i(1), step = a.i(2);
  if (step == 0) raise_value("range() arg 3 must not be zero");
  const auto distance = step > 0 ? __int128(end) - begin : __int128(begin) - end;
  const auto stride = step > 0 ? __int128(step) : -__int128(step);
  return distance <= 0 ? 0 : (distance + stride - 1) / stride;
}
IValue range(const Args& a) {
  const __int128 n = count_of_range(a);
  if (n > __int128(kMostItems))
    raise("MemoryError", ErrorKind::OutOfMemory, "the list is too long");
  Items items;
  items.reserve(size_t(n));
  for (int64_t k = 0; k < int64_t(n); ++k) items.emplace_back(a.i(0) + k * a.i(2));
  return IValue::list(std::move(items));
}
int64_t range_length(const Args& a) {
  const __int128 n = count_of_range(a);
  return n > INT64_MAX ? INT64_MAX : int64_t(n);
}

// Dicts --------------------------------------------------------------------------------------------

size_t found_key(const DictObject& d, const IValue& key) {
  const size_t at = d.find(key);
  if (at == d.keys.size()) raise("KeyError", ErrorKind::Index, shown(key, true));
  return at;
}
IValue get_or_none(const Args& a) {
  const size_t at = a.dict(0).find(a[1]);
  return at == a.dict(0).keys.size() ? IValue() : a.dict(0).items[at];
}
IValue get_or(const Args& a) {
  const size_t at = a.dict(0).find(a[1]);
  return at == a.dict(0).keys.size() ? a[2] : a.dict(0).items[at];
}
// Of an object; which attribute, and that the value is one for it, is known before.
IValue set_field(const Args& a) {
  a.list(0)[size_t(a.i(1))] = a[2];
  return {};
}
IValue set_key(const Args& a) {
  a.dict(0).set(a[1], a[2]);
  return {};
}
IValue set_default(const Args& a) {
  DictObject& d = a.dict(0);
  const size_t at = d.find(a[1]);
  if (at < d.keys.size()) return d.items[at];
  d.set(a[1], a[2]);
  return a[2];
}
IValue del_key(const Args& a) {
  a.dict(0).erase(found_key(a.dict(0), a[1]));
  return {};
}
IValue pop_key(const Args& a) {
  DictObject& d = a.dict(0);
  const size_t at = found_key(d, a[1]);
  IValue v = d.items[at];
  d.erase(at);
  return v;
}
IValue pop_key_or(const Args& a) {
  DictObject& d = a.dict(0);
  const size_t at = d.find(a[1]);
  if (at == d.keys.size()) return a[2];
  IValue v = d.items[at];
  d.erase(at);
  return v;
}
IValue pairs(const Args& a) {
  Items items;
  const DictObject& d = a.dict(0);
  for (size_t i = 0; i < d.keys.size(); ++i)
    items.push_back(IValue::tuple({d.keys[i], d.items[i]}));
  return IValue::list(std::move(items));
}
IValue update(const Args& a) {
  const Items keys = a.dict(1).keys, items = a.dict(1).items;
  for (size_t i = 0; i < keys.size(); ++i) a.dict(0).set(keys[i], items[i]);
  return {};
}

constexpr Builtin kRows[] = {
    RUSH_ROW("len_list", "List[t] -> int", int64_t(a.list(0).size())),
    RUSH_ROW("get", "List[t], int -> t", a.list(0)[place_in(a.i(1), a.list(0).size(), "list")]),
    RUSH_ROW("set", "List[t], int, t -> None", set_item(a)),
    RUSH_ROW("del", "List[t], int -> None", del_item(a)),
    RUSH_ROW("append", "List[t], t -> None", append(a)),
    RUSH_ROW("extend", "List[t], List[t] -> None", extend(a)),
    RUSH_ROW("insert", "List[t], int, t -> None", insert(a)),
    RUSH_ROW("pop", "List[t], int -> t", pop(a)),
    RUSH_ROW("remove", "List[t], t -> None", remove(a)),
    RUSH_ROW("clear", "List[t] -> None", (a.list(0).clear(), IValue())),
    RUSH_ROW("copy", "List[t] -> List[t]", IValue::list(a.list(0))),
    RUSH_ROW("reverse", "List[t] -> None", reverse_here(a)),
    RUSH_ROW("reversed", "List[t] -> List[t]", reversed(a)),
    RUSH_ROW("index_list", "List[t], t -> int", index_of(a)),
    RUSH_ROW("count_list", "List[t], t -> int", count_of(a)),
    RUSH_ROW("contains_list", "List[t], u -> bool", find_in(a.list(0), a[1]) < a.list(0).size()),
    RUSH_ROW("slice_list", "List[t], Optional[int], Optional[int], Optional[int] -> List[t]",
             slice(a)),
    RUSH_ROW("mul_list", "List[t], int -> List[t]", repeated(a)),
    RUSH_ROW("add_list", "List[t], List[t] -> List[t]", joined(a)),
    RUSH_ROW("sort", "List[t], bool -> None", sort_here(a)),
    RUSH_ROW("sorted", "List[t], bool -> List[t]", sorted(a)),
    RUSH_ROW("min_list", "List[t] -> t", extreme(a, false)),
    RUSH_ROW("max_list", "List[t] -> t", extreme(a, true)),
    RUSH_ROW("sum_int", "List[int], int -> int", sum_int(a)),
    RUSH_ROW("sum_float", "List[float], float -> float", sum_float(a)),
    RUSH_ROW("all", "List[bool] -> bool",
             std::all_of(a.list(0).begin(), a.list(0).end(),
                         [](const IValue& v) { return v.boolean(); })),
    RUSH_ROW("any", "List[bool] -> bool",
             std::any_of(a.list(0).begin(), a.list(0).end(),
                         [](const IValue& v) { return v.boolean(); })),
    RUSH_ROW("range", "int, int, int -> List[int]", range(a)),
    RUSH_ROW("range_length", "int, int, int -> int", range_length(a)),
    RUSH_ROW("len_dict", "Dict[k, v] -> int", int64_t(a.dict(0).keys.size())),
    RUSH_ROW("get_key", "Dict[k, v], k -> v", a.dict(0).items[found_key(a.dict(0), a[1])]),
    RUSH_ROW("get_or_none", "Dict[k, v], k -> Optional[v]", get_or_none(a)),
    RUSH_ROW("get_or", "Dict[k, v], k, v -> v", get_or(a)),
    RUSH_ROW("set_key", "Dict[k, v], k, v -> None", set_key(a)),
    RUSH_ROW("setdefault", "Dict[k, v], k, v -> v", set_default(a)),
    RUSH_ROW("del_key", "Dict[k, v], k -> None", del_key(a)),
    RUSH_ROW("pop_key", "Dict[k, v], k -> v", pop_key(a)),
    RUSH_ROW("pop_key_or", "Dict[k, v], k, v -> v", pop_key_or(a)),
    RUSH_ROW("contains_key", "Dict[k, v], k -> bool", a.dict(0).find(a[1]) < a.dict(0).keys.size()),
    RUSH_ROW("keys", "Dict[k, v] -> List[k]", IValue::list(a.dict(0).keys)),
    RUSH_ROW("values", "Dict[k, v] -> List[v]", IValue::list(a.dict(0).items)),
    RUSH_ROW("items", "Dict[k, v] -> List[Tuple[k, v]]", pairs(a)),
    RUSH_ROW("update", "Dict[k, v], Dict[k, v] -> None", update(a)),
    RUSH_ROW("clear_dict", "Dict[k, v] -> None", (a.dict(0).clear(), IValue())),
    RUSH_ROW("copy_dict", "Dict[k, v] -> Dict[k, v]",
             IValue::dict(a.dict(0).keys, a.dict(0).items)),
    RUSH_ROW("eq", "t, u -> bool", equal(a[0], a[1])),
    RUSH_ROW("ne", "t, u -> bool", !equal(a[0], a[1])),
    RUSH_ROW("less", "t, t -> bool", less(a[0], a[1])),
    RUSH_ROW("is", "t, u -> bool", a[0].is(a[1])),
    RUSH_ROW("is_none", "t -> bool", a[0].isNone()),
    // Its kind is one of the bits.
    RUSH_ROW("is_kind", "t, int -> bool", (a.i(1) >> int(a[0].kind()) & 1) != 0),
    // The verifier knows these two by name: the place is a number that stands in the program.
    RUSH_ROW("item", "t, int -> t", a.list(0)[size_t(a.i(1))]),
    RUSH_ROW("set_field", "t, int, u -> None", set_field(a)),
    RUSH_ROW("list_of", "t -> t", IValue::list(a.list(0))),
};

}  // namespace

std::span<const Builtin> container_builtins() { return kRows; }

}  // namespace rush::jit
