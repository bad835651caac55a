#include "autograd/node_name.h"

#include <cctype>
#include <string_view>

namespace rush {
namespace {

// Ops whose table name is not the one PyTorch's node goes by.
struct Renamed {
  std::string_view op, public_name;
};
constexpr Renamed kRenamed[] = {
    {"cast", "ToCopyBackward0"},
    {"to", "ToCopyBackward0"},
    {"copy_", "CopyBackwards"},
    {"clamp", "ClampBackward1"},
    {"norm", "LinalgVectorNormBackward0"},
    {"matmul", "MmBackward0"},
    {"broadcast_to", "ExpandBackward0"},
    {"reshape", "ViewBackward0"},
    {"flatten", "ViewBackward0"},
    {"cross_entropy", "NllLossBackward0"},
    {"square", "PowBackward0"},
    {"prelu", "PreluKernelBackward0"},
    {"swapaxes", "TransposeBackward0"},
    {"swapdims", "TransposeBackward0"},
    {"linalg.inv", "LinalgInvExBackward0"},
    {"linalg.cholesky", "LinalgCholeskyExBackward0"},
    {"linalg.solve", "LinalgSolveExBackward0"},
};

// PyTorch numbers the overloads of an op. A node does not know its overload, but the number of its
// results and inputs tells where it matters.
char overload_digit(std::string_view op, const Node& node) {
  const auto& results = node.results();
  const bool reduces_all = results.size() == 1 && results[0].sizes.empty();
  if (op == "sum" || op == "mean" || op == "prod" || op == "nansum") return reduces_all ? '0' : '1';
  if (op == "max" || op == "min") return results.size() > 1 ? '0' : '1';
  if (op == "median" || op == "nanmedian") return results.size() > 1 ? '1' : '0';
  if (op == "pow") return node.edges().size() > 1 && node.edges()[1] ? '1' : '0';
  return '0';
}

// Every letter that no other letter precedes becomes a capital, underscores and dots go:
// log1p -> Log1P, linalg.det -> LinalgDet.
std::string title(std::string_view op) {
  std::string out;
  bool inside = false;
  for (const char c : op) {
    const auto u = static_cast<unsigned char>(c);
    if (c != '_' && c != '.') out += inside ? c : char(std::toupper(u));
    inside = std::isalpha(u);
  }
  return out;
}

}  // namespace

std::string node_name(const Node& node) {
  const std::string_view op = node.name();
  const bool is_public =
      op.empty() || std::isupper(static_cast<unsigned char>(op[0])) || op.ends_with("Backward");
  if (is_public) return std::string(op);
  if (op == "linear")  // with a bias, or without
    return node.edges().size() > 2 && node.edges()[2] ? "AddmmBackward0" : "MmBackward0";
  for (const Renamed& r : kRenamed) {
    if (r.op == op) return std::string(r.public_name);
  }
  return title(op) + "Backward" + overload_digit(op, node);
}

}  // namespace rush
