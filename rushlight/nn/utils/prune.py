"""Pruning: parameters with a mask of zeros and ones.

A pruned parameter `weight` becomes a parameter `weight_orig`, a buffer `weight_mask`, and a plain
attribute `weight`, their product, formed anew before each forward.
"""

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable

from rushlight import _C, linalg

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]


class BasePruningMethod(ABC):
    """A way to choose what becomes zero; a subclass writes compute_mask and sets PRUNING_TYPE to
    "unstructured", "structured" or "global"."""

    _tensor_name: str

    def __call__(self, module, inputs):
        """The hook before forward: forms the pruned parameter."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t, default_mask):
        """The mask for t; what default_mask leaves out stays out."""

    def apply_mask(self, module):
        """The parameter times its mask."""
        name = self._tensor_name
        mask = getattr(module, name + "_mask")
        original = getattr(module, name + "_orig")
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def apply(cls, module, name, *args, importance_scores=None, **kwargs):
        """Prunes a parameter; one that is pruned already is pruned further."""
        method = cls(*args, **kwargs)
        method._tensor_name = name
        old = _method_of(module, name)
        original = getattr(module, name)
        if importance_scores is None:
            importance_scores = original
        elif importance_scores.shape != original.shape:
            raise AssertionError(
                f"prune: the scores have shape {list(importance_scores.shape)}, the parameter "
                f"{list(original.shape)}"
            )
        if old is None:
            default = _C.ones_like(importance_scores)
        else:
            default = getattr(module, name + "_mask").detach().clone()
            key = next(k for k, h in module._forward_pre_hooks.items() if h is old)
            del module._forward_pre_hooks[key]
            method = _joined(old, method, name)
        mask = method.compute_mask(importance_scores, default_mask=default)
        if old is None:
            del module._parameters[name]
            module.register_parameter(name + "_orig", original)
        module.register_buffer(name + "_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t, default_mask=None, importance_scores=None):
        """t with the chosen elements set to zero."""
        scores = t if importance_scores is None else importance_scores
        default = _C.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=default)

    def remove(self, module):
        """Makes the pruned values the parameter's own; the hook has to be taken off besides."""
        name = self._tensor_name
        weight = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original = module._parameters.pop(name + "_orig")
        original.data = weight.data
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


def _method_of(module, name):
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            return hook
    return None


def _joined(old, new, name):
    if not isinstance(old, PruningContainer):
        container = PruningContainer()
        container._tensor_name = name
        container.add_pruning_method(old)
        old = container
    old.add_pruning_method(new)
    return old


class PruningContainer(BasePruningMethod):
    """Several prunings of one parameter; each sees what the ones before left."""

    def __init__(self, *args):
        self._pruning_methods = ()
        if len(args) == 1 and not isinstance(args[0], Iterable):
            self._tensor_name = args[0]._tensor_name
        for method in args[0] if len(args) == 1 and isinstance(args[0], Iterable) else args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method):
        """Adds a method for the same parameter."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                f"PruningContainer: it prunes {self._tensor_name!r}, the method "
                f"{method._tensor_name!r}"
            )
        self._pruning_methods += (method,)

    def __len__(self):
        return len(self._pruning_methods)

    def __iter__(self):
        return iter(self._pruning_methods)

    def __getitem__(self, i):
        return self._pruning_methods[i]

    def compute_mask(self, t, default_mask):
        method, mask = self._pruning_methods[-1], default_mask.to(dtype=t.dtype)
        if method.PRUNING_TYPE == "unstructured":
            where = mask == 1
        elif method.PRUNING_TYPE == "structured":
            # Channels that are zero altogether are out of the game.
            others = [d for d in range(t.dim()) if d != method.dim % t.dim()]
            kept = mask.sum(others) != 0
            where = [slice(None)] * t.dim()
            where[method.dim] = kept
            where = tuple(where)
        elif method.PRUNING_TYPE == "global":
            where = (slice(None),) * t.dim()
        else:
            raise ValueError(f"PruningContainer: unknown PRUNING_TYPE {method.PRUNING_TYPE!r}")
        found = method.compute_mask(t[where], default_mask=mask[where])
        mask = mask.clone()
        mask[where] = found.to(dtype=mask.dtype)
        return mask


class Identity(BasePruningMethod):
    """Prunes nothing; gives the parameter its mask."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        return default_mask


def _check_amount(amount):
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"prune: amount must be a number, got {amount!r}")
    integral = isinstance(amount, numbers.Integral)
    if amount < 0 or (not integral and amount > 1.0):
        raise ValueError(f"prune: amount must be an int >= 0 or a float from 0 to 1, got {amount}")


def _count(amount, size):
    """How many of `size`: an int counts, a float is a share."""
    if isinstance(amount, numbers.Integral):
        if amount > size:
            raise ValueError(f"prune: amount {amount} is more than the {size} there are")
        return amount
    return round(amount * size)


class RandomUnstructured(BasePruningMethod):
    """Elements chosen at random."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount):
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t, default_mask):
        count = _count(self.amount, t.nelement())
        mask = default_mask.clone(memory_format=_C.contiguous_format)
        if count:
            mask.view(-1)[_C.randperm(t.nelement(), device=t.device)[:count]] = 0
        return mask


class L1Unstructured(BasePruningMethod):
    """The elements nearest to zero."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount):
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t, default_mask):
        count = _count(self.amount, t.nelement())
        mask = default_mask.clone(memory_format=_C.contiguous_format)
        if count:
            smallest = t.detach().abs().reshape(-1).topk(count, largest=False).indices
            mask.view(-1)[smallest] = 0
        return mask


class _Structured(BasePruningMethod):
    PRUNING_TYPE = "structured"

    def _zeroed(self, t, default_mask, channels):
        mask = _C.ones_like(t)
        where = [slice(None)] * t.dim()
        where[self.dim] = channels
        mask[tuple(where)] = 0
        return mask * default_mask.to(dtype=mask.dtype)


class RandomStructured(_Structured):
    """Whole channels along dim, chosen at random."""

    def __init__(self, amount, dim=-1):
        _check_amount(amount)
        self.amount, self.dim = amount, dim

    def compute_mask(self, t, default_mask):
        size = t.shape[self.dim]
        count = _count(self.amount, size)
        if not count:
            return default_mask
        return self._zeroed(t, default_mask, _C.randperm(size, device=t.device)[:count])


class LnStructured(_Structured):
    """The channels along dim with the smallest norm of order n."""

    def __init__(self, amount, n, dim=-1):
        _check_amount(amount)
        self.amount, self.n, self.dim = amount, n, dim

    def compute_mask(self, t, default_mask):
        count = _count(self.amount, t.shape[self.dim])
        if not count:
            return default_mask
        others = [d for d in range(t.dim()) if d != self.dim % t.dim()]
        norms = linalg.vector_norm(t.detach(), float(self.n), others)
        return self._zeroed(t, default_mask, norms.topk(count, largest=False).indices)

    @classmethod
    def apply(cls, module, name, amount, n, dim, importance_scores=None):
        return super().apply(
            module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores
        )


class CustomFromMask(BasePruningMethod):
    """A mask that is given."""

    PRUNING_TYPE = "global"

    def __init__(self, mask):
        self.mask = mask

    def compute_mask(self, t, default_mask):
        return default_mask * self.mask.to(dtype=default_mask.dtype)


def identity(module, name):
    """Gives a parameter a mask of ones."""
    Identity.apply(module, name)
    return module


def random_unstructured(module, name, amount):
    """Zeroes elements chosen at random: a number of them, or a share."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module, name, amount, importance_scores=None):
    """Zeroes the elements nearest to zero: a number of them, or a share."""
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module, name, amount, dim):
    """Zeroes channels along dim chosen at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module, name, amount, n, dim, importance_scores=None):
    """Zeroes the channels along dim with the smallest norm of order n."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module, name, mask):
    """Zeroes what a mask says."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(parameters, pruning_method, importance_scores=None, **kwargs):
    """Prunes several parameters, [(module, name), ...], as if they were one."""
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured: parameters must be (module, name) pairs")
    parameters = list(parameters)
    scores = importance_scores or {}
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured: importance_scores must be a dict")
    with_masks = [(m, n, getattr(m, n)) for m, n in parameters]
    flat = _C.cat([scores.get((m, n), t).reshape(-1) for m, n, t in with_masks])
    default = _C.cat(
        [getattr(m, n + "_mask", _C.ones_like(t)).reshape(-1) for m, n, t in with_masks]
    )
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    container.add_pruning_method(method)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f"global_unstructured: {pruning_method.__name__} is {method.PRUNING_TYPE}, not "
            "unstructured"
        )
    mask, start = container.compute_mask(flat, default), 0
    for module, name, t in with_masks:
        custom_from_mask(module, name, mask[start : start + t.numel()].view_as(t))
        start += t.numel()


def remove(module, name):
    """Makes pruning permanent: the parameter holds the pruned values and nothing else is left."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"prune.remove: parameter {name!r} of {type(module).__name__} is not pruned")


def is_pruned(module):
    """Whether a module, or one inside, has a pruned parameter."""
    return any(
        isinstance(hook, BasePruningMethod)
        for child in module.modules()
        for hook in child._forward_pre_hooks.values()
    )
