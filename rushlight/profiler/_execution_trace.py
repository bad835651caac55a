"""ExecutionTraceObserver: what ran as a graph of ops and tensors, in the layout of PyTorch's
execution traces, which simulators and replaying tools read."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
import time
from typing import Any

from rushlight import _C
from rushlight.types import FileLike, Self

__all__ = ["ExecutionTraceObserver"]

_SCHEMA = "1.1.1-chakra.0.0.4"
_OP, _EVALUATE, _APPLY, _RANGE, _THREAD = range(5)  # kinds, as the core numbers them
_SCOPES = {_OP: 0, _EVALUATE: 0, _APPLY: 1, _RANGE: 7, _THREAD: 7}  # RecordScope
_NOTHING = {"values": [], "shapes": [], "types": [], "strides": []}


def _name(kind: int, name: str) -> str:
    from rushlight.profiler._events import _EVALUATE as EVALUATE
    from rushlight.profiler._events import _FULL_NAMES, aten_name

    if kind == _OP:
        return aten_name(name)
    if kind == _THREAD:
        return "[pytorch|profiler|execution_trace|thread]"
    if kind == _RANGE:  # of a module: its path, and its class on a line of its own
        return name.replace("\n", " ")
    name = _FULL_NAMES.get(name, name)
    return name if kind == _APPLY else EVALUATE + name


def _attributes(number: int, raw: tuple[Any, ...]) -> list[dict[str, Any]]:
    (_, parent, kind, thread, name, overload, _, _, sequence, forward, forward_thread, _) = raw
    schema = f"{_name(kind, name)}{'.' if overload else ''}{overload}" if kind == _OP else ""
    values = (
        ("rf_id", "uint64", number),
        ("fw_parent", "uint64", forward or (parent if kind == _APPLY else 0)),
        ("seq_id", "int64", sequence),
        ("scope", "uint64", _SCOPES[kind]),
        ("tid", "uint64", thread),
        ("fw_tid", "uint64", forward_thread),
        ("op_schema", "string", schema),
        ("kernel_backend", "string", ""),
        ("kernel_file", "string", ""),
        ("tensor_range", "string", ""),
    )
    return [{"name": n, "type": t, "value": v} for n, t, v in values]


def _node(number: int, raw: tuple[Any, ...]) -> dict[str, Any]:
    node, parent, kind, _, name, _, inputs, outputs, *_ = raw
    return {"id": node, "name": _name(kind, name), "ctrl_deps": parent,
            "inputs": json.loads(inputs), "outputs": json.loads(outputs),
            "attrs": _attributes(number, raw)}  # fmt: skip


class ExecutionTraceObserver:
    """Writes the ops of a program, with the numbers of the tensors that go into them and come out
    of them, into a file of JSON (packed where its name ends in .gz).

    register_callback() names the file, start() and stop() bound what is recorded, and
    unregister_callback() writes it. Given to profile, it records what the profile does, and the
    file is there when the profile ends.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/trace.json"
        >>> observer = rl.profiler.ExecutionTraceObserver().register_callback(path)
        >>> with rl.profiler.profile(execution_trace_observer=observer):
        ...     _ = rl.ones(2) + 1
        >>> "aten::add" in open(path).read()
        True
    """

    def __init__(self) -> None:
        self._registered = False
        self._execution_trace_running = False
        self.extra_resources_collection = False
        self.resources_dir = ""
        self.output_file_path = ""
        self._trace: Any = None
        self._begun = 0

    def __del__(self) -> None:
        try:
            self.unregister_callback()
        except Exception:  # as the interpreter ends, what writes files may be gone
            pass

    @staticmethod
    def build_execution_trace_obs_from_env() -> ExecutionTraceObserver | None:
        """An observer that writes into a temporary file, where ENABLE_PYTORCH_EXECUTION_TRACE is 1;
        otherwise None."""
        if os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE", "0") != "1":
            return None
        handle, path = tempfile.mkstemp(suffix=".et.json")
        os.close(handle)
        made = ExecutionTraceObserver().register_callback(path)
        extras = os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE_EXTRAS", "0") == "1"
        made.set_extra_resource_collection(extras)
        return made

    def register_callback(self, output_file_path: FileLike) -> Self:
        """Names the file; nothing happens where there is one already."""
        if not self._registered:
            self.output_file_path = str(os.fspath(output_file_path))
            folder = os.path.dirname(self.output_file_path) or "."
            if not os.path.isdir(folder):
                raise FileNotFoundError(f"ExecutionTraceObserver: there is no folder {folder!r}")
            self._trace = _C._execution_trace_make()
            self._begun = time.monotonic_ns() // 1000
            self._registered = True
        return self

    def unregister_callback(self) -> None:
        """Stops, and writes the file."""
        if not self._registered:
            return
        self.stop()
        self._registered = False
        trace, self._trace = self._trace, None
        self._write(_C._execution_trace_take(trace))

    def _write(self, found):
        root = {"id": 1, "name": "[pytorch|profiler|execution_trace|process]", "ctrl_deps": 1,
                "inputs": _NOTHING, "outputs": _NOTHING,
                "attrs": _attributes(0, (1, 0, _THREAD, 0, "", "", "", "", -1, 0, 0, False)),
                }  # fmt: skip
        head = {"schema": _SCHEMA, "pid": os.getpid(), "time": time.strftime("%Y-%m-%d %H:%M:%S"),
                "start_ts": self._begun}  # fmt: skip
        opener: Any = gzip.open if self.output_file_path.endswith("gz") else open
        with opener(self.output_file_path, "wt", encoding="utf-8") as file:
            file.write(json.dumps(head)[:-1] + ', "nodes": [\n')
            for number, raw in enumerate(found):
                file.write(json.dumps(_node(number, raw)) + ",\n")
            file.write(json.dumps(root))
            file.write(f'\n], "finish_ts": {time.monotonic_ns() // 1000}}}\n')

    @property
    def is_registered(self) -> bool:
        """Whether a file is named that is not written yet."""
        return self._registered

    def is_running(self) -> bool:
        """Whether it records."""
        return self._execution_trace_running

    def start(self) -> None:
        """Records from now on, if a file is named."""
        if self._registered and not self._execution_trace_running:
            _C._execution_trace_start(self._trace)
            self._execution_trace_running = True

    def stop(self) -> None:
        """Records nothing more until start()."""
        if self._execution_trace_running:
            _C._execution_trace_stop(self._trace)
            self._execution_trace_running = False

    def cleanup(self) -> None:
        """Stops, and writes the file: what profile calls at its end."""
        self.unregister_callback()

    def get_output_file_path(self) -> str | None:
        """The file, or None where none was named."""
        return self.output_file_path or None

    def set_extra_resource_collection(self, val: bool) -> None:
        """Whether there is a folder for generated code beside the file. (Nothing is put there:
        fused passes need none to be read.)"""
        self.extra_resources_collection = bool(val)
        if val:
            self.get_resources_dir(can_create=True)

    def get_resources_dir(self, can_create: bool = False) -> str | None:
        """The folder beside the file, where it was asked for."""
        if not self.extra_resources_collection:
            return None
        if not self.resources_dir:
            path = self.get_resources_dir_for_et_path(self.output_file_path, create_dir=can_create)
            self.resources_dir = path or ""
        return self.resources_dir or None

    @staticmethod
    def get_resources_dir_for_et_path(trace_path: str, create_dir: bool = False) -> str | None:
        """The folder that belongs to a trace, if it is there or is to be made."""
        folder = os.path.splitext(trace_path)[0] + "_resources"
        if create_dir:
            os.makedirs(folder, exist_ok=True)
        return folder if os.path.isdir(folder) else None
