// nvrtc_api.h: NVRTC's functions, as far as we use them, opened at first use.
#pragma once

#include <cstddef>
#include <string>

namespace rush::cuda {

using Program = struct NvrtcProgram*;

// X(symbol, parameters); all return a status, 0 is success.
#define RUSH_NVRTC(X)                                                                          \
  X(nvrtcVersion, (int* major, int* minor))                                                    \
  X(nvrtcCreateProgram, (Program * program, const char* source, const char* name, int headers, \
                         const char* const* texts, const char* const* names))                  \
  X(nvrtcDestroyProgram, (Program * program))                                                  \
  X(nvrtcAddNameExpression, (Program program, const char* expression))                         \
  X(nvrtcCompileProgram, (Program program, int options, const char* const* texts))             \
  X(nvrtcGetProgramLogSize, (Program program, size_t* size))                                   \
  X(nvrtcGetProgramLog, (Program program, char* log))                                          \
  X(nvrtcGetCUBINSize, (Program program, size_t* size))                                        \
  X(nvrtcGetCUBIN, (Program program, char* cubin))                                             \
  X(nvrtcGetLoweredName, (Program program, const char* expression, const char** name))

struct Nvrtc {
#define RUSH_MEMBER(symbol, params) int(*symbol) params = nullptr;
  RUSH_NVRTC(RUSH_MEMBER)
#undef RUSH_MEMBER
  std::string missing;
  int version = 0;
};

}  // namespace rush::cuda
