"""loss_parallel: cross entropy of logits that are cut along the classes, without gathering them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import rushlight
from rushlight import distributed as dist
from rushlight._C import Tensor
from rushlight.autograd import Function
from rushlight.distributed._placements import Partial, Replicate, Shard, part_sizes
from rushlight.distributed.tensor._dtensor import DTensor, local_of, wrap

__all__ = ["loss_parallel"]

_NONE, _MEAN = 0, 1  # as nn.functional numbers reductions
_here = threading.local()


@contextlib.contextmanager
def loss_parallel() -> Iterator[None]:
    """A context in which ``cross_entropy`` of logits that are cut along the classes stays cut: the
    ranks exchange a maximum, a sum and a logit per sample in place of all logits.

    The input is a DTensor whose class dim one mesh dim cuts; other mesh dims may cut its other
    dims. The target has class numbers: a DTensor that lies as the input does without the classes,
    or, where nothing else is cut, a plain tensor that is the same on all ranks. ``weight`` is whole
    on all ranks; ``label_smoothing`` is not there. The loss lies as the target does with reduction
    "none"; reduced, it is a partial sum along mesh dims that cut samples, and replicated elsewhere.

    Example:
        >>> from rushlight.distributed.tensor import Shard, distribute_tensor, init_device_mesh
        >>> from rushlight.distributed.tensor.parallel import loss_parallel
        >>> def program(rank):
        ...     mesh = rl.distributed.init_device_mesh("cpu", (2,))
        ...     logits = distribute_tensor(rl.zeros(3, 8), mesh, [Shard(1)])
        ...     labels = rl.tensor([0, 5, 7])
        ...     with loss_parallel():
        ...         return rl.nn.functional.cross_entropy(logits, labels).full_tensor()
        >>> rl.distributed.simulate(2, program)[0]
        tensor(2.0794)
    """
    before = is_on()
    _here.on = True
    try:
        yield
    finally:
        _here.on = before


def is_on() -> bool:
    """Whether this thread is in the context."""
    return getattr(_here, "on", False)


class _CutCrossEntropy(Function):
    """-log softmax at the target, per sample; classes are dim 1, this rank's begin at ``first``."""

    @staticmethod
    def forward(ctx: Any, logits: Any, target: Any, first: int, group: Any) -> Any:
        largest = _over_classes(logits, group)
        shifted = logits - largest.unsqueeze(1)
        powers = shifted.exp()
        total = powers.sum(1)
        dist.all_reduce(total, group=group)
        here = (target >= first) & (target < first + logits.shape[1])
        place = rushlight.where(here, target - first, 0).unsqueeze(1)
        if logits.shape[1] == 0:
            picked = rushlight.zeros_like(total)
        else:
            picked = shifted.gather(1, place).squeeze(1) * here
        dist.all_reduce(picked, group=group)
        ctx.save_for_backward(powers / total.unsqueeze(1), place, here)
        return total.log() - picked

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        softmax, place, here = ctx.saved_tensors
        if softmax.shape[1]:
            softmax = softmax.scatter_add(1, place, -here.to(softmax.dtype).unsqueeze(1))
        return softmax * gradient.unsqueeze(1), None, None, None


def _over_classes(logits, group):
    """The largest logit of each sample, over all ranks."""
    if logits.shape[1] == 0:  # more ranks than classes
        shape = [n for dim, n in enumerate(logits.shape) if dim != 1]
        largest = rushlight.full(shape, -float("inf"), dtype=logits.dtype, device=logits.device)
    else:
        largest = logits.amax(1)
    dist.all_reduce(largest, dist.ReduceOp.MAX, group)
    return largest


def _target_placements(x, class_dim):
    """How the target lies, and which mesh dim cuts the classes."""
    cutting = [i for i, p in enumerate(x.placements) if isinstance(p, Shard) and p.dim == class_dim]
    if len(cutting) != 1 or any(isinstance(p, Partial) for p in x.placements):
        raise ValueError(
            "loss_parallel: exactly one mesh dim must cut the classes (dim "
            f"{class_dim}), and none may hold partial sums; the input has {x.placements}"
        )
    placements: list[Any] = []
    for p in x.placements:
        if isinstance(p, Shard) and p.dim != class_dim:
            placements.append(Shard(p.dim - (p.dim > class_dim)))
        else:
            placements.append(Replicate())
    return tuple(placements), cutting[0]


def _checked_target(target, x, placements, class_dim):
    shape = [n for dim, n in enumerate(x.shape) if dim != class_dim]
    if target.is_floating_point() or list(target.shape) != shape:
        raise ValueError(
            f"loss_parallel: the target must have class numbers of shape {shape}, got "
            f"{target.dtype} of {list(target.shape)}"
        )
    if isinstance(target, DTensor):
        return local_of(target.redistribute(x.device_mesh, placements))
    if any(isinstance(p, Shard) for p in placements):
        raise ValueError(
            "loss_parallel: samples are cut, so the target must be a DTensor with placements "
            f"{placements}"
        )
    return target


def cut_cross_entropy(
    input: Any, target: Any, weight: Any, reduction: int, ignore_index: int,
    label_smoothing: float, scores: bool,
) -> Any:  # fmt: skip
    """cross_entropy inside of loss_parallel, as nn.functional hands it on."""
    if not scores:
        raise NotImplementedError("loss_parallel: nll_loss is not there; use cross_entropy")
    if not isinstance(input, DTensor):
        raise TypeError("loss_parallel: the input must be a DTensor")
    if label_smoothing != 0:
        raise NotImplementedError("loss_parallel: label_smoothing is not there")
    class_dim = 1 if input.dim() > 1 else 0
    placements, mesh_dim = _target_placements(input, class_dim)
    labels = _checked_target(target, input, placements, class_dim)
    classes = input.shape[class_dim]
    _check_classes(labels, classes, ignore_index)
    mesh = input.device_mesh
    first = sum(part_sizes(classes, mesh.size(mesh_dim))[: mesh.get_local_rank(mesh_dim)])
    local = local_of(input)
    local, labels = (local, labels) if class_dim == 1 else (local[None], labels[None])
    used = labels != ignore_index
    safe = rushlight.where(used, labels, 0)
    losses = _CutCrossEntropy.apply(local, safe, first, mesh.get_group(mesh_dim))
    if weight is None:
        weights = used.to(losses.dtype)
    else:
        whole = weight.full_tensor() if isinstance(weight, DTensor) else weight
        weights = whole[safe] * used
    losses = losses * weights
    shape = [n for dim, n in enumerate(input.shape) if dim != class_dim]
    if reduction == _NONE:
        return wrap(losses if class_dim == 1 else losses[0], mesh, placements, shape)
    total = losses.sum()
    cut = [i for i, p in enumerate(placements) if isinstance(p, Shard)]
    if reduction == _MEAN:
        count = weights.sum()
        for dim in cut:
            dist.all_reduce(count, group=mesh.get_group(dim))
        total = total / count
    reduced = tuple(Partial() if i in cut else Replicate() for i in range(mesh.ndim))
    return wrap(total, mesh, reduced, ())


def _check_classes(labels: Tensor, classes: int, ignore_index: int) -> None:
    wrong = (labels != ignore_index) & ((labels < 0) | (labels >= classes))
    if bool(wrong.any()):
        raise IndexError(
            f"cross_entropy: a target is not below {classes}, the number of classes, nor "
            f"ignore_index {ignore_index}"
        )
