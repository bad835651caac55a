"""Starts one program in several processes: python -m rushlight.distributed.run [options] program.

The options are torchrun's main ones. The launcher holds the store through which the processes find
each other. When one of them fails, the others are stopped, the program is started again if restarts
are left, and in the end the last lines are what the first failing rank printed.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from rushlight.distributed._agent import Agent, Job, Logs
from rushlight.distributed._errors import DistError
from rushlight.distributed._machines import join_timeout, seconds_in

__all__ = ["get_args_parser", "main", "parse_args", "run"]


def get_args_parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m rushlight.distributed.run", description=__doc__.split("\n")[0]
    )

    def option(name: str, *more: str, **kwargs: Any) -> None:
        # torchrun takes dashes and underscores alike, and defaults from PET_NNODES and the like.
        plain = name.replace("-", "_")
        set_before = os.environ.get(f"PET_{plain.upper()}")
        if set_before is not None:
            flag = kwargs.get("action") == "store_true"
            kwargs["default"] = set_before == "1" if flag else set_before
        parser.add_argument(*dict.fromkeys((f"--{name}", f"--{plain}", *more)), **kwargs)

    option("nnodes", default="1", help="how many machines, or MIN:MAX of them")
    option("nproc-per-node", default="1", help='processes per machine, or "auto", "cpu", "gpu"')
    option("node-rank", type=int, default=None, help="the number of this machine; without it, and "
           "with MIN:MAX, machines are numbered as they come")  # fmt: skip
    option("master-addr", default="127.0.0.1", help="the address of machine 0")
    option("master-port", type=int, default=29500, help="a free port there")
    option("standalone", action="store_true", help="one machine, and any free port")
    option("rdzv-endpoint", default="", help="HOST:PORT in place of the master's address and port")
    option("rdzv-backend", default="static", help="accepted; the launcher's own store serves")
    option("rdzv-id", default="none", help="a name of the job, the same on all machines")
    option("rdzv-conf", default="", help="join_timeout=SECONDS to wait for the other machines, "
           "last_call_timeout=SECONDS for more than MIN")  # fmt: skip
    option("max-restarts", type=int, default=0, help="how often all machines start again together "
           "after a failure")  # fmt: skip
    option("max-lost-ranks", type=int, default=0, help="how many ranks of this machine may fail "
           "while the others go on without them (distributed.shrink_group)")  # fmt: skip
    option("monitor-interval", type=float, default=0.1, help="seconds between two looks at what "
           "the other machines say; failures on this one are seen at once")  # fmt: skip
    option("start-method", default="spawn", help="accepted: each process is a program of its own")
    option("role", default="default", help="a name for the processes")
    option("log-dir", default=None, help="a folder for what the processes print")
    option("redirects", "-r", default="0", help="print into files: 1 stdout, 2 stderr, 3 both; or "
           "by local rank: 0:1,1:3")  # fmt: skip
    option("tee", "-t", default="0", help="the same, and to the console")
    option("local-ranks-filter", default="", help="show only these on the console: 0,2")
    option("local-addr", default=None, help="accepted")
    option("run-path", action="store_true", help="accepted: the program is run as its own process")
    parser.add_argument("-m", "--module", action="store_true", help="the program is a module")
    option("no-python", action="store_true", help="the program is no Python program")
    parser.add_argument("training_script", help="the program")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER, help="its arguments")
    return parser


def parse_args(args: list[str] | None = None) -> argparse.Namespace:
    """The command line, or ``args``, as attributes."""
    return get_args_parser().parse_args(args)


def _processes(text):
    if text.isdecimal() and int(text) > 0:
        return int(text)
    if text == "gpu" or text == "auto":
        from rushlight import cuda

        if cuda.is_available():
            return cuda.device_count()
        if text == "gpu":
            raise ValueError("--nproc-per-node: there is no GPU here")
    if text in ("auto", "cpu"):
        return len(os.sched_getaffinity(0))
    raise ValueError(f"--nproc-per-node: expected a number from 1, auto, cpu or gpu, got {text!r}")


def _machines(text):
    """What --nnodes says: the least and the largest number."""
    least, _, most = text.rpartition(":")
    try:
        counts = (int(least or most), int(most))
    except ValueError:
        counts = (0, 0)
    if not 1 <= counts[0] <= counts[1]:
        raise ValueError(f"--nnodes: expected a number or MIN:MAX, got {text!r}")
    return counts


def _node_rank(args, least, most):
    if most == 1:
        return 0
    if args.node_rank is not None and not 0 <= args.node_rank < most:
        raise ValueError(f"--node-rank: expected 0 to {most - 1}, got {args.node_rank}")
    numbered = args.rdzv_backend == "static" and least == most
    if args.node_rank is None and numbered:
        return 0  # as torchrun has it
    return args.node_rank


def _streams(option, text):
    """What -r and -t say: {local rank: 1 stdout, 2 stderr, 3 both}; None stands for all ranks."""
    try:
        if ":" not in text:
            found = {None: int(text)}
        else:
            found = {int(r): int(s) for r, s in (part.split(":") for part in text.split(","))}
    except ValueError:
        found = {None: -1}
    if not all(0 <= streams <= 3 for streams in found.values()):
        raise ValueError(f"{option}: expected 0 to 3, or RANK:0 to 3 by commas, got {text!r}")
    return found


def _command(args):
    if args.no_python:
        if args.module:
            raise ValueError("--module and --no-python do not go together")
        return [args.training_script, *args.training_script_args]
    program = ["-m", args.training_script] if args.module else [args.training_script]
    return [sys.executable, "-u", *program, *args.training_script_args]


def run(args: argparse.Namespace) -> None:
    """Runs the job; raises ChildFailedError when a rank fails and no restarts are left."""
    from rushlight.distributed.launcher.api import failure_of

    agent = _agent(args)
    code = agent.run()
    if code != 0:
        raise failure_of(agent, code)


def _address(args):
    """Where the store is."""
    if not args.rdzv_endpoint:
        return args.master_addr, args.master_port
    host, _, port = args.rdzv_endpoint.rpartition(":")
    if not host:
        return port, args.master_port
    if not port.isdecimal():
        raise ValueError(f"--rdzv-endpoint: expected HOST:PORT, got {args.rdzv_endpoint!r}")
    return host, int(port)


def _shown(text):
    """The local ranks that --local-ranks-filter names."""
    parts = [part for part in text.split(",") if part]
    if not all(part.isdecimal() for part in parts):
        raise ValueError(f"--local-ranks-filter: expected numbers by commas, got {text!r}")
    return [int(part) for part in parts]


def _agent(args: argparse.Namespace) -> Agent:
    host, port = _address(args)
    if args.monitor_interval <= 0:
        raise ValueError(f"--monitor-interval: expected seconds, got {args.monitor_interval:g}")
    least, nodes = _machines(args.nnodes)
    if args.standalone:
        host, port, least, nodes = "127.0.0.1", 0, 1, 1
    job = Job(
        command=_command(args),
        nodes=nodes,
        node_rank=_node_rank(args, least, nodes),
        processes=_processes(args.nproc_per_node),
        host=host,
        port=port,
        max_restarts=args.max_restarts,
        run_id=args.rdzv_id,
        role=args.role,
        logs=Logs(
            args.log_dir,
            _streams("--redirects", args.redirects),
            _streams("--tee", args.tee),
            _shown(args.local_ranks_filter),
        ),
        monitor_interval=args.monitor_interval,
        join_timeout=join_timeout(args.rdzv_conf),
        least_nodes=least,
        max_lost_ranks=args.max_lost_ranks,
        last_call=seconds_in(args.rdzv_conf, "last_call_timeout", 30.0),
        lost=seconds_in(args.rdzv_conf, "keep_alive_interval", 5.0)
        * seconds_in(args.rdzv_conf, "keep_alive_max_attempt", 3.0),
    )
    return Agent(job)


def main(args: list[str] | None = None) -> None:
    """The program of the command line; ends the process."""
    parsed = parse_args(args)
    try:
        agent = _agent(parsed)
    except ValueError as error:
        get_args_parser().error(str(error))
    try:
        code = agent.run()
    except ValueError as error:  # what the other machines were told differs
        get_args_parser().error(str(error))
    except DistError as error:
        sys.exit(f"rushlight.distributed.run: {error}; jobs that run at one time need ports of "
                 "their own (--standalone, --master-port)")  # fmt: skip
    except OSError as error:
        sys.exit(f"rushlight.distributed.run: the program cannot be started: {error}")
    sys.exit(code)


if __name__ == "__main__":
    main()
