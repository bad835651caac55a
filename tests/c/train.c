/* Loads a program, runs it, trains it, calls operators, and prints what tests/c/test_c_api.py
 * expects. Plain C11. */
#include <rushlight.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                              \
  do {                                                           \
    if ((call) != 0) {                                           \
      fprintf(stderr, "%s: %s\n", #call, rush_last_error());     \
      return 1;                                                  \
    }                                                            \
  } while (0)

static int number(const rush_tensor* t, float* out) { return rush_tensor_copy_to(t, out, sizeof *out); }

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  rush_program* net;
  CHECK(rush_program_load(argv[1], NULL, &net));
  const int64_t sizes[] = {4, 2};
  const float data[] = {0, 0, 0, 1, 1, 0, 1, 1}, goal[] = {0, 1, 1, 2};
  rush_tensor *x, *y;
  CHECK(rush_tensor_from_data(data, sizes, 2, "float32", &x));
  const int64_t rows[] = {4, 1};
  CHECK(rush_tensor_from_data(goal, rows, 2, "float32", &y));
  rush_tensor* parameters[8];
  int count;
  CHECK(rush_program_parameters(net, parameters, 8, &count));
  rush_optimizer* optimizer;
  CHECK(rush_sgd_new(parameters, count, 0.1, 0.9, 0, &optimizer));
  float last = -1;
  for (int step = 0; step < 60; ++step) {
    rush_tensor* inputs[] = {x, y};
    rush_tensor* loss[1];
    int n;
    CHECK(rush_program_run(net, "loss", inputs, 2, loss, 1, &n));
    CHECK(rush_optimizer_zero_grad(optimizer));
    CHECK(rush_backward(loss[0], 0));
    CHECK(rush_optimizer_step(optimizer));
    CHECK(number(loss[0], &last));
    rush_tensor_free(loss[0]);
  }
  printf("%d %.9g\n", count, (double)last);

  /* Operators by name; lists and several results. */
  rush_value args[3] = {{RUSH_TENSOR, 0, {.pointer = x}}, {RUSH_INT, 0, {.integer = 1}}};
  rush_value results[8];
  int n;
  CHECK(rush_call("max", args, 2, results, 8, &n));
  printf("%d %lld\n", n, (long long)rush_tensor_size(results[0].as.pointer, 0));
  for (int i = 0; i < n; ++i) rush_value_free(&results[i]);
  const rush_tensor* both[] = {x, x};
  args[0] = (rush_value){RUSH_TENSORS, 2, {.pointer = both}};
  CHECK(rush_call("cat", args, 2, results, 8, &n));
  printf("%d %lld\n", rush_tensor_ndim(results[0].as.pointer),
         (long long)rush_tensor_size(results[0].as.pointer, 1));
  rush_value_free(&results[0]);

  /* Errors are told. */
  if (rush_call("no_such_operator", args, 1, results, 8, &n) == 0) return 3;
  printf("%s\n", rush_last_error());
  if (rush_tensor_from_data(data, sizes, 2, "float33", &y) == 0) return 4;
  printf("%s\n", rush_last_error());
  if (rush_program_load("/nowhere.rush", NULL, &net) == 0) return 5;
  if (rush_call("exp", NULL, 1, results, 8, &n) == 0 || rush_backward(NULL, 0) == 0) return 6;
  CHECK(rush_program_save(net, argv[2]));
  for (int i = 0; i < count; ++i) rush_tensor_free(parameters[i]);
  rush_optimizer_free(optimizer);
  rush_tensor_free(x);
  rush_tensor_free(y);
  rush_program_free(net);
  return rush_abi_version() == RUSH_ABI_VERSION ? 0 : 7;
}
