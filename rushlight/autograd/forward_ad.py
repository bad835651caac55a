"""Forward mode: tensors that carry a tangent, and hand it on to what is computed from them.

with forward_ad.dual_level():
    y = f(forward_ad.make_dual(x, v))
    jvp = forward_ad.unpack_dual(y).tangent
"""

from __future__ import annotations

from typing import NamedTuple

from rushlight import _C
from rushlight._C import Tensor
from rushlight._names.missing import submodule_or_raise
from rushlight.autograd.grad_mode import _SetMode, _Switch

__all__ = [
    "UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual",
    "set_fwd_grad_enabled", "unpack_dual",
]  # fmt: skip

# The user's level counts from 0, as PyTorch's does; the core's counts from 1, and function
# transforms nest further ones.
_user_levels = []


class UnpackedDualTensor(NamedTuple):
    """What ``unpack_dual`` returns: the value, and its tangent or None."""

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Starts a level; tangents live until it is left. Better use ``with dual_level()``."""
    if _user_levels:
        raise RuntimeError(
            "enter_dual_level: nested forward mode is not supported by dual_level(); "
            "nest func.jvp instead"
        )
    _user_levels.append(_C._enter_dual_level())
    return len(_user_levels) - 1


def exit_dual_level(*, level: int | None = None) -> None:
    """Leaves the level: every tangent made in it disappears."""
    if not _user_levels:
        raise RuntimeError("exit_dual_level: no level was entered")
    if level is not None and level != len(_user_levels) - 1:
        raise RuntimeError(
            f"exit_dual_level: level {level} is not the one that was entered last, "
            f"{len(_user_levels) - 1}"
        )
    if _user_levels[-1] != _C._dual_level():
        raise RuntimeError("exit_dual_level: a func.jvp that runs inside must end first")
    _user_levels.pop()
    _C._exit_dual_level()


def _core_level(function, level):
    """The core's number of a user's level; None: the current one."""
    if level is None:
        # Inside a function transform its own level is the current one.
        return _C._dual_level()
    if not 0 <= level < len(_user_levels):
        raise RuntimeError(f"{function}: there is no level {level}")
    return _user_levels[level]


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A tensor with the values of ``tensor`` that carries ``tangent``."""
    for name, value in (("tensor", tensor), ("tangent", tangent)):
        if not isinstance(value, Tensor):
            raise TypeError(f"make_dual: '{name}' must be a Tensor, not {type(value).__name__}")
    core = _core_level("make_dual", level)
    if core < 1:
        raise RuntimeError(
            "make_dual: no level exists; call it inside `with forward_ad.dual_level():`"
        )
    return _C._make_dual(tensor, tangent, core)


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The value and the tangent of a dual tensor; the tangent is None where there is none."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"unpack_dual: expected a Tensor, not {type(tensor).__name__}")
    core = _core_level("unpack_dual", level)
    if core < 1:
        return UnpackedDualTensor(tensor, None)
    return UnpackedDualTensor(*_C._unpack_dual(tensor, core))


class dual_level(_Switch):
    """A level of forward mode for a block, or for every call of a decorated function."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *error: object) -> None:
        exit_dual_level()


class set_fwd_grad_enabled(_SetMode):
    """Switches forward mode on or off: at once, or for a block or function."""

    _is_enabled = staticmethod(_C._is_fwd_grad_enabled)
    _set_enabled = staticmethod(_C._set_fwd_grad_enabled)

    def _as_bool(self, mode):
        return bool(mode)


_set_fwd_grad_enabled = set_fwd_grad_enabled


def __getattr__(name):
    if name == "_current_level":  # how deep levels are nested, from 0; -1: there is none
        return _C._dual_level() - 1
    return submodule_or_raise(__name__, name)
