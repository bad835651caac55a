"""Training in several processes, in PyTorch's words (docs/distributed.md).

Process groups of CPU tensors, DistributedDataParallel and the launcher are there; names of
PyTorch's that are not there yet raise, and say so.
"""

from rushlight._names.missing import fill
from rushlight.distributed._errors import *
from rushlight.distributed._object_collectives import all_gather_object, broadcast_object_list
from rushlight.distributed._process_groups import *
from rushlight.distributed._process_groups import __all__ as _group_names
from rushlight.distributed._stores import FileStore, HashStore, PrefixStore, Store, TCPStore
from rushlight.distributed.rendezvous import register_rendezvous_handler, rendezvous

__all__ = [
    *_group_names,
    "FileStore",
    "HashStore",
    "PrefixStore",
    "Store",
    "TCPStore",
    "all_gather_object",
    "broadcast_object_list",
    "register_rendezvous_handler",
    "rendezvous",
]

fill(globals())
