"""Ranks that mpirun or Slurm started: who this process is, in the variables of env://."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["variables_of_scheduler"]


class _Scheduler(NamedTuple):
    """The variables in which a starter of processes tells who they are."""

    rank: str
    size: tuple[str, ...]
    local_rank: str
    local_size: tuple[str, ...]
    job: tuple[str, ...]  # together, what tells jobs on one machine apart
    nodes: tuple[str, ...] = ()  # a list of machines, the first of which has rank 0


_SCHEDULERS = (
    _Scheduler("OMPI_COMM_WORLD_RANK", ("OMPI_COMM_WORLD_SIZE",), "OMPI_COMM_WORLD_LOCAL_RANK",
               ("OMPI_COMM_WORLD_LOCAL_SIZE",), ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid")),
    _Scheduler("SLURM_PROCID", ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"), "SLURM_LOCALID",
               ("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"),
               ("SLURM_JOB_ID", "SLURM_STEP_ID"),
               ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST")),
    _Scheduler("PMI_RANK", ("PMI_SIZE",), "MPI_LOCALRANKID", ("MPI_LOCALNRANKS",), ()),
)  # fmt: skip
_FIRST_PORT, _PORTS = 20000, 12000  # below those that systems hand out by themselves


def _first(environment, names):
    return next((environment[name] for name in names if environment.get(name)), None)


def first_host(nodes: str) -> str:
    """Of Slurm's list: "gpu[07-09,12],login" begins with gpu07."""
    head = re.match(r"([^\[,]+)(?:\[([^\]]+)\])?([^,\[]*)", nodes)
    if head is None:
        return nodes
    numbers = (head[2] or "").split(",")[0].split("-")[0]
    return head[1] + numbers + (head[3] if head[2] else "")


def variables_of_scheduler(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """RANK, WORLD_SIZE and, where they can be told, LOCAL_RANK, MASTER_ADDR and MASTER_PORT; empty
    where neither mpirun nor Slurm started this process."""
    env = os.environ if environment is None else environment
    for s in _SCHEDULERS:
        rank, size = env.get(s.rank), _first(env, s.size)
        if not rank or not size:
            continue
        found = {"RANK": rank, "WORLD_SIZE": size}
        if env.get(s.local_rank):
            found["LOCAL_RANK"] = env[s.local_rank]
        nodes = _first(env, s.nodes)
        if _first(env, s.local_size) == size:
            found["MASTER_ADDR"] = "127.0.0.1"
        elif nodes:
            found["MASTER_ADDR"] = first_host(nodes)
        job = "/".join(env.get(name, "") for name in s.job)
        if not job.strip("/"):  # ranks of one machine have one parent
            job = str(os.getppid())
        number = int.from_bytes(hashlib.sha256(job.encode()).digest()[:4], "big")
        found["MASTER_PORT"] = str(_FIRST_PORT + number % _PORTS)
        return found
    return {}
