// A compiler that compiles nothing, for a driver whose kernels do nothing (tests/fake_gpu): calls on the
// pretend GPU then take microseconds, not seconds.
#include <stdlib.h>
#include <string.h>

typedef struct {
  int unused;
} Program;

int nvrtcVersion(int* major, int* minor) {
  *major = 13, *minor = 0;
  return 0;
}
int nvrtcCreateProgram(Program** program, const char* source, const char* name, int headers,
                       const char* const* texts, const char* const* names) {
  (void)source, (void)name, (void)headers, (void)texts, (void)names;
  *program = calloc(1, sizeof(Program));
  return *program ? 0 : 1;
}
int nvrtcDestroyProgram(Program** program) {
  free(*program);
  *program = NULL;
  return 0;
}
int nvrtcAddNameExpression(Program* program, const char* expression) {
  (void)program, (void)expression;
  return 0;
}
int nvrtcCompileProgram(Program* program, int options, const char* const* texts) {
  (void)program, (void)options, (void)texts;
  return 0;
}
int nvrtcGetProgramLogSize(Program* program, size_t* size) {
  (void)program;
  *size = 1;
  return 0;
}
int nvrtcGetProgramLog(Program* program, char* log) {
  (void)program;
  *log = 0;
  return 0;
}
int nvrtcGetCUBINSize(Program* program, size_t* size) {
  (void)program;
  *size = 64;
  return 0;
}
int nvrtcGetCUBIN(Program* program, char* cubin) {
  (void)program;
  memset(cubin, 0, 64);
  return 0;
}
int nvrtcGetLoweredName(Program* program, const char* expression, const char** name) {
  (void)program;
  *name = expression;
  return 0;
}
