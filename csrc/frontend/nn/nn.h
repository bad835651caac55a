// nn.h: modules, as PyTorch's C++ library names them.
#pragma once

#include "frontend/nn/activation.h"
#include "frontend/nn/any_module.h"
#include "frontend/nn/attention.h"
#include "frontend/nn/containers.h"
#include "frontend/nn/conv.h"
#include "frontend/nn/functional.h"
#include "frontend/nn/init.h"
#include "frontend/nn/linear.h"
#include "frontend/nn/loss.h"
#include "frontend/nn/module.h"
#include "frontend/nn/norm.h"
#include "frontend/nn/pooling.h"
#include "frontend/nn/rnn.h"
#include "frontend/nn/utils.h"
