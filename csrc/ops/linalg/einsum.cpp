// einsum over ops: every operand is brought to one common order of labels, then contracted pairwise
// from the left by batched matrix products. Labels that no later operand and no output needs are
// summed as soon as they can be.
#include "ops/linalg/einsum.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "core/error.h"
#include "ops/framework/operators.h"
#include "ops/ops.h"

namespace rush {
namespace {

constexpr const char* kName = "einsum";
constexpr int kLetters = 52;

int letter_index(char c) {
  return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? 26 + c - 'a' : -1;
}

// Labels of one operand: 0-51 letters, from 52 on the dims of the ellipsis, counted from its right
// end.
using Labels = std::vector<int>;

struct Plan {
  std::vector<Labels> inputs;
  Labels output;
  int ellipsis_dims = 0;
};

Labels parse_term(std::string_view term, int64_t rank, int which, int& ellipsis_dims) {
  Labels labels;
  int at_ellipsis = -1;
  for (size_t i = 0; i < term.size(); ++i) {
    const char c = term[i];
    if (c == ' ') continue;
    if (c == '.') {
      check(term.substr(i, 3) == "..." && at_ellipsis < 0, ErrorKind::Runtime, kName, "operand ",
            which, ": '.' is only allowed as one '...' in '", term, "'");
      at_ellipsis = int(labels.size());
      i += 2;
      continue;
    }
    check(letter_index(c) >= 0, ErrorKind::Runtime, kName, "subscripts must be letters, got '",
          std::string(1, c), "' in '", term, "'");
    labels.push_back(letter_index(c));
  }
  if (rank < 0) {  // the output: the ellipsis stands for all its dims
    if (at_ellipsis >= 0) {
      Labels dims;
      for (int d = ellipsis_dims; d-- > 0;) dims.push_back(kLetters + d);
      labels.insert(labels.begin() + at_ellipsis, dims.begin(), dims.end());
    }
    return labels;
  }
  const int64_t missing = rank - int64_t(labels.size());
  check(at_ellipsis >= 0 ? missing >= 0 : missing == 0, ErrorKind::Runtime, kName,
        "the subscripts '", term, "' name ", int64_t(labels.size()), " dimensions, operand ", which,
        " has ", rank);
  if (at_ellipsis >= 0) {
    Labels dims;
    for (int64_t d = missing; d-- > 0;) dims.push_back(kLetters + int(d));
    labels.insert(labels.begin() + at_ellipsis, dims.begin(), dims.end());
    ellipsis_dims = std::max(ellipsis_dims, int(missing));
  }
  return labels;
}

Plan parse(std::string_view equation, TensorList tensors) {
  const auto arrow = equation.find("->");
  std::string_view left = equation.substr(0, arrow);
  Plan plan;
  for (size_t i = 0;; ++i) {
    const auto comma = left.find(',');
    check(i < tensors.size(), ErrorKind::Runtime, kName, "the equation '", equation,
          "' names more operands than the ", int64_t(tensors.size()), " given");
    plan.inputs.push_back(
        parse_term(left.substr(0, comma), tensors[i].dim(), int(i), plan.ellipsis_dims));
    if (comma == std::string_view::npos) break;
    left.remove_prefix(comma + 1);
  }
  check(plan.inputs.size() == tensors.size(), ErrorKind::Runtime, kName, "the equation '", equation,
        "' names ", int64_t(plan.inputs.size()), " operands, ", int64_t(tensors.size()),
        " were given");
  std::array<int, 256> count{};
  for (const Labels& term : plan.inputs) {
    for (int l : term) ++count[size_t(l)];
  }
  if (arrow == std::string_view::npos) {
    // Without an output: the ellipsis, then every letter that appears once, in alphabetical order.
    for (int d = plan.ellipsis_dims; d-- > 0;) plan.output.push_back(kLetters + d);
    for (int l = 0; l < kLetters; ++l) {
      if (count[size_t(l)] == 1) plan.output.push_back(l);
    }
    return plan;
  }
  int dims = plan.ellipsis_dims;
  plan.output = parse_term(equation.substr(arrow + 2), -1, -1, dims);
  std::array<int, 256> seen{};
  for (int l : plan.output) {
    check(count[size_t(l)] > 0, ErrorKind::Runtime, kName, "an output subscript of '", equation,
          "' appears in no operand");
    check(++seen[size_t(l)] == 1, ErrorKind::Runtime, kName, "an output subscript of '", equation,
          "' appears more than once");
  }
  return plan;
}

// One tensor with distinct labels: repeated ones become diagonals.
struct Operand {
  Tensor tensor;
  Labels labels;

  int find(int label) const {
    for (size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] == label) return int(i);
    }
    return -1;
  }
  void take_diagonals() {
    for (size_t i = 0; i < labels.size(); ++i) {
      for (size_t j = i + 1; j < labels.size();) {
        if (labels[j] != labels[i]) {
          ++j;
          continue;
        }
        check_shape(tensor.sizes()[i] == tensor.sizes()[j], kName,
                    "a repeated subscript needs equal sizes, got ", tensor.sizes()[i], " and ",
                    tensor.sizes()[j]);
        tensor = movedim_last(diagonal(tensor, 0, int64_t(i), int64_t(j)), int64_t(i));
        labels.erase(labels.begin() + long(j));
      }
    }
  }
  // Moves the last dim to position `to`.
  static Tensor movedim_last(const Tensor& x, int64_t to) {
    Dims order;
    for (int64_t d = 0; d + 1 < x.dim(); ++d) order.push_back(d);
    order.insert(uint32_t(to), x.dim() - 1);
    return permute(x, order);
  }
  // Adds up the dims of these labels.
  void sum_out(const Labels& gone, std::optional<DType> dtype) {
    Dims dims;
    Labels left;
    for (size_t i = 0; i < labels.size(); ++i) {
      const bool drop = std::find(gone.begin(), gone.end(), labels[i]) != gone.end();
      if (drop)
        dims.push_back(int64_t(i));
      else
        left.push_back(labels[i]);
    }
    if (dims.empty()) return;
    tensor = sum(tensor, IntList(dims), false, dtype);
    labels = left;
  }
  // With its dims in this order; labels it lacks become dims of size 1.
  Tensor arranged(const Labels& order) const {
    Dims perm;
    for (int l : order) {
      if (int at = find(l); at >= 0) perm.push_back(at);
    }
    Tensor t = permute(tensor, perm);
    for (size_t i = 0; i < order.size(); ++i) {
      if (find(order[i]) < 0) t = unsqueeze(t, int64_t(i));
    }
    return t;
  }
  int64_t size_of(int label) const {
    const int at = find(label);
    return at < 0 ? 1 : tensor.sizes()[size_t(at)];
  }
};

Dims sizes_of(const Tensor& t, size_t first, size_t n) {
  return Dims(IntList(t.sizes()).subspan(first, n));
}

// Labels in the order of the output, then the others by number: results lie in memory as the output
// wants them, as far as one product can give that.
void sort_for(const Labels& output, Labels& labels) {
  auto rank = [&](int l) {
    const auto at = std::find(output.begin(), output.end(), l);
    return at != output.end() ? int64_t(at - output.begin()) : int64_t(output.size()) + l;
  };
  std::sort(labels.begin(), labels.end(), [&](int l, int r) { return rank(l) < rank(r); });
}

// a and b over the labels `keep`: labels of both that are not kept are contracted by a batched
// product.
Operand contract(Operand a, Operand b, const Labels& keep, const Labels& output) {
  auto kept = [&](int l) { return std::find(keep.begin(), keep.end(), l) != keep.end(); };
  Labels batch, only_a, only_b, inner, gone_a, gone_b;
  for (int l : a.labels) {
    const bool both = b.find(l) >= 0;
    // A size-1 dim broadcasts against the other's: it cannot be multiplied along.
    const bool broadcast = both && a.size_of(l) != b.size_of(l);
    if (!both && !kept(l))
      gone_a.push_back(l);
    else if (!both)
      only_a.push_back(l);
    else if (kept(l) || broadcast)
      batch.push_back(l);
    else
      inner.push_back(l);
  }
  for (int l : b.labels) {
    if (a.find(l) >= 0) continue;
    (kept(l) ? only_b : gone_b).push_back(l);
  }
  // As sum() does: integers in int64, which the product then has.
  a.sum_out(gone_a, std::nullopt);
  b.sum_out(gone_b, std::nullopt);
  const DType type = promote(a.tensor.dtype(), b.tensor.dtype());
  a.tensor = cast(a.tensor, type), b.tensor = cast(b.tensor, type);
  auto joined = [](std::initializer_list<const Labels*> parts) {
    Labels all;
    for (const Labels* p : parts) all.insert(all.end(), p->begin(), p->end());
    return all;
  };
  auto without_unkept = [&](Operand out) {
    Labels gone;
    for (int l : batch) {
      if (!kept(l)) gone.push_back(l);
    }
    out.sum_out(gone, out.tensor.dtype());
    return out;
  };
  if (inner.empty()) {  // no sums: one pass over the elements
    Labels all = joined({&batch, &only_a, &only_b});
    sort_for(output, all);
    return without_unkept({mul(a.arranged(all), b.arranged(all)), all});
  }
  for (Labels* part : {&batch, &only_a, &only_b}) sort_for(output, *part);
  if (!only_a.empty() && !only_b.empty()) {
    Labels ends{only_a.front(), only_b.back()};
    sort_for(output, ends);
    if (ends.front() == only_b.back()) std::swap(a, b), std::swap(only_a, only_b);
  }
  Tensor x = a.arranged(joined({&batch, &only_a, &inner})),
         y = b.arranged(joined({&batch, &inner, &only_b}));
  const size_t nb = batch.size(), na = only_a.size(), ni = inner.size(), no = only_b.size();
  const Dims shape = broadcast_shapes(kName, sizes_of(x, 0, nb), sizes_of(y, 0, nb));
  const Dims rows = sizes_of(x, nb, na), depth = sizes_of(x, nb + na, ni),
             columns = sizes_of(y, nb + ni, no);
  Operand out;
  out.labels = joined({&batch, &only_a, &only_b});
  Dims full(shape);
  for (int64_t s : rows) full.push_back(s);
  for (int64_t s : columns) full.push_back(s);
  auto expanded = [&](const Tensor& t, const Dims& tail1, const Dims& tail2, int64_t n1,
                      int64_t n2) {
    Dims target(shape);
    for (int64_t s : tail1) target.push_back(s);
    for (int64_t s : tail2) target.push_back(s);
    return reshape(expand(t, target), Dims{numel(shape), n1, n2});
  };
  const int64_t r = numel(rows), k = numel(depth), c = numel(columns);
  out.tensor =
      reshape(bmm(expanded(x, rows, depth, r, k), expanded(y, depth, columns, k, c)), full);
  return without_unkept(out);
}

}  // namespace

Tensor run_einsum(std::string_view equation, TensorList tensors) {
  check(!tensors.empty(), ErrorKind::Runtime, kName, "needs at least one operand");
  const Plan plan = parse(equation, tensors);
  std::vector<Operand> operands;
  for (size_t i = 0; i < tensors.size(); ++i) {
    operands.push_back({tensors[i], plan.inputs[i]});
    operands.back().take_diagonals();
  }
  // Sizes must agree wherever a label appears; 1 broadcasts.
  std::array<int64_t, 256> size;
  size.fill(1);
  for (const Operand& o : operands) {
    for (size_t d = 0; d < o.labels.size(); ++d) {
      int64_t& known = size[size_t(o.labels[d])];
      const int64_t own = o.tensor.sizes()[d];
      check_shape(known == 1 || own == 1 || known == own, kName, "a subscript of '", equation,
                  "' stands for sizes ", known, " and ", own);
      if (known == 1) known = own;
    }
  }
  Operand result = operands[0];
  for (size_t i = 1; i < operands.size(); ++i) {
    Labels keep = plan.output;
    for (size_t j = i + 1; j < operands.size(); ++j)
      keep.insert(keep.end(), operands[j].labels.begin(), operands[j].labels.end());
    result = contract(result, operands[i], keep, plan.output);
  }
  Labels gone;
  for (int l : result.labels) {
    if (std::find(plan.output.begin(), plan.output.end(), l) == plan.output.end())
      gone.push_back(l);
  }
  // A lone operand adds up as sum() does: integers in int64.
  result.sum_out(gone, operands.size() > 1 ? std::optional(result.tensor.dtype()) : std::nullopt);
  return result.arranged(plan.output);
}

}  // namespace rush
