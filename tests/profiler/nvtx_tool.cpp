// nvtx_tool.cpp: a tool that NVTX attaches, as Nsight Systems is one. It writes what it is told into
// the file NVTX_TOOL_LOG.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>

namespace {

using Function = void (*)();
struct Callbacks {
  size_t size;
  int (*module_table)(int module, Function*** table, unsigned* size);
};

FILE* g_log = nullptr;
int g_depth = 0;

void mark(const char* text) { std::fprintf(g_log, "mark %s\n", text); }
int push(const char* text) {
  std::fprintf(g_log, "push %s\n", text);
  return g_depth++;
}
int pop() {
  std::fprintf(g_log, "pop\n");
  return --g_depth;
}
uint64_t start(const char* text) {
  std::fprintf(g_log, "start %s\n", text);
  return 41;
}
void end(uint64_t range) { std::fprintf(g_log, "end %d\n", int(range)); }

template <class F>
void put(Function** table, int at, F* f) {
  *table[at] = reinterpret_cast<Function>(f);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    const void* (*export_table)(uint32_t)) {
  g_log = std::fopen(std::getenv("NVTX_TOOL_LOG"), "w");
  const auto* callbacks = static_cast<const Callbacks*>(export_table(1));
  if (!g_log || !callbacks || callbacks->size < sizeof(Callbacks) || export_table(99)) return 0;
  std::setbuf(g_log, nullptr);
  Function** table = nullptr;
  unsigned size = 0;
  for (const int module : {2, 3, 4, 5, 6})  // tools take all of them
    if (!callbacks->module_table(module, &table, &size) || !table) return 0;
  if (callbacks->module_table(0, &table, &size) || callbacks->module_table(7, &table, &size))
    return 0;
  if (!callbacks->module_table(1, &table, &size) || size < 16) return 0;
  put(table, 2, mark);
  put(table, 5, start);
  put(table, 7, end);
  put(table, 9, push);
  put(table, 11, pop);
  return 1;
}
