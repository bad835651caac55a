"""Averages of weights: stochastic weight averaging, and exponential moving averages."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import Any, Literal, TypeAlias

from rushlight import _C
from rushlight._C import Tensor
from rushlight.autograd import no_grad
from rushlight.nn.modules.module import Module
from rushlight.optim.lr_scheduler.base import LRScheduler, per_group
from rushlight.optim.optimizer import Optimizer
from rushlight.types import Device
from rushlight.utils._foreach_utils import _copy_tensors, _in_one_pass

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

# (averages, what they move to, how many models they are of so far)
_Average: TypeAlias = Callable[[Tensor, Tensor, Tensor | int], Tensor]
_MultiAverage: TypeAlias = Callable[[Sequence[Tensor], Sequence[Tensor], Tensor | int], None]


def _check_decay(name, decay):
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"{name}: decay must be in [0, 1], got {decay}")


def _move_towards(averages, values, weight):
    weights = ([weight], ()) if isinstance(weight, Tensor) else ((), [weight])
    if _in_one_pass(_C._list_map_, "lerp", averages, values, *weights, ()):
        return
    for average, value in zip(averages, values, strict=True):
        if average.is_floating_point() or average.is_complex():
            average.lerp_(value, weight)
        else:
            average.copy_(average * (1 - weight) + value * weight)


def get_ema_multi_avg_fn(decay: float = 0.999) -> _MultiAverage:
    """An exponential moving average, for lists of tensors.

    Arguments:
        decay: how much of the average stays.

    Example:
        >>> averages = [rl.tensor(1.0)]
        >>> optim.swa_utils.get_ema_multi_avg_fn(decay=0.9)(averages, [rl.tensor(2.0)], 5)
        >>> averages
        [tensor(1.1000)]
    """
    _check_decay("get_ema_multi_avg_fn", decay)

    @no_grad()
    def ema_update(ema_param_list, current_param_list, _):
        _move_towards(ema_param_list, current_param_list, 1 - decay)

    return ema_update


def get_swa_multi_avg_fn() -> _MultiAverage:
    """The mean of all so far, for lists of tensors.

    Example:
        >>> averages = [rl.tensor(1.0)]
        >>> optim.swa_utils.get_swa_multi_avg_fn()(averages, [rl.tensor(4.0)], 2)
        >>> averages
        [tensor(2.)]
    """

    @no_grad()
    def swa_update(averaged_param_list, current_param_list, num_averaged):
        # Without a look at the number, which may be on a GPU; in double, whatever it is.
        if isinstance(num_averaged, Tensor):
            num_averaged = num_averaged.double()
        _move_towards(averaged_param_list, current_param_list, 1 / (num_averaged + 1))

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> _Average:
    """An exponential moving average, for one tensor.

    Arguments:
        decay: how much of the average stays.

    Example:
        >>> average = optim.swa_utils.get_ema_avg_fn(decay=0.9)
        >>> average(rl.tensor(1.0), rl.tensor(2.0), 5)
        tensor(1.1000)
    """
    _check_decay("get_ema_avg_fn", decay)

    @no_grad()
    def ema_update(ema_param, current_param, num_averaged):
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> _Average:
    """The mean of all so far, for one tensor.

    Example:
        >>> average = optim.swa_utils.get_swa_avg_fn()
        >>> average(rl.tensor(1.0), rl.tensor(4.0), 2)
        tensor(2.)
    """

    @no_grad()
    def swa_update(averaged_param, current_param, num_averaged):
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of the model's.

    Arguments:
        model: the model whose parameters are averaged.
        device: where the copy lies; None is where the model does.
        avg_fn: of (average, parameter, number of averages); None is the mean.
        multi_avg_fn: the same for lists of tensors.
        use_buffers: average buffers as well.

    Example:
        >>> model = nn.Linear(1, 1, bias=False)
        >>> average = optim.swa_utils.AveragedModel(model, use_buffers=True)
        >>> for value in (1.0, 3.0):
        ...     _ = nn.init.constant_(model.weight, value)
        ...     average.update_parameters(model)
        >>> average.module.weight
        Parameter containing:
        tensor([[2.]], requires_grad=True)
    """

    _counted: tuple[Tensor, int] | None = None  # n_averaged and its version, after an update

    def __init__(
        self,
        model: Module,
        device: Device = None,
        avg_fn: Callable[..., Tensor] | None = None,
        multi_avg_fn: Callable[..., None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("AveragedModel: give avg_fn or multi_avg_fn, not both")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", _C.tensor(0, dtype=_C.int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the averaged model makes of its input."""
        return self.module(*args, **kwargs)

    @no_grad()
    def update_parameters(self, model: Module) -> None:
        """Takes the model's present parameters into the averages."""
        ours, theirs = self._pairs(model)
        if self._is_first():
            _copy_tensors(ours, theirs)
        elif self.avg_fn is not None:
            for average, value in zip(ours, theirs, strict=True):
                n = self.n_averaged.to(average.device)
                average.copy_(self.avg_fn(average, value, n))
        elif ours:
            update = self.multi_avg_fn or get_swa_multi_avg_fn()
            for a, b in _by_device_and_dtype(ours, theirs):
                update(a, b, self.n_averaged.to(a[0].device))
        if not self.use_buffers:
            buffers = zip(self.module.buffers(), model.buffers(), strict=True)
            pairs = [(a.detach(), b.detach().to(a.device)) for a, b in buffers]
            _copy_tensors([a for a, _ in pairs], [b for _, b in pairs])
        self.n_averaged += 1
        n = self.n_averaged
        self._counted = None if n.is_inference() else (n, n._version)

    def _is_first(self):
        # Reading the number from a GPU would wait for it; as we have left it, it is not 0.
        if self._counted is not None:
            n, version = self._counted
            if n is self.n_averaged and n._version == version:
                return False
        return int(self.n_averaged) == 0

    def _pairs(self, model):
        ours, theirs = self.module.parameters(), model.parameters()
        if self.use_buffers:
            ours = itertools.chain(ours, self.module.buffers())
            theirs = itertools.chain(theirs, model.buffers())
        ours = [p.detach() for p in ours]
        theirs = [p.detach() for p in theirs]
        return ours, [t.to(o.device) for o, t in zip(ours, theirs, strict=True)]


def _by_device_and_dtype(ours, theirs):
    groups = {}
    for a, b in zip(ours, theirs, strict=True):
        lists = groups.setdefault((a.device, a.dtype), ([], []))
        lists[0].append(a)
        lists[1].append(b)
    return groups.values()


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: int | Device | None = None) -> None:
    """Computes the running statistics of all batch norms anew, from one pass over the loader.

    A batch that is a list or tuple counts by its first element.

    Arguments:
        loader: gives batches, or tuples that begin with one.
        model: the model, which is run in training mode without gradients.
        device: where batches are put; None leaves them.

    Example:
        >>> model = nn.BatchNorm1d(1)
        >>> optim.swa_utils.update_bn([rl.tensor([[1.0], [3.0]])], model, device="cpu")
        >>> model.running_mean
        tensor([2.])
    """
    from rushlight.nn.modules.batchnorm import _BatchNorm

    norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    if not norms:
        return
    was_training = model.training
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
    model.train()
    for norm in norms:
        norm.momentum = None  # a plain mean over the batches
    for batch in loader:
        batch = batch[0] if isinstance(batch, list | tuple) else batch
        model(batch if device is None else batch.to(device))
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """From the present rate to ``swa_lr`` in ``anneal_epochs`` epochs, and constant from there.

    Arguments:
        optimizer: whose learning rates are set.
        swa_lr: the rate to go to, one number or one per group.
        anneal_epochs: in how many epochs.
        anneal_strategy: 'cos' or 'linear'.
        last_epoch: the epoch to go on from; -1 starts afresh.

    Example:
        >>> optimizer = optim.SGD([rl.zeros(1)], lr=1.0)
        >>> scheduler = optim.swa_utils.SWALR(optimizer, 0.5, anneal_epochs=2,
        ...     anneal_strategy="linear")
        >>> optimizer.step(); scheduler.step(); scheduler.get_last_lr()
        [0.75]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float,
        anneal_epochs: int = 10,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        last_epoch: int = -1,
    ) -> None:
        for lr, group in zip(
            per_group("SWALR: swa_lr", optimizer, swa_lr), optimizer.param_groups, strict=True
        ):
            group["swa_lr"] = lr
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError("SWALR: anneal_strategy must be 'cos' or 'linear', "
                             f"not {anneal_strategy!r}")  # fmt: skip
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError("SWALR: anneal_epochs must be an int of at least 0, "
                             f"got {anneal_epochs}")  # fmt: skip
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def anneal_func(self, t: float) -> float:
        """How much of the way is done at the fraction t of the time."""
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self) -> list[float | Tensor]:
        """The rates after the present step."""
        self._check_caller()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        length = max(1, self.anneal_epochs)
        before = self.anneal_func(max(0, min(1, (step - 1) / length)))
        now = self.anneal_func(max(0, min(1, step / length)))
        rates = []
        for group in self.optimizer.param_groups:
            goal = group["swa_lr"]
            # The rate at the beginning follows from the present one.
            start = goal if before == 1 else (group["lr"] - before * goal) / (1 - before)
            rates.append(goal * now + start * (1 - now))
        return rates
