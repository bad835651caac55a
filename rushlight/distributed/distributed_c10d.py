"""Process groups and collectives under the name of PyTorch's module."""

from rushlight._names.missing import fill
from rushlight.distributed._collective_options import *
from rushlight.distributed._collective_options import AllgatherOptions
from rushlight.distributed._collectives import *
from rushlight.distributed._collectives import (
    _all_gather_base,
    _coalescing_manager,
    _reduce_scatter_base,
)
from rushlight.distributed._messages import *
from rushlight.distributed._object_collectives import *
from rushlight.distributed._process_groups import *
from rushlight.distributed._process_groups import _set_pg_timeout, default_pg_timeout
from rushlight.distributed._reductions import ReduceOp, _make_nccl_premul_sum, reduce_op
from rushlight.distributed._shrink import SHRINK_ABORT, SHRINK_DEFAULT, shrink_group
from rushlight.distributed._stores import PrefixStore, Store
from rushlight.distributed._user_backends import _create_work_from_future
from rushlight.distributed._world import world as _world


def _get_default_group():
    return _world.member(None, "distributed_c10d._get_default_group").group


def _get_default_store():
    _get_default_group()  # raises where there is none
    return _world.store


fill(globals())
