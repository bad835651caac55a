"""Models on several devices. On one device a model is itself."""

from rushlight._names.missing import names_missing_from
from rushlight.nn.parallel.data_parallel import DataParallel, data_parallel
from rushlight.nn.parallel.distributed import DistributedDataParallel
from rushlight.nn.parallel.parallel_apply import parallel_apply
from rushlight.nn.parallel.replicate import replicate
from rushlight.nn.parallel.scatter_gather import gather, scatter

__all__ = [
    "DataParallel",
    "DistributedDataParallel",
    "data_parallel",
    "gather",
    "parallel_apply",
    "replicate",
    "scatter",
]

__getattr__ = names_missing_from(__name__)
