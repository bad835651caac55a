"""elastic_launch: a function or a command as the ranks of this machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rushlight._names.missing import names_missing_from
from rushlight.distributed._agent import Agent, Job, Logs
from rushlight.distributed._function_agent import FunctionAgent
from rushlight.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]

_PORT = 29500  # where machines meet, if nobody says
# What rdzv_configs may say of times, in seconds, and of how many signs of life may be missed.
_TIMES = {"timeout": 600.0, "join_timeout": 600.0, "last_call_timeout": 30.0,
          "keep_alive_interval": 5.0, "keep_alive_max_attempt": 3.0}  # fmt: skip


@dataclass
class LaunchConfig:
    """How many processes, where they meet, and how often they may be started again. The launcher's
    own store serves whatever ``rdzv_backend`` is named."""

    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    logs_specs: Any = None
    run_id: str = ""
    role: str = "default_role"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "etcd"
    rdzv_configs: dict[str, Any] = field(default_factory=dict)
    rdzv_timeout: int = -1
    max_restarts: int = 3
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_line_prefix_template: str | None = None
    metrics_cfg: dict[str, str] = field(default_factory=dict)
    local_addr: str | None = None


class elastic_launch:
    """Called with arguments, runs ``entrypoint(*args)`` in ``nproc_per_node`` processes and returns
    what they returned, by rank; a command (a string) gets the arguments as its own. Raises
    ChildFailedError when a rank fails and no restarts are left."""

    def __init__(self, config: LaunchConfig, entrypoint: Callable[..., Any] | str | None) -> None:
        self._config = config
        self._entrypoint = entrypoint

    def __call__(self, *args: Any) -> dict[int, Any]:
        return launch_agent(self._config, self._entrypoint, list(args))


def _job(config: LaunchConfig, command: list[str]) -> Job:
    host, _, port = config.rdzv_endpoint.rpartition(":")
    if not host and port and not port.isdigit():
        host, port = port, ""
    if config.max_nodes > 1 and not host:
        raise ValueError("elastic_launch: several machines need rdzv_endpoint, HOST:PORT")
    if not 1 <= config.min_nodes <= config.max_nodes or config.nproc_per_node < 1:
        raise ValueError(
            f"elastic_launch: min_nodes ({config.min_nodes}), max_nodes ({config.max_nodes}) and "
            f"nproc_per_node ({config.nproc_per_node}) are numbers from 1, the largest number of "
            "machines not below the least one"
        )
    alone = config.max_nodes == 1
    given = {name: float(value) for name, value in config.rdzv_configs.items() if name in _TIMES}
    if config.rdzv_timeout > 0:
        given["timeout"] = float(config.rdzv_timeout)
    times = {**_TIMES, **given}
    return Job(
        command=command,
        nodes=config.max_nodes,
        node_rank=0 if alone else _node_rank(config),
        processes=config.nproc_per_node,
        host=host or "127.0.0.1",
        port=int(port) if port else (0 if alone else _PORT),
        max_restarts=config.max_restarts,
        run_id=config.run_id or "none",
        role=config.role,
        logs=Logs(),
        monitor_interval=config.monitor_interval,
        join_timeout=given.get("join_timeout", times["timeout"]),
        least_nodes=config.min_nodes,
        last_call=times["last_call_timeout"],
        lost=times["keep_alive_interval"] * times["keep_alive_max_attempt"],
    )


def _node_rank(config: LaunchConfig) -> int | None:
    """None: machines are numbered as they come."""
    given = config.rdzv_configs.get("rank")
    if given is None and config.rdzv_backend == "static" and config.min_nodes == config.max_nodes:
        return 0
    return None if given is None else int(given)


def launch_agent(
    config: LaunchConfig, entrypoint: Callable[..., Any] | str | None, args: list[Any]
) -> dict[int, Any]:
    """What elastic_launch calls."""
    if entrypoint is None:
        entrypoint = sys.executable
    agent: Agent
    if isinstance(entrypoint, str):
        agent = Agent(_job(config, [entrypoint, *map(str, args)]))
    else:
        agent = FunctionAgent(_job(config, []), entrypoint, args, config.start_method)
    code = agent.run()
    if code != 0:
        raise failure_of(agent, code)
    return getattr(agent, "results", {})


def failure_of(agent: Agent, code: int) -> Exception | KeyboardInterrupt:
    """What a launch raises that did not end well."""
    if agent.failed is None and agent.asked is None:
        return RuntimeError("elastic_launch: the launcher of another machine was ended or is gone")
    if agent.failed is None:  # the launcher was asked to end
        return KeyboardInterrupt(f"the launcher got signal {code - 128}")
    failed = agent.failed
    failure = ProcessFailure(failed.local, failed.pid, failed.code, message=failed.words)
    return ChildFailedError("rushlight.distributed.run", {failed.number: failure})


__getattr__ = names_missing_from(__name__)
