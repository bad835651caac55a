"""The old place of rushlight.profiler."""

import contextlib

from rushlight._names.missing import names_missing_from
from rushlight.profiler import profiler as _profiler
from rushlight.profiler.profiler import EventList, record_function

__all__ = ["EventList", "emit_itt", "emit_nvtx", "profile", "record_function"]


class profile(_profiler.profile):
    """Times a with block and what record_function names inside."""

    def __init__(self, enabled=True, *, use_cuda=False, use_device=None, **kwargs):
        known = ("record_shapes", "with_flops", "profile_memory", "with_stack", "with_modules")
        super().__init__(**{key: kwargs[key] for key in known if key in kwargs})
        self.enabled = enabled

    def __enter__(self):
        return super().__enter__() if self.enabled else self

    def __exit__(self, *error):
        return super().__exit__(*error) if self.enabled else False

    def table(self, sort_by=None, row_limit=100, **kwargs):
        """The averages as text."""
        return self.key_averages().table(sort_by=sort_by, row_limit=row_limit)

    def total_average(self):
        """All events as one."""
        return self.key_averages().total_average()

    @property
    def self_cpu_time_total(self):
        return self.key_averages().self_cpu_time_total

    def __str__(self):
        return self.table()


class emit_nvtx(contextlib.nullcontext):
    """A with block; there is no GPU profiler to tell about it."""

    def __init__(self, enabled=True, record_shapes=False):
        super().__init__()


class emit_itt(emit_nvtx):
    """A with block; there is no profiler to tell about it."""


__getattr__ = names_missing_from(__name__)
