#include "ops/framework/kept.h"

#include <algorithm>

namespace rush {
namespace {

constexpr size_t kNoEdge = SIZE_MAX;

bool is_tensors(ArgKind k) { return k == ArgKind::Tensor || k == ArgKind::Tensors; }

// The row that the call belongs to. Its aliases differ in their names only; its in-place form, the
// only one of some, does not name the results.
const OpEntry* entry_of(const KeptCall& call) {
  const OpEntry* in_place = nullptr;
  for (const OpEntry& entry : all_ops()) {
    if (entry.block != call.block) continue;
    if (entry.form == Form::Functional) return &entry;
    if (entry.form == Form::InPlace) in_place = &entry;
  }
  return in_place;
}

std::vector<std::string> result_names(const OpEntry* entry, size_t count) {
  std::vector<std::string> names;
  std::string_view given = entry ? entry->result_names : "";
  while (!given.empty()) {
    const size_t space = std::min(given.find(' '), given.size());
    names.emplace_back(given.substr(0, space));
    given.remove_prefix(std::min(space + 1, given.size()));
  }
  if (names.size() == count) return names;
  if (count == 1) return {"result"};
  names.clear();
  for (size_t i = 0; i < count; ++i) names.push_back(concat("result", i));
  return names;
}

// How many edges an unsaved list has: what the tensors leave over. With two lists nobody knows.
size_t edges_of_list(const Node& node, const KeptCall& call) {
  const auto count = [&](ArgKind k) {
    return size_t(std::ranges::count(call.arguments, k, &KeptArgument::kind));
  };
  const size_t tensors = count(ArgKind::Tensor);
  return count(ArgKind::Tensors) == 1 && node.edges().size() >= tensors
             ? node.edges().size() - tensors
             : kNoEdge;
}

}  // namespace

std::vector<SavedName> saved_names(const Node& node, const KeptCall& call) {
  using enum SavedName::What;
  const OpEntry* entry = call.names ? nullptr : entry_of(call);
  std::vector<SavedName> names;
  if (!entry && !call.names) return names;
  internal_assert(!entry || entry->args.size() == call.arguments.size(),
                  "a node keeps other arguments than its row has");
  uint32_t tensor_bit = 1;
  size_t edge = 0;
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    const ArgKind kind = call.arguments[i].kind;
    if (kind == ArgKind::Generator) continue;
    const std::string name = entry ? entry->args[i].name : call.names[i];
    const bool saved = !is_tensors(kind) || call.needs & tensor_bit;
    if (saved) names.push_back({name, Argument, i, kNoEdge});
    if (!is_tensors(kind)) continue;
    tensor_bit <<= 1;
    // Of a tensor that no gradient reads, the shape is all that is left.
    if (!saved && kind == ArgKind::Tensor && edge < node.edges().size() && node.edges()[edge])
      names.push_back({name + "_sym_sizes", Sizes, i, edge});
    const size_t here = kind == ArgKind::Tensor ? 1 : edges_of_list(node, call);
    edge = edge == kNoEdge || here == kNoEdge ? kNoEdge : edge + here;
  }
  const size_t results = entry ? std::min<size_t>(entry->num_results, node.results().size()) : 0;
  const std::vector<std::string> of_results = result_names(entry, results);
  for (size_t i = 0; i < results; ++i) {
    if (call.needs >> (24 + i) & 1) names.push_back({of_results[i], Result, i, kNoEdge});
  }
  return names;
}

}  // namespace rush
