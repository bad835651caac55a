"""Training in several processes, in PyTorch's words (docs/distributed.md).

Process groups of CPU tensors, DistributedDataParallel and the launcher are there; names of
PyTorch's that are not there yet raise, and say so.
"""

from rushlight._names.missing import fill
from rushlight.distributed import (
    _collective_options,
    _collectives,
    _messages,
    _object_collectives,
    _process_groups,
)
from rushlight.distributed._cluster_plan import Cluster, plan
from rushlight.distributed._collective_options import *
from rushlight.distributed._collectives import *
from rushlight.distributed._collectives import _all_gather_base, _reduce_scatter_base
from rushlight.distributed._errors import *
from rushlight.distributed._grad_bucket import GradBucket
from rushlight.distributed._messages import *
from rushlight.distributed._network import Link, fit_network
from rushlight.distributed._object_collectives import *
from rushlight.distributed._process_groups import *
from rushlight.distributed._process_groups import Work as _Work
from rushlight.distributed._reductions import (
    BuiltinCommHookType,
    ReduceOp,
    _make_nccl_premul_sum,
    reduce_op,
)
from rushlight.distributed._shrink import shrink_group, survivors
from rushlight.distributed._simulate import simulate
from rushlight.distributed._stores import FileStore, HashStore, PrefixStore, Store, TCPStore
from rushlight.distributed.device_mesh import DeviceMesh, init_device_mesh
from rushlight.distributed.rendezvous import register_rendezvous_handler, rendezvous

__all__ = [
    *_collective_options.__all__,
    *_collectives.__all__,
    *_messages.__all__,
    *_object_collectives.__all__,
    *_process_groups.__all__,
    "BuiltinCommHookType",
    "Cluster",
    "DeviceMesh",
    "FileStore",
    "GradBucket",
    "HashStore",
    "Link",
    "PrefixStore",
    "ReduceOp",
    "Store",
    "TCPStore",
    "fit_network",
    "init_device_mesh",
    "plan",
    "reduce_op",
    "register_rendezvous_handler",
    "rendezvous",
    "shrink_group",
    "simulate",
    "survivors",
]

fill(globals())
