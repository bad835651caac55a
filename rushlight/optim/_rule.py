"""Optimisers whose step is one rule, run by one C++ pass over all parameters of a group.

The rules themselves stand in csrc/functors/optimizer.h, their numbers in
csrc/ops/optim/optimizer_rules.cpp. A class here says which options a rule gets, in which order, and
how the states of a parameter begin.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NoReturn, cast, overload

from rushlight import _C, config
from rushlight._C import Tensor, _cuda
from rushlight.autograd import no_grad
from rushlight.optim.optimizer import Optimizer, ParamsT, _Loss, _loss_of

_config_values = config._values

# Options of nearly every optimiser that came late to PyTorch; older checkpoints lack them.
SWITCHES = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

# Options that no rule takes when they are negative.
_AT_LEAST_0 = ("eps", "weight_decay", "momentum", "momentum_decay", "lr_decay",
               "initial_accumulator_value")  # fmt: skip


class SparseGradients(Exception):
    """Some parameters of a group, `params`, have sparse gradients. Nothing was done yet."""

    def __init__(self, params: tuple[Tensor, ...]) -> None:
        super().__init__("sparse gradients")
        self.params = params


def _step(*args):
    """A step for all parameters at once; or a list of those whose states are missing."""
    if _config_values["fused_optimizer"]:
        found = _C._optimizer_step(*args)
        if type(found) is tuple:
            raise SparseGradients(found)
        return found
    from rushlight.optim import _unfused

    _raise_if_sparse(args[1])
    return _unfused.step(*args)


def _raise_if_sparse(params):
    grads = ((p, p.grad) for p in params)
    sparse = tuple(p for p, g in grads if g is not None and g.layout is not _C.strided)
    if sparse:
        raise SparseGradients(sparse)


class RuleOptimizer(Optimizer):
    """Base of the optimisers that run by a rule."""

    _rule = ""  # the rule's name in csrc/ops/optim/optimizer_rules.cpp
    # The options that the rule gets, in its order; of pairs both numbers.
    _numbers: tuple[str, ...] = ()
    _scalars: tuple[str, ...] = ("step",)  # 0-d states
    _late_options: ClassVar = {}  # options that checkpoints of older versions lack

    def __init__(
        self,
        params: ParamsT,
        defaults: Any,
    ) -> None:
        name = type(self).__name__
        check_lr(name, defaults["lr"])
        check_at_least_0(name, **{key: defaults[key] for key in _AT_LEAST_0 if key in defaults})
        if "betas" in defaults:
            check_betas(name, defaults["betas"])
        if defaults.get("differentiable") and (defaults.get("foreach") or defaults.get("fused")):
            raise RuntimeError(
                f"{name}: differentiable=True does not go with foreach=True or fused=True, whose "
                "steps are not recorded"
            )
        if defaults.get("fused") and defaults.get("foreach"):
            raise RuntimeError(f"{name}: 'fused' and 'foreach' cannot both be True")
        super().__init__(params, defaults)

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for key, value in self._late_options.items():
                group.setdefault(key, value)
            for p in group["params"]:
                for key in self._scalars:
                    value = self.state[p].get(key) if p in self.state else None
                    if value is not None and not isinstance(value, Tensor):
                        self.state[p][key] = number(float(value))

    def _states(self, group):
        """The names of the states that are as large as the parameter."""
        raise NotImplementedError

    def _options(self, group):
        """The numbers of the rule, in its order."""
        found = []
        for name in self._numbers:
            value = group[name]
            found += value if isinstance(value, tuple | list) else (value,)
        return tuple(found)

    def _start(self, p, group):
        """Gives a parameter those states that it does not have yet."""
        state = self.state[p]
        for key in self._scalars:
            if state.get(key) is None:
                state[key] = number(0.0, p, group)
        for key in self._states(group):
            if state.get(key) is None:
                state[key] = _C.zeros_like(p, memory_format=_C.preserve_format)

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], _Loss]) -> _Loss: ...
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates the parameters; ``closure`` computes the loss anew and returns it."""
        loss = _loss_of(closure)
        for group in self.param_groups:
            try:
                self._step_group(group)
            except SparseGradients as found:
                self._step_with_sparse(group, found.params)
        return loss

    def _step_with_sparse(self, group, sparse):
        """A step of a group of which some parameters have sparse gradients."""
        if group.get("differentiable"):
            raise NotImplementedError(f"{type(self).__name__}: a step with sparse gradients is not "
                                      "recorded; use differentiable=False")  # fmt: skip
        of_sparse = {id(p) for p in sparse}
        self._step_group(
            {**group, "params": [p for p in group["params"] if id(p) not in of_sparse]}
        )
        with no_grad():
            for p in sparse:
                if p.grad is not None:
                    self._step_sparse(p, group)

    def _step_sparse(self, p, group):
        """A step of one parameter by its sparse gradient."""
        raise_for_sparse(self)

    def _step_group(self, group):
        states, options = self._states(group), self._options(group)
        params, step = group["params"], self._step_of(group)
        missing = step(self._rule, params, self.state, self._scalars, states, options)
        if missing is not None:
            self._start_all(missing, group)
            step(self._rule, params, self.state, self._scalars, states, options)

    def _step_of(self, group):
        """The function that takes a step; one that is recorded for a differentiable group."""
        if not group.get("differentiable"):
            return _step
        from rushlight.optim import _unfused

        _raise_if_sparse(group["params"])

        for key, value in group.items():
            for v in value if isinstance(value, tuple) else (value,):
                if isinstance(v, Tensor) and v.requires_grad:
                    raise NotImplementedError(
                        f"{type(self).__name__}: options are used as numbers: {key} requires grad "
                        "and would get none. Write the update with tensor operations instead"
                    )
        return _unfused.recorded_step

    def _lasting(self, params, group):
        """Where states begin: GPUs keep apart from them what a step needs beside them."""
        sizes = [(p.device.index, p.nbytes) for p in params if p.is_cuda]
        return _cuda.LastingMemory(sizes * len(self._states(group)))

    def _start_all(self, params, group):
        """Gives parameters the states that a step asked for."""
        if not _cuda.is_capturing():
            with self._lasting(params, group):
                for p in params:
                    self._start(p, group)
            return
        # States that begin inside the capture of a graph would begin anew at every replay.
        with _cuda.BesideCapture():
            for p in params:
                self._start(p, group)
                for key in self._scalars:
                    self.state[p][key] = self.state[p][key].to(p.device)


def raise_for_sparse(optimizer: Optimizer) -> NoReturn:
    """What most optimisers say to a sparse gradient."""
    name = type(optimizer).__name__
    raise RuntimeError(f"{name}: does not support sparse gradients; SparseAdam, SGD and Adagrad do")


class EachParameter(Optimizer):
    """Base of the optimisers that update one parameter after the other, by `_step_one`."""

    _takes_sparse = False

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], _Loss]) -> _Loss: ...
    @no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates the parameters; ``closure`` computes the loss anew and returns it."""
        loss = _loss_of(closure)
        for group in self.param_groups:
            for p in group["params"]:
                if (grad := p.grad) is None:
                    continue
                if grad.layout is not _C.strided and not self._takes_sparse:
                    raise_for_sparse(self)
                self._step_one(p, group)
        return loss

    def _step_one(self, p, group):
        raise NotImplementedError


def options(given: dict[str, Any], names: str) -> dict[str, Any]:
    """{name: value} of an optimiser's arguments, in PyTorch's order of them."""
    return {name: given[name] for name in names.split()}


def at_places_of(grad: Tensor, values: Tensor) -> Tensor:
    """A sparse tensor with other values at the places of a gradient."""
    from rushlight.sparse._tensor import with_values

    return with_values(cast(Any, grad), values)


def number(value: Any, p: Tensor | None = None, group: Any = None) -> Tensor:
    """A step count or another 0-d state of parameter p: on its device if the group is capturable
    (or fused), so that replays of a CUDA graph can move it on."""
    wide = _C.get_default_dtype() == _C.float64
    dtype = _C.float64 if wide else _C.float32
    if p is not None and p.is_cuda and (group.get("capturable") or group.get("fused")):
        return _C.full(
            (), value, dtype=_C.float32 if group.get("fused") else dtype, device=p.device
        )
    return _C.tensor(value, dtype=dtype)


def check(name: str, ok: Any, what: Any, value: Any) -> None:
    """Raises when an option is out of its range; nan is out of every range."""
    if not ok:
        raise ValueError(f"{name}: {what}, got {value}")


def check_lr(name: str, lr: Any) -> None:
    """Learning rates are numbers or tensors with one element, and not negative."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError(f"{name}: a tensor as lr must have one element, "
                         f"this one has shape {tuple(lr.shape)}")  # fmt: skip
    if not hasattr(lr, "__float__"):
        raise TypeError(f"{name}: lr must be a number or a tensor, got {type(lr).__name__}")
    check(name, lr >= 0.0, "lr must be at least 0", lr)


def check_betas(name: str, betas: Any) -> None:
    """Decay rates of running averages lie in [0, 1)."""
    for i in range(2):
        check(name, 0.0 <= betas[i] < 1.0, f"betas[{i}] must be in [0, 1)", betas[i])


def check_at_least_0(name: str, **options: Any) -> None:
    """Options that must not be negative."""
    for key, value in options.items():
        check(name, value >= 0.0, f"{key} must be at least 0", value)
