"""Names of torch.distributed.distributed_c10d: they can be imported, and raise when used."""

from rushlight._missing import absent
from rushlight.distributed import WHY
from rushlight.distributed import Backend as Backend
from rushlight.distributed import GroupMember as GroupMember
from rushlight.distributed import ProcessGroup as ProcessGroup
from rushlight.distributed import ReduceOp as ReduceOp
from rushlight.distributed import Work as Work
from rushlight.distributed import all_gather as all_gather
from rushlight.distributed import all_gather_object as all_gather_object
from rushlight.distributed import all_reduce as all_reduce
from rushlight.distributed import barrier as barrier
from rushlight.distributed import broadcast as broadcast
from rushlight.distributed import get_backend as get_backend
from rushlight.distributed import get_global_rank as get_global_rank
from rushlight.distributed import get_process_group_ranks as get_process_group_ranks
from rushlight.distributed import get_rank as get_rank
from rushlight.distributed import get_world_size as get_world_size
from rushlight.distributed import group as group
from rushlight.distributed import init_process_group as init_process_group
from rushlight.distributed import is_initialized as is_initialized
from rushlight.distributed import new_group as new_group

absent(
    globals(),
    WHY,
    classes="PrefixStore Store",
    functions="""_coalescing_manager _find_pg_by_ranks_and_tag _get_default_group
    _get_default_store"""
    "_get_default_group _get_default_store _coalescing_manager _find_pg_by_ranks_and_tag"
    "",
)
