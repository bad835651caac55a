"""detect_nan: training that stops at the first NaN and says where it came from.

Anomaly detection looks at every gradient of every op, which is too slow to leave on. Here a step is
looked at once, at its end: is the loss finite, and the norm of all gradients? Only when one is not,
the step runs again, from the same random numbers and the same weights, with every op looked at.
"""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any, cast

from rushlight import _C
from rushlight._C import Tensor
from rushlight.autograd.anomaly_mode import set_detect_anomaly
from rushlight.autograd.grad_mode import no_grad
from rushlight.types import _F

__all__ = ["NanError", "detect_nan"]

_WIDER = {_C.float16: _C.float32, _C.bfloat16: _C.float32}  # what half precision is summed in
_PLACE = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')


class NanError(FloatingPointError, RuntimeError):
    """A step made NaN or infinity. `op`, `module` and `line` say where, as far as it is known."""

    op: str | None = None
    module: str | None = None
    line: str | None = None


class _NotFinite(BaseException):
    """Leaves a step before it changes the weights."""

    def __init__(self, names: list[str]) -> None:
        self.names = names


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)


def _is_bad(tensor: Tensor) -> bool:
    if tensor.is_sparse:
        tensor = tensor._values()
    floating = tensor.is_floating_point() or tensor.is_complex()
    return floating and tensor.numel() > 0 and not bool(tensor.isfinite().all())


def _stacked(numbers: list[Tensor]) -> Iterator[Tensor]:
    """The numbers of each dtype as one tensor, so that a GPU is asked once."""
    for dtype in dict.fromkeys(n.dtype for n in numbers):
        yield _C.stack([n for n in numbers if n.dtype == dtype])


def _check_gradients(optimizer: Any, args: Any, kwargs: Any) -> None:
    """Before an optimiser's step: a sum that is finite has finite terms, and is quickly made."""
    groups = optimizer.param_groups
    if all(_C._list_is_finite(g["params"], True) for g in groups):
        return
    gradients = [p.grad for g in groups for p in g["params"] if p.grad is not None]
    with no_grad():
        place = gradients[0].device
        sums = [g.sum(dtype=_WIDER.get(g.dtype)).to(place) for g in gradients]
        if not any(map(_is_bad, _stacked(sums))):
            return
        # Large terms may have a sum that is not finite.
        names = [
            f"param_groups[{g}]['params'][{i}]"
            for g, group in enumerate(optimizer.param_groups)
            for i, p in enumerate(group["params"])
            if p.grad is not None and _is_bad(p.grad)
        ]
        if names:
            raise _NotFinite(names)


def _stop(optimizer: Any, args: Any, kwargs: Any) -> None:
    raise _NotFinite([])


def _error(text: str, op: str | None, module: str | None, line: str | None) -> NanError:
    inside = f" in {module}" if module else ""
    at = f" at {line}" if line else ""
    error = NanError(f"detect_nan: {text}{inside}{at}")
    error.op, error.module, error.line = op, module, line
    return error


def _modules_under_way() -> tuple[list[tuple[Any, str]], Callable[[], None]]:
    """The modules that are being called, the innermost last, with paths; and what ends it."""
    from rushlight.nn.modules import module as modules
    from rushlight.nn.modules._failure import path_between

    calls: list[tuple[Any, str]] = []

    def enter(module, args):
        if not calls:
            calls.append((module, type(module).__name__))
            return
        parent, above = calls[-1]
        below = path_between([parent, module])
        calls.append((module, f"{above}.{below}" if below else above))

    def leave(module, args, output):
        if calls:
            calls.pop()

    hooks = [modules.register_module_forward_pre_hook(enter),
             modules.register_module_forward_hook(leave, always_call=True)]  # fmt: skip

    def end():
        for hook in hooks:
            hook.remove()

    return calls, end


def _searched(step: Callable[..., Any], args: Any, kwargs: Any) -> NanError | None:
    """Runs the step again with every op looked at; what was found. The weights are not changed."""
    from rushlight.optim.optimizer import register_optimizer_step_pre_hook
    from rushlight.overrides import TorchFunctionMode
    from rushlight.profiler._lines import is_users, user_line

    calls, end = _modules_under_way()

    class Look(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            with _C.DisableTorchFunction(), no_grad():
                if any(map(_is_bad, _tensors(out))):
                    name = getattr(func, "__name__", str(func)).strip("_")
                    given = any(map(_is_bad, _tensors([args, kwargs])))
                    text = "gets NaN or infinity" if given else "makes NaN or infinity"
                    module = calls[-1][1] if calls else None
                    raise _error(f"{name} {text}", name, module, user_line())
            return out

    hook = register_optimizer_step_pre_hook(_stop)
    try:
        with warnings.catch_warnings(record=True) as told, set_detect_anomaly(True), Look():
            warnings.simplefilter("always")
            step(*args, **kwargs)
    except NanError as error:
        return error
    except _NotFinite:
        return None
    except RuntimeError as error:
        found = re.match(r"Function '(\w+)' returned nan", str(error))
        if not found:
            raise
        text = " ".join(str(w.message) for w in told if "Traceback of forward" in str(w.message))
        places = [place for place in _PLACE.findall(text) if is_users(place[0])]
        line = "{}({}): {}".format(*places[-1]) if places else None
        return _error(f"{found[1]} makes NaN in backward; its forward is", found[1], None, line)
    finally:
        hook.remove()
        end()
    return None


def _bad_results(result: Any) -> list[str]:
    tensors = [result] if type(result) is Tensor else list(_tensors(result))
    if _C._list_is_finite(tensors):
        return []
    with no_grad():
        return ["what the step returns"] if any(map(_is_bad, tensors)) else []


def detect_nan(step: _F) -> _F:
    """Makes a training step raise NanError when it makes NaN or infinity, with op, module and line.

        @rushlight.autograd.detect_nan
        def step(images, labels):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            return loss

    It looks at what the step returns, and at the gradients before an optimiser uses them: the
    weights stay as they were. A step that fails is run once more, so it must get its data as
    arguments; what it adds up beside tensors (running statistics, counters) it adds up twice.

    Arguments:
        step: the function; what it returns has to depend on tensors.

    Example:
        >>> @rl.autograd.detect_nan
        ... def step(x):
        ...     return x.log().sum()
        >>> step(rl.ones(2))
        tensor(0.)
    """

    from rushlight import cuda
    from rushlight._C import _cuda
    from rushlight.optim.optimizer import _global_pre_hooks

    get_state, on_gpu = _C.get_rng_state, _cuda.is_initialized

    # What is here runs once per step, when nothing of it is in the caches: it had better be little.
    @functools.wraps(step)
    def checked(*args, **kwargs):
        # A second run begins from the same random numbers.
        state, gpu_states = get_state(), cuda.get_rng_state_all() if on_gpu() else None
        hook = object()
        _global_pre_hooks[hook] = _check_gradients
        try:
            result = step(*args, **kwargs)
            names = _bad_results(result)
        except _NotFinite as found:
            names = found.names
        finally:
            del _global_pre_hooks[hook]
        if not names:
            return result
        _C.set_rng_state(state)
        if gpu_states is not None:
            cuda.set_rng_state_all(gpu_states)
        error = _searched(step, args, kwargs)
        if error is None:
            shown = ", ".join(names[:4]) + (" and others" if len(names) > 4 else "")
            error = _error(f"NaN or infinity in {shown}; the step, run again, made none that could "
                           "be seen op by op", None, None, None)  # fmt: skip
        raise error

    return cast(_F, checked)
