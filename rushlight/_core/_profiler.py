"""torch._C._profiler: what programs pass to profiles, or name ranges with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight._names.missing import names_missing_from
from rushlight.profiler._schedule import ProfilerActivity
from rushlight.profiler._settings import RecordScope, _ExperimentalConfig
from rushlight.profiler.profiler import record_function

__all__ = ["ProfilerActivity", "RecordScope", "_ExperimentalConfig", "_RecordFunctionFast"]


class _RecordFunctionFast(record_function):
    """record_function under the name of PyTorch's faster one; values are not kept."""

    def __init__(
        self,
        name: str,
        input_values: Sequence[Any] | None = None,
        keyword_values: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(name)


__getattr__ = names_missing_from(__name__)
