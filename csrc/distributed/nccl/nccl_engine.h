// nccl_engine.h: collectives and messages between GPUs, by NCCL.
#pragma once

#include "distributed/device_engine.h"

namespace rush::distributed::nccl {

// Communicators are made when first needed, and need all ranks of the group (of a message: both).
RUSH_API std::unique_ptr<DeviceEngine> make_engine(std::shared_ptr<Store> store, int rank, int size,
                                                   Milliseconds timeout);

}  // namespace rush::distributed::nccl
