"""The old place of rushlight.profiler."""

from __future__ import annotations

import contextlib
from typing import Any, Literal

from rushlight._names.missing import names_missing_from
from rushlight.profiler import profiler as _profiler
from rushlight.profiler.profiler import EventList, record_function
from rushlight.types import Self

__all__ = ["EventList", "emit_itt", "emit_nvtx", "profile", "record_function"]


class profile(_profiler.profile):
    """Times a with block and what record_function names inside."""

    def __init__(
        self, enabled: bool = True, *, use_cuda: bool = False, use_device: Any = None, **kwargs: Any
    ) -> None:
        known = ("record_shapes", "with_flops", "profile_memory", "with_stack", "with_modules")
        super().__init__(**{key: kwargs[key] for key in known if key in kwargs})
        self.enabled = enabled

    def __enter__(self) -> Self:
        return super().__enter__() if self.enabled else self

    def __exit__(self, *error: object) -> Literal[False]:
        return super().__exit__(*error) if self.enabled else False

    def table(self, sort_by: str | None = None, row_limit: int = 100, **kwargs: Any) -> str:
        """The averages as text."""
        return self.key_averages().table(sort_by=sort_by, row_limit=row_limit)

    def total_average(self) -> Any:
        """All events as one."""
        return self.key_averages().total_average()

    @property
    def self_cpu_time_total(self) -> Any:
        return self.key_averages().self_cpu_time_total

    def __str__(self) -> str:
        return self.table()


class emit_nvtx(contextlib.nullcontext):
    """A with block; there is no GPU profiler to tell about it."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        super().__init__()


class emit_itt(emit_nvtx):
    """A with block; there is no profiler to tell about it."""


__getattr__ = names_missing_from(__name__)
