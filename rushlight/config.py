"""Settings of the library, read and written while a program runs.

    rushlight.config.caching_allocator = False          # from here on
    with rushlight.config.patch(vectorization="avx2"):  # for the time of a block
        ...
    RUSHLIGHT_CONFIG="threads=1,huge_pages=off" python program.py

They change speed and memory, never results beyond rounding. docs/config.md lists them; so does
``print(rushlight.config.describe())``. A part of the library adds its own with ``register``.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from rushlight import _C

__all__ = [
    "Setting",
    "describe",
    "patch",
    "primitive_cache_stats",
    "register",
    "reset",
    "settings",
    "weight_layout_stats",
]

ENVIRONMENT = "RUSHLIGHT_CONFIG"
_WORDS = {
    **dict.fromkeys(["1", "on", "true", "yes"], True),
    **dict.fromkeys(["0", "off", "false", "no"], False),
}


@dataclass(frozen=True)
class Setting:
    """A setting: its name, its type, how it is read and written, and a line of documentation.

    Without ``read`` and ``write`` the value lies in Python only: ``config.value_of(name)``.

    Arguments:
        name: the attribute of rushlight.config that it becomes when it is registered.
        kind: ``bool``, ``int``, or a tuple of words of which it is one.
        doc: what it does, in a line.
        read: gives the value.
        write: takes a new value.

    Example:
        >>> level = rl.config.Setting("level", int, "How much is told.", read=lambda: 1)
        >>> level.checked("8"), level.read()
        (8, 1)
    """

    name: str
    kind: Any
    doc: str
    read: Callable[[], Any] | None = None
    write: Callable[[Any], None] | None = None

    def checked(self, value: Any) -> bool | int | str:
        """The value, if the setting can have it; texts as they come from the environment too."""
        if self.kind is bool:
            if isinstance(value, str):
                value = _WORDS.get(value.lower(), value)
            if not isinstance(value, bool):
                self._refuse("True or False", value)
        elif self.kind is int:
            if isinstance(value, str) and value.strip().lstrip("-").isdigit():
                value = int(value)
            if isinstance(value, bool) or not isinstance(value, int):
                self._refuse("an int", value)
        elif value not in self.kind:
            self._refuse(f"one of {', '.join(map(repr, self.kind))}", value)
        return value

    def _refuse(self, expected, value):
        wrong_kind = not isinstance(value, str | int)
        raise (TypeError if wrong_kind else ValueError)(
            f"config.{self.name}: expected {expected}, got {value!r}"
        )


_settings: dict[str, Setting] = {}
_values: dict[str, Any] = {}  # of the settings that lie in Python
_defaults: dict[str, Any] = {}


def register(setting: Any, default: Any = None) -> None:
    """Adds a setting; a ValueError where there is one of this name.

    Arguments:
        setting: a Setting.
        default: the value of one that lies in Python, without `read` and `write`.

    Example:
        >>> try:
        ...     rl.config.register(rl.config.Setting("threads", int, "Mine."), default=1)
        ... except ValueError as error:
        ...     print(error)
        config.register: there is a setting of the name 'threads'
    """
    if setting.name in _settings:
        raise ValueError(f"config.register: there is a setting of the name {setting.name!r}")
    if setting.read is None:
        _values[setting.name] = setting.checked(default)
    _settings[setting.name] = setting


def value_of(name: str) -> bool | int | str:
    """The value of a setting, by name."""
    if name not in _settings:
        raise AttributeError(
            f"rushlight.config has no setting {name!r}; there are {', '.join(sorted(_settings))}"
        )
    read = _settings[name].read
    return read() if read else _values[name]


def _assign(name, value):
    current = value_of(name)  # also says so when there is no such setting
    setting = _settings[name]
    value = setting.checked(value)
    _defaults.setdefault(name, current)
    if setting.write:
        setting.write(value)
    else:
        _values[name] = value


def settings() -> dict[str, bool | int | str]:
    """All settings by name, with their values now.

    Example:
        >>> "automatic_layout" in rl.config.settings()
        True
    """
    return {name: value_of(name) for name in _settings}


def reset(*names: Any) -> None:
    """Gives these settings, or all, the values that they had when the program began.

    Arguments:
        names: of settings; none means all.

    Example:
        >>> rl.config.reset("automatic_layout")
        >>> rl.config.settings()["automatic_layout"]
        True
    """
    for name in names or list(_defaults):
        value_of(name)
        if name in _defaults:
            _assign(name, _defaults[name])


@contextlib.contextmanager
def patch(**changes: Any) -> Iterator[None]:
    """Other settings for the time of a with block, or of a function that it decorates.

    They hold for the whole process: other threads see them as well.

    Arguments:
        changes: settings by name.

    Example:
        >>> with rl.config.patch(automatic_layout=False):
        ...     rl.config.settings()["automatic_layout"]
        False
    """
    old = {name: value_of(name) for name in changes}
    changes = {name: _settings[name].checked(value) for name, value in changes.items()}
    done = []
    try:
        for name, value in changes.items():
            _assign(name, value)
            done.append(name)
        yield
    finally:
        for name in reversed(done):
            _assign(name, old[name])


def describe() -> str:
    """A text with every setting, its value and what it does.

    Example:
        >>> rl.config.describe().count("automatic_layout") >= 1
        True
    """
    rows = [(f"{name} = {value!r}", _settings[name].doc) for name, value in settings().items()]
    width = max(len(left) for left, _ in rows)
    return "\n".join(f"{left:<{width}}  {doc}" for left, doc in rows)


def primitive_cache_stats() -> dict[str, int]:
    """Counters of the cache of oneDNN's primitives: entries, bytes, hits, misses, evictions.

    Example:
        >>> list(rl.config.primitive_cache_stats())
        ['entries', 'bytes', 'hits', 'misses', 'evictions']
    """
    return _C._primitive_cache_stats()


def weight_layout_stats() -> dict[str, int]:
    """Weights kept in oneDNN's layouts: copies and their bytes now, hits and fills so far.

    Example:
        >>> list(rl.config.weight_layout_stats())
        ['copies', 'bytes', 'hits', 'fills']
    """
    return _C._weight_layout_stats()


def _set_vectorization(level):
    _C._set_isa_level(level)
    opened = _C._onednn_level()
    if opened is not None and opened != level:
        warnings.warn(
            f"config.vectorization: our kernels use {level} from now on, but oneDNN keeps {opened},"
            " which it was opened with. Set it before the first product or convolution,"
            f" or run the program with RUSHLIGHT_ISA={level}",
            stacklevel=4,
        )


_kept_limit = _C._primitive_cache_limit()


def _set_primitive_cache(on):
    global _kept_limit
    if _C._primitive_cache_limit() > 0:
        _kept_limit = _C._primitive_cache_limit()
    _C._set_primitive_cache_limit(_kept_limit if on else 0)


for _setting in [
    Setting(
        "caching_allocator", bool,
        "Freed CPU memory is kept for the next tensor; off: every allocation is malloc's.",
        _C._caching_enabled, _C._set_caching_enabled,
    ),
    Setting(
        "huge_pages", bool,
        "CPU memory lies in huge pages: the first touch of a fresh tensor costs a tenth.",
        _C._huge_pages, _C._set_huge_pages,
    ),
    Setting(
        "threads", int,
        "Threads of one op on the CPU; the same as set_num_threads.",
        _C.get_num_threads, _C.set_num_threads,
    ),
    Setting(
        "vectorization", ("baseline", "avx2", "avx512"),
        "Instructions that the kernels use, at most those of the processor.",
        _C._isa_level, _set_vectorization,
    ),
    Setting(
        "onednn", bool,
        "oneDNN computes float32 and bfloat16 products and convolutions; off: our own loops.",
        _C._onednn_wanted, _C._set_onednn_wanted,
    ),
    Setting(
        "primitive_cache", bool,
        "What oneDNN compiled for a shape is kept; off: it is compiled at every call.",
        lambda: _C._primitive_cache_limit() > 0, _set_primitive_cache,
    ),
    Setting(
        "primitive_cache_limit", int,
        "Bytes that these may take; beyond that the least recently used ones go.",
        _C._primitive_cache_limit, _C._set_primitive_cache_limit,
    ),
    Setting(
        "weight_layouts", bool,
        "Weights of convolutions are kept in oneDNN's layouts until they change; off: they are"
        " brought there at every call.",
        _C._weight_layouts, _C._set_weight_layouts,
    ),
    Setting(
        "winograd", bool,
        "Float32 convolutions of 3 by 3 take fewer multiplications on the CPU where it pays; off:"
        " oneDNN adds up what each result reads.",
        _C._winograd, _C._set_winograd,
    ),
    Setting(
        "cuda_caching_allocator", bool,
        "Freed GPU memory is kept for the next tensor; off: every allocation is the driver's, which"
        " waits for the GPU. Can be changed while no tensor is there.",
        _C._cuda.is_caching, _C._cuda.set_caching,
    ),
    Setting(
        "cuda_expandable_segments", bool,
        "Pools of GPU memory grow by virtual memory, without gaps; off: by segments. For pools that"
        " have no memory yet.",
        _C._cuda.expandable_segments, _C._cuda.set_expandable_segments,
    ),
    Setting(
        "cuda_blocking", bool,
        "The host waits after every op on a GPU: errors come from the call that caused them.",
        _C._cuda.is_blocking, _C._cuda.set_blocking,
    ),
    Setting(
        "coalesce_launches", bool,
        "Where a GPU waits for the host, kernels are queued some at a time, as one graph.",
        _C._cuda.coalesces_launches, _C._cuda.set_coalesces_launches,
    ),
]:  # fmt: skip
    register(_setting)

register(
    Setting(
        "fused_optimizer", bool,
        "An optimiser's step is one pass over all parameters; off: tensor ops, one after another.",
    ),
    default=True,
)  # fmt: skip

register(
    Setting(
        "frozen_graphs", bool,
        "Frozen functions become CUDA graphs on a GPU; off: their ops are launched one by one.",
        _C._frozen_graphs, _C._set_frozen_graphs,
    )
)  # fmt: skip

# The switch of the layout that flows by itself, once the core has it.
if hasattr(_C, "_set_automatic_layout"):
    register(
        Setting(
            "automatic_layout", bool,
            "Convolutions run in channels-last and hand it on; off: tensors stay as they are.",
            _C._automatic_layout, _C._set_automatic_layout,
        )
    )  # fmt: skip


class _ConfigModule(ModuleType):
    """Settings are attributes of the module."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return value_of(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in globals() or name.startswith("__"):
            super().__setattr__(name, value)
        else:
            _assign(name, value)

    def __dir__(self) -> list[Any]:
        return sorted({*super().__dir__(), *_settings})


def _read_environment():
    for item in os.environ.get(ENVIRONMENT, "").split(","):
        if not item.strip():
            continue
        name, equals, value = (part.strip() for part in item.partition("="))
        if not equals or name not in _settings:
            raise ValueError(
                f"{ENVIRONMENT}: expected name=value with a name of {', '.join(sorted(_settings))},"
                f" got {item.strip()!r}"
            )
        _assign(name, value)
    _defaults.clear()


sys.modules[__name__].__class__ = _ConfigModule
_read_environment()
