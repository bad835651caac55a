"""Scaling of gradients, so that small ones survive in float16."""

from __future__ import annotations

import collections.abc
import warnings
from collections import defaultdict
from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any, overload

from rushlight import _C
from rushlight._C import Tensor
from rushlight._functions.gradient_scaling import _amp_update_scale_
from rushlight.autograd import no_grad

if TYPE_CHECKING:
    from rushlight.optim.optimizer import Optimizer

__all__ = ["GradScaler", "OptState"]


class OptState(Enum):
    """What has been done for an optimiser since the last update()."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _fresh_state():
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class GradScaler:
    """Multiplies the loss by a factor, and takes it out of the gradients again before the step.

    ``scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()``. A step whose
    gradients are not finite is left out, and the factor shrinks; it grows after
    ``growth_interval`` good steps.

    Arguments:
        device: 'cuda' or 'cpu'.
        init_scale: the factor to begin with.
        growth_factor: it grows by this after growth_interval steps without inf or nan.
        backoff_factor: it shrinks by this after a step with one, which is left out.
        growth_interval: how many good steps.
        enabled: False makes everything pass through.

    Example:
        >>> layer = nn.Linear(2, 1)
        >>> optimizer = optim.SGD(layer.parameters(), lr=0.1)
        >>> scaler = rl.amp.GradScaler("cpu", init_scale=1024.0)
        >>> scaler.scale(layer(rl.ones(1, 2)).sum()).backward()
        >>> result = scaler.step(optimizer); scaler.update()
        >>> scaler.get_scale()
        1024.0
    """

    def __init__(self, device: str = "cuda", init_scale: float = 2.0**16,
                 growth_factor: float = 2.0, backoff_factor: float = 0.5,
                 growth_interval: int = 2000, enabled: bool = True) -> None:  # fmt: skip
        self._device = device
        self._enabled = enabled
        if enabled and device == "cuda":
            from rushlight import cuda

            if not cuda.is_available():
                warnings.warn("GradScaler: CUDA is not available; the scaler does nothing. "
                              "Use GradScaler('cpu') on the CPU", stacklevel=2)  # fmt: skip
                self._enabled = False
        if not self._enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError(f"GradScaler: growth_factor must be above 1, got {growth_factor}")
        if backoff_factor >= 1.0:
            raise AssertionError("GradScaler: backoff_factor must be below 1, "
                                 f"got {backoff_factor}")  # fmt: skip
        self._init_scale = init_scale
        self._scale: Any = None
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        self._growth_tracker: Any = None
        self._per_optimizer_states = defaultdict(_fresh_state)

    def _check_started(self, function):
        if self._scale is None or self._growth_tracker is None:
            raise AssertionError(f"GradScaler.{function}: nothing was scaled yet; call "
                                 "scaler.scale(loss) first")  # fmt: skip
        return self._scale, self._growth_tracker

    def _start(self, device):
        self._scale = _C.full((), self._init_scale, dtype=_C.float32, device=device)
        self._growth_tracker = _C.full((), self._init_growth_tracker, dtype=_C.int32, device=device)

    @overload
    def scale(self, outputs: Tensor) -> Tensor: ...
    @overload
    def scale(self, outputs: list[Tensor]) -> list[Tensor]: ...
    @overload
    def scale(self, outputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]: ...
    @overload
    def scale(self, outputs: Iterable[Tensor]) -> Iterable[Tensor]: ...
    def scale(self, outputs: Tensor | Iterable[Tensor]) -> Tensor | Iterable[Tensor]:
        """The tensor, or tensors in containers, times the factor."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self._scale is None:
                self._start(outputs.device)
            return outputs * self._scale.to(outputs.device)
        if isinstance(outputs, collections.abc.Iterable):
            scaled = map(self.scale, outputs)
            return type(outputs)(scaled) if isinstance(outputs, list | tuple) else scaled
        raise ValueError("GradScaler.scale: expected a tensor or an iterable of tensors, "
                         f"not {type(outputs).__name__}")  # fmt: skip

    @no_grad()
    def _unscale_grads_(self, optimizer, inv_scale, found_inf, allow_fp16):
        by_device = defaultdict(list)
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if not allow_fp16 and p.grad.dtype == _C.float16:
                    raise ValueError("GradScaler: float16 gradients cannot be unscaled without "
                                     "losing what scaling was for; keep the parameters in "
                                     "float32 and use autocast")  # fmt: skip
                by_device[p.grad.device].append(p.grad)
        found = {}
        for device, grads in by_device.items():
            found[device] = found_inf.to(device=device, copy=True)
            _C._list_unscale_(grads, found[device], inv_scale.to(device))
        return found

    def unscale_(self, optimizer: Optimizer) -> None:
        """Takes the factor out of the gradients, for whoever looks at them before step()."""
        if not self._enabled:
            return
        scale, _ = self._check_started("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError("GradScaler.unscale_: already called for this optimizer since the "
                               "last update()")  # fmt: skip
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("GradScaler.unscale_: it must come before step()")
        inv_scale = scale.double().reciprocal().float()
        found_inf = _C.zeros((), dtype=_C.float32, device=scale.device)
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, inv_scale, found_inf, False)
        state["stage"] = OptState.UNSCALED

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> float | None:
        """optimizer.step(), unless a gradient is not finite."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("GradScaler.step: closures are not supported, since the gradients "
                               "they compute would not be unscaled")  # fmt: skip
        self._check_started("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("GradScaler.step: already called for this optimizer since the last "
                               "update()")  # fmt: skip
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        if not state["found_inf_per_device"]:
            raise AssertionError("GradScaler.step: no parameter of this optimizer has a gradient")
        result = None
        if not any(found.item() for found in state["found_inf_per_device"].values()):
            result = optimizer.step(*args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    @no_grad()
    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Adapts the factor to what the steps have found, or sets it."""
        if not self._enabled:
            return
        scale, tracker = self._check_started("update")
        if new_scale is not None:
            self._set_scale(new_scale)
        else:
            found = [
                f.to(scale.device)
                for state in self._per_optimizer_states.values()
                for f in state["found_inf_per_device"].values()
            ]
            if not found:
                raise AssertionError("GradScaler.update: no step() or unscale_() came before")
            _amp_update_scale_(scale, tracker, sum(found[1:], found[0]), self._growth_factor,
                               self._backoff_factor, self._growth_interval)  # fmt: skip
        self._per_optimizer_states = defaultdict(_fresh_state)

    def _set_scale(self, new_scale):
        if isinstance(new_scale, float):
            self._scale.fill_(new_scale)
            return
        if (
            not isinstance(new_scale, Tensor)
            or new_scale.device.type != self._device
            or new_scale.numel() != 1
            or new_scale.requires_grad
        ):
            raise AssertionError("GradScaler.update: new_scale must be a float, or a tensor with "
                                 f"one element on {self._device} that requires no gradient"
                                 )  # fmt: skip
        self._scale.copy_(new_scale.reshape(()))

    def get_scale(self) -> float:
        """The factor; 1.0 when the scaler is off."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self) -> float:
        """What the factor is multiplied by when it grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Sets what the factor is multiplied by when it grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """What the factor is multiplied by when it shrinks."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Sets what the factor is multiplied by when it shrinks."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """How many good steps in a row let the factor grow."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Sets how many good steps in a row let the factor grow."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self):
        if not self._enabled:
            return 0
        if self._growth_tracker is None:
            return self._init_growth_tracker
        return int(self._growth_tracker)

    def is_enabled(self) -> bool:
        """Does the scaler do anything?"""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The factor and its rules, as plain numbers; empty when the scaler is off."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what state_dict() gave."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("GradScaler.load_state_dict: the state dict is empty; it may come "
                               "from a scaler with enabled=False")  # fmt: skip
        self._init_scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._scale is not None:
            self._scale.fill_(state_dict["scale"])
            self._growth_tracker.fill_(state_dict["_growth_tracker"])

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if self._enabled:
            if self._per_optimizer_states:
                raise AssertionError("GradScaler: it can be pickled between update() and the next "
                                     "step() only")  # fmt: skip
            state["_init_scale"] = self.get_scale()
            state["_init_growth_tracker"] = self._get_growth_tracker()
            state["_scale"] = None
            state["_growth_tracker"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def _check_inf_per_device(self, optimizer):
        scale, _ = self._check_started("_check_inf_per_device")
        state = self._per_optimizer_states[id(optimizer)]
        one = _C.ones((), dtype=_C.float32, device=scale.device)
        state["found_inf_per_device"] = self._unscale_grads_(
            optimizer, one, _C.zeros_like(one), True
        )
        return state["found_inf_per_device"]

    def _found_inf_per_device(self, optimizer):
        return self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
