#include "profiler/nvtx.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "autograd/node_name.h"
#include "profiler/inputs.h"

namespace rush::nvtx {
namespace {

// ---- the tables that a tool fills in; numbers and layouts are those of NVTX 3 ----

using Function = void (*)();
constexpr int kCore = 1, kModules = 7;
// Places of the functions in the table of kCore.
constexpr size_t kMarkA = 2, kRangeStartA = 5, kRangeEnd = 7, kRangePushA = 9, kRangePop = 11;
constexpr unsigned kSlots = 16;  // no module has more functions
constexpr uint32_t kVersion = 3;
constexpr int kNoTool = -2;  // what nested ranges return without one

std::array<std::array<Function, kSlots>, kModules> g_functions{};

int module_table(int module, Function*** table, unsigned* size) {
  static auto slots = [] {
    std::array<std::array<Function*, kSlots + 1>, kModules> all{};
    for (size_t m = 0; m < all.size(); ++m)
      for (size_t i = 1; i < kSlots; ++i) all[m][i] = &g_functions[m][i];
    return all;
  }();
  if (module < kCore || module >= kModules) return 0;
  if (table) *table = slots[size_t(module)].data();
  if (size) *size = kSlots;
  return 1;
}

struct Callbacks {
  size_t size;
  int (*module_table)(int module, Function*** table, unsigned* size);
};
struct VersionInfo {
  size_t size;
  uint32_t version, reserved;
  void (*set_tool_version)(uint32_t version);
};

const void* export_table(uint32_t which) {
  static const Callbacks callbacks{sizeof(Callbacks), module_table};
  static const VersionInfo version{sizeof(VersionInfo), kVersion, 0, [](uint32_t) {}};
  return which == 1 ? static_cast<const void*>(&callbacks) : which == 3 ? &version : nullptr;
}

bool attach() {
  const char* path = std::getenv("NVTX_INJECTION64_PATH");
  if (!path || !*path) return false;
  void* library = dlopen(path, RTLD_LAZY);
  if (!library) return false;
  using Initialize = int (*)(const void* (*)(uint32_t));
  const auto initialize = reinterpret_cast<Initialize>(dlsym(library, "InitializeInjectionNvtx2"));
  if (initialize && initialize(export_table)) return true;
  g_functions = {};
  dlclose(library);
  return false;
}

template <class F>
F core_function(size_t which) {
  return has_tool() ? reinterpret_cast<F>(g_functions[kCore][which]) : nullptr;
}

// ---- ops ----

void put_sizes(std::string& to, std::span<const int64_t> sizes) {
  to += '[';
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (i > 0) to += ", ";
    to += std::to_string(sizes[i]);
  }
  to += ']';
}

std::string sizes_of(const std::vector<profiler::PackedInput>& inputs) {
  std::string text = ", sizes = [";
  for (const auto& input : inputs) {
    if (text.back() != '[') text += ", ";
    if (input.tag == Value::Tag::Tensor)
      put_sizes(text, input.tensors[0].sizes);
    else
      text += "[]";
  }
  return text + "]";
}

class Emitter final : public StreamListener {
 public:
  explicit Emitter(bool shapes) : shapes_(shapes) {}
  void* enter_thread(uint32_t) noexcept override { return nullptr; }
  void* begin(void*, const StreamEvent& event) noexcept override {
    range_push(title(event).c_str());
    return nullptr;
  }
  void end(void*, void*, const StreamEvent&) noexcept override { range_pop(); }

 private:
  std::string title(const StreamEvent& event) const {
    if (event.kind == StreamKind::Range) {
      std::string name(event.name);  // of a module: its path, and its class on a line of its own
      for (char& c : name)
        if (c == '\n') c = ' ';
      return name;
    }
    std::vector<int64_t> words;
    if (event.kind == StreamKind::Node) {
      std::string text = node_name(*event.node);
      if (event.part != NodeObserver::Part::Apply)
        text = "autograd::engine::evaluate_function: " + text;
      if (event.node->sequence() != kLeafSequence)
        text += ", seq = " + std::to_string(event.node->sequence());
      if (shapes_) {
        profiler::pack_gradients(*event.node, words);
        text += sizes_of(profiler::unpack_inputs(words.data()));
      }
      return text;
    }
    std::string text = event.entry->name;
    if (text.find("::") == std::string::npos)
      text = "aten::" + text.substr(text.find_first_not_of('_'));
    if (shapes_) {
      profiler::pack_inputs(*event.entry, event.args, words);
      text += sizes_of(profiler::unpack_inputs(words.data()));
    }
    return text;
  }
  const bool shapes_;
};

}  // namespace

bool has_tool() {
  static const bool found = attach();
  return found;
}

void mark(const char* message) {
  if (const auto f = core_function<void (*)(const char*)>(kMarkA)) f(message);
}
int range_push(const char* message) {
  const auto f = core_function<int (*)(const char*)>(kRangePushA);
  return f ? f(message) : kNoTool;
}
int range_pop() {
  const auto f = core_function<int (*)()>(kRangePop);
  return f ? f() : kNoTool;
}
uint64_t range_start(const char* message) {
  const auto f = core_function<uint64_t (*)(const char*)>(kRangeStartA);
  return f ? f(message) : 0;
}
void range_end(uint64_t range) {
  if (const auto f = core_function<void (*)(uint64_t)>(kRangeEnd)) f(range);
}

std::shared_ptr<StreamListener> make_emitter(bool shapes) {
  return std::make_shared<Emitter>(shapes);
}

}  // namespace rush::nvtx
