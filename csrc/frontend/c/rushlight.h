/* rushlight.h: Rushlight for C, and for whatever can call C.
 *
 * - Functions return 0, or another number when they failed; rush_last_error() then says why. Nothing
 *   is thrown. Messages belong to the thread, and stay until its next call.
 * - Tensors, programs and optimisers are handles: whoever gets one frees it. Handles of the same
 *   tensor share its memory.
 * - Operators go by the names of ops.json (in the package's folder "share"): rush_call("matmul", ...).
 *   Those that a library defined go by "namespace::name".
 * - Threads may use different handles at the same time.
 */
#ifndef RUSHLIGHT_C_H
#define RUSHLIGHT_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RUSH_ABI_VERSION 1

typedef struct rush_tensor rush_tensor;
typedef struct rush_program rush_program;
typedef struct rush_optimizer rush_optimizer;
struct DLManagedTensor; /* of dlpack.h */

int rush_abi_version(void);
const char* rush_version(void);
const char* rush_last_error(void);

/* Tensors. A dtype is "float32", a device "cpu" or "cuda:0". */
int rush_tensor_new(const int64_t* sizes, int ndim, const char* dtype, const char* device,
                    rush_tensor** out); /* zeros */
int rush_tensor_from_data(const void* data, const int64_t* sizes, int ndim, const char* dtype,
                          rush_tensor** out);                            /* copies, row-major */
int rush_tensor_copy_to(const rush_tensor* t, void* data, size_t bytes); /* row-major, any device */
int rush_tensor_from_dlpack(struct DLManagedTensor* managed, rush_tensor** out); /* takes it over */
int rush_tensor_to_dlpack(const rush_tensor* t,
                          struct DLManagedTensor** out);        /* call its deleter */
int rush_tensor_share(const rush_tensor* t, rush_tensor** out); /* another handle of it */
void rush_tensor_free(rush_tensor* t);
int rush_tensor_ndim(const rush_tensor* t);
int64_t rush_tensor_size(const rush_tensor* t, int dim); /* -1 where there is no such dim */
int64_t rush_tensor_numel(const rush_tensor* t);
const char* rush_tensor_dtype(const rush_tensor* t);

/* Arguments and results of operators. */
enum {
  RUSH_NONE = 0,
  RUSH_TENSOR = 1,  /* pointer: rush_tensor* */
  RUSH_TENSORS = 2, /* pointer: rush_tensor* const*, count */
  RUSH_INT = 3,
  RUSH_FLOAT = 4,
  RUSH_BOOL = 5,   /* integer */
  RUSH_STRING = 6, /* pointer: const char* */
  RUSH_INTS = 7,   /* pointer: const int64_t*, count */
  RUSH_FLOATS = 8, /* pointer: const double*, count */
  RUSH_DTYPE = 9,  /* pointer: const char* */
  RUSH_DEVICE = 10 /* pointer: const char* */
};
typedef struct rush_value {
  int32_t kind;
  int32_t count;
  union {
    int64_t integer;
    double real;
    const void* pointer;
  } as;
} rush_value;

/* Calls an operator with its first arguments, the others take their defaults. At most 8 results;
 * each is freed by rush_value_free. */
int rush_call(const char* op, const rush_value* args, int nargs, rush_value* results, int capacity,
              int* nresults);
void rush_value_free(rush_value* v);
int rush_load_library(const char* path); /* of operators */

/* Gradients. */
int rush_set_requires_grad(rush_tensor* t, int on);
int rush_requires_grad(const rush_tensor* t);
int rush_set_grad_enabled(int on); /* of this thread; what it was before */
int rush_backward(const rush_tensor* loss, int retain_graph);
int rush_grad(const rush_tensor* t, rush_tensor** out); /* *out is null where there is none */

/* Programs: inputs and outputs are tensors; outputs in tuples and lists come one after the other. */
int rush_program_load(const char* path, const char* device,
                      rush_program** out); /* null: as saved */
int rush_program_save(const rush_program* p, const char* path);
int rush_program_run(const rush_program* p, const char* method, rush_tensor* const* inputs,
                     int ninputs, rush_tensor** outputs, int capacity, int* noutputs);
int rush_program_parameters(const rush_program* p, rush_tensor** out, int capacity, int* count);
void rush_program_free(rush_program* p);

/* Optimisers. */
int rush_sgd_new(rush_tensor* const* parameters, int count, double lr, double momentum,
                 double weight_decay, rush_optimizer** out);
int rush_adam_new(rush_tensor* const* parameters, int count, double lr, double beta1, double beta2,
                  double eps, double weight_decay, int decoupled, rush_optimizer** out);
int rush_optimizer_step(rush_optimizer* o);
int rush_optimizer_zero_grad(rush_optimizer* o);
void rush_optimizer_free(rush_optimizer* o);

int rush_manual_seed(uint64_t seed);

#ifdef __cplusplus
}
#endif

#endif
