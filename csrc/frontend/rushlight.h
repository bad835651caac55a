// rushlight.h: all that C++ programs need: tensors and their ops, gradients, optimisers, and
// programs that were traced in Python. docs/programs.md is the guide.
#pragma once

#include "autograd/meta.h"
#include "core/modes.h"
#include "core/version.h"
#include "frontend/autograd.h"
#include "frontend/optim.h"
#include "frontend/random.h"
#include "frontend/version_macros.h"
#include "jit/program.h"
#include "ops/framework/operators.h"
#include "ops/ops.h"
