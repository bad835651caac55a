"""torch._C._functorch: what the transforms of `func` tell about themselves. Batched tensors are the
only wrappers here: grad and jvp work on tensors as they are."""

import enum

from rushlight import _C
from rushlight._functorch.vmap import _add_batch_dim as _add_batch_dim
from rushlight._functorch.vmap import _remove_batch_dim as _remove_batch_dim
from rushlight._names.missing import names_missing_from

TransformType = enum.Enum("TransformType", "Torch Vmap Grad Jvp Functionalize", start=0)
RandomnessType = enum.Enum("RandomnessType", "Error Same Different", start=0)


class CInterpreter:
    """One transform that is under way."""

    def __init__(self, level):
        self._level = level

    def key(self):
        return TransformType.Vmap

    def level(self):
        return self._level


def is_batchedtensor(tensor):
    """Whether the tensor stands for many samples inside of vmap."""
    return _C._batch_level(tensor) > 0


is_functorch_wrapped_tensor = is_batchedtensor


def _no_wrapper(tensor):
    """False: there are no such wrappers."""
    return False


is_legacy_batchedtensor = is_gradtrackingtensor = is_functionaltensor = _no_wrapper
is_dead_tensor_wrapper = _no_wrapper


def get_unwrapped(tensor):
    """The tensor with all samples, along dim 0."""
    if not is_batchedtensor(tensor):
        raise RuntimeError("get_unwrapped: the tensor has no wrapper")
    return _C._batch_value(tensor)


def unwrap_if_dead(tensor):
    """The tensor itself."""
    return tensor


def maybe_get_level(tensor):
    """The level of vmap that a tensor belongs to, or -1."""
    return _C._batch_level(tensor) or -1


def maybe_get_bdim(tensor):
    """Where get_unwrapped has the samples: 0, or -1 without any."""
    return 0 if is_batchedtensor(tensor) else -1


def maybe_current_level():
    """How deep vmaps are nested here, or None."""
    return _C._vmap_level() or None


def current_level():
    """How deep vmaps are nested here."""
    if not _C._vmap_level():
        raise RuntimeError("current_level: no transform is under way")
    return _C._vmap_level()


def get_interpreter_stack():
    """The transforms that are under way, outermost first, or None."""
    return [CInterpreter(level) for level in range(1, _C._vmap_level() + 1)] or None


def peek_interpreter_stack():
    """The innermost transform that is under way, or None."""
    return CInterpreter(_C._vmap_level()) if _C._vmap_level() else None


def _vmap_increment_nesting(batch_size, randomness):
    """Enters a vmap and returns its level."""
    from rushlight.func._vmap import _RANDOMNESS, check_randomness

    check_randomness(randomness, "_vmap_increment_nesting")
    return _C._vmap_enter(batch_size, _RANDOMNESS[randomness], False)


def _vmap_decrement_nesting():
    """Leaves the innermost vmap and returns its level."""
    level = current_level()
    _C._vmap_exit()
    return level


_inplace_requires_grad_allowed = False


def set_inplace_requires_grad_allowed(allowed):
    """Kept, but nothing asks: requires_grad_() inside of a transform is an ordinary call."""
    global _inplace_requires_grad_allowed
    _inplace_requires_grad_allowed = bool(allowed)


def get_inplace_requires_grad_allowed():
    """What was set last."""
    return _inplace_requires_grad_allowed


__getattr__ = names_missing_from(__name__)
