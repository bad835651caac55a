"""What FullyShardedDataParallel is told: how to cut, dtypes, places, and the kind of its states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from rushlight.nn.modules.batchnorm import _BatchNorm

__all__ = [
    "BackwardPrefetch",
    "CPUOffload",
    "FullOptimStateDictConfig",
    "FullStateDictConfig",
    "LocalOptimStateDictConfig",
    "LocalStateDictConfig",
    "MixedPrecision",
    "OptimStateDictConfig",
    "OptimStateKeyType",
    "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig",
    "ShardingStrategy",
    "StateDictConfig",
    "StateDictSettings",
    "StateDictType",
]

ShardingStrategy = Enum(
    "ShardingStrategy",
    "FULL_SHARD SHARD_GRAD_OP NO_SHARD HYBRID_SHARD _HYBRID_SHARD_ZERO2",
    module=__name__,
)
BackwardPrefetch = Enum("BackwardPrefetch", "BACKWARD_PRE BACKWARD_POST", module=__name__)
StateDictType = Enum(
    "StateDictType", "FULL_STATE_DICT LOCAL_STATE_DICT SHARDED_STATE_DICT", module=__name__
)
OptimStateKeyType = Enum("OptimStateKeyType", "PARAM_NAME PARAM_ID", module=__name__)


@dataclass(frozen=True)
class MixedPrecision:
    """The dtypes of parameters while they compute, of gradients while they are reduced, and of
    buffers. Inputs of the outermost module are cast unless ``cast_root_forward_inputs`` is False,
    those of all with ``cast_forward_inputs``."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Sequence[type] = (_BatchNorm,)


@dataclass
class CPUOffload:
    """With ``offload_params`` the parts of parameters and their gradients lie in the host's
    memory."""

    offload_params: bool = False


@dataclass
class StateDictConfig:
    """``offload_to_cpu``: the tensors of a state are in the host's memory."""

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """Whole tensors; with ``rank0_only`` the other ranks' states are empty."""

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """What this rank holds."""


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """DTensors (``_use_dtensor`` is accepted: there are no others)."""

    _use_dtensor: bool = True


@dataclass
class OptimStateDictConfig:
    """``offload_to_cpu``: the tensors of a state are in the host's memory."""

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """Whole tensors; with ``rank0_only`` the other ranks' states are empty."""

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """What this rank holds."""

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """DTensors (``_use_dtensor`` is accepted: there are no others)."""

    _use_dtensor: bool = True


@dataclass
class StateDictSettings:
    """The kind of state that a model gives and takes, and what is set of it."""

    state_dict_type: StateDictType = StateDictType.FULL_STATE_DICT
    state_dict_config: StateDictConfig = field(default_factory=FullStateDictConfig)
    optim_state_dict_config: OptimStateDictConfig = field(default_factory=FullOptimStateDictConfig)


CONFIGS: dict[Any, tuple[type[StateDictConfig], type[OptimStateDictConfig]]] = {
    StateDictType.FULL_STATE_DICT: (FullStateDictConfig, FullOptimStateDictConfig),
    StateDictType.LOCAL_STATE_DICT: (LocalStateDictConfig, LocalOptimStateDictConfig),
    StateDictType.SHARDED_STATE_DICT: (ShardedStateDictConfig, ShardedOptimStateDictConfig),
}
