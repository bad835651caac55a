"""Pruning: parts of a parameter are held at zero by a mask.

A pruned parameter `name` becomes `name_orig`; `name_mask` is a buffer, and `name` their product,
made anew before each forward.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rushlight import _C
from rushlight._C import Tensor

if TYPE_CHECKING:
    from rushlight.nn.modules.module import Module

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured",
    "PruningContainer", "RandomStructured", "RandomUnstructured", "custom_from_mask",
    "global_unstructured", "identity", "is_pruned", "l1_unstructured", "ln_structured",
    "random_structured", "random_unstructured", "remove",
]  # fmt: skip


def _scores_of(t, importance_scores, name=""):
    """What elements of t are chosen by: t itself, unless scores of its shape are given."""
    if importance_scores is None:
        return t
    if importance_scores.shape != t.shape:
        raise AssertionError(
            f"prune: importance_scores must have the shape {name}{list(t.shape)}, got "
            f"{list(importance_scores.shape)}"
        )
    return importance_scores


class BasePruningMethod(ABC):
    """What a pruning method has to say: the mask, and what kind of mask it is.

    PRUNING_TYPE is 'unstructured' (single elements), 'structured' (whole slices of a dim) or
    'global'.

    Example:
        >>> class Negative(nn.utils.prune.BasePruningMethod):
        ...     PRUNING_TYPE = "unstructured"
        ...     def compute_mask(self, t, default_mask):
        ...         return default_mask * (t >= 0)
        >>> layer = nn.Linear(2, 2)
        >>> method = Negative.apply(layer, "weight")
        >>> (layer.weight >= 0).all()
        tensor(True)
    """

    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask of t, given the one that earlier methods left."""

    def apply_mask(self, module: Module) -> Tensor:
        """The parameter times its mask."""
        name = self._tensor_name
        if name is None:
            raise AssertionError(f"prune: {type(self).__name__} has not been applied to a module")
        mask, original = getattr(module, name + "_mask"), getattr(module, name + "_orig")
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def apply(cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None,
              **kwargs: Any) -> BasePruningMethod:  # fmt: skip
        """Prunes the parameter `name` of module; on top of what other methods pruned."""
        found = _methods(module, name)
        if len(found) > 1:
            raise AssertionError(f"prune: {name!r} has {len(found)} pruning hooks, not one")
        method = cls(*args, **kwargs)
        method._tensor_name = name
        original = getattr(module, name)
        importance_scores = _scores_of(original, importance_scores, f"of {name!r}, ")
        if found:
            ((key, old),) = found.items()
            container = old if isinstance(old, PruningContainer) else PruningContainer(old)
            container.add_pruning_method(method)
            del module._forward_pre_hooks[key]
            mask = container.compute_mask(importance_scores, getattr(module, name + "_mask"))
            module.register_buffer(name + "_mask", mask)
            method = container
        else:
            mask = method.compute_mask(
                importance_scores,
                _C.ones_like(original, memory_format=_C.contiguous_format).detach(),
            )
            module.register_parameter(name + "_orig", module._parameters.pop(name))
            module.register_buffer(name + "_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(
        self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None
    ) -> Tensor:
        """t with what this method prunes set to zero."""
        importance_scores = _scores_of(t, importance_scores)
        default_mask = _C.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(importance_scores, default_mask=default_mask)

    def remove(self, module: Module) -> None:
        """Makes the pruning permanent: the parameter gets its old name, with the zeros in it."""
        name = self._tensor_name
        weight = self.apply_mask(module)
        original = module._parameters.pop(name + "_orig")
        original.data = weight.data
        del module._buffers[name + "_mask"]
        if name in vars(module):
            delattr(module, name)
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Several methods, one after the other, for one parameter.

    Example:
        >>> layer = nn.Linear(4, 4)
        >>> for _ in range(2):
        ...     layer = nn.utils.prune.l1_unstructured(layer, "weight", amount=4)
        >>> hooks = list(layer._forward_pre_hooks.values())
        >>> isinstance(hooks[0], nn.utils.prune.PruningContainer), layer.weight_mask.sum()
        (True, tensor(8.))
    """

    PRUNING_TYPE = "container"

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[Any, ...] = ()
        methods = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
        for i, method in enumerate(methods):
            if i == 0 and isinstance(method, BasePruningMethod):
                self._tensor_name = method._tensor_name
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod | None) -> None:
        """One more, for the same parameter."""
        if method is not None and not isinstance(method, BasePruningMethod):
            raise TypeError(f"prune: {type(method).__name__} is not a BasePruningMethod")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                f"prune: a container for {self._tensor_name!r} cannot take a method for "
                f"{method._tensor_name!r}"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, index: int) -> BasePruningMethod:
        return self._pruning_methods[index]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The last method's mask of what the others left."""
        method, mask = self._pruning_methods[-1], default_mask
        mask = mask.to(dtype=t.dtype)
        if method.PRUNING_TYPE == "unstructured":
            left = mask == 1
        elif method.PRUNING_TYPE == "structured":
            dims = [d for d in range(t.dim()) if d != method.dim % t.dim()]
            kept = mask.sum(dims) != 0 if dims else mask != 0
            left = [slice(None)] * t.dim()
            left[method.dim] = kept  # type: ignore[assignment]
            left = tuple(left)
        elif method.PRUNING_TYPE == "global":
            left = (slice(None),) * t.dim()
        else:
            raise ValueError(f"prune: unknown PRUNING_TYPE {method.PRUNING_TYPE!r}")
        result = mask.clone()
        result[left] = method.compute_mask(t[left], default_mask=mask[left]).to(mask.dtype)
        return result


class Identity(BasePruningMethod):
    """Prunes nothing, but makes mask and product.

    Example:
        >>> layer = nn.Linear(2, 1)
        >>> method = nn.utils.prune.Identity.apply(layer, "weight")
        >>> layer.weight_mask
        tensor([[1., 1.]])
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask

    @classmethod
    def apply(cls, module: Module, name: str) -> BasePruningMethod:  # type: ignore[override]
        return super().apply(module, name)


class _Unstructured(BasePruningMethod):
    """Single elements, which `_chosen(t, count)` names."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: int | float) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count = _count(self.amount, t.nelement())
        mask = default_mask.clone(memory_format=_C.contiguous_format)
        if count:
            mask.view(-1)[self._chosen(t.detach(), count)] = 0
        return mask

    def _chosen(self, t, count):
        raise NotImplementedError


class RandomUnstructured(_Unstructured):
    """Elements at random; amount is a number of them, or a share from 0 to 1.

    Arguments:
        amount: how many elements, or which part of them (a float).

    Example:
        >>> layer = nn.Linear(2, 1)
        >>> method = nn.utils.prune.RandomUnstructured.apply(layer, "weight", amount=1)
        >>> layer.weight_mask.sum()
        tensor(1.)
    """

    def _chosen(self, t, count):
        return _C.rand_like(t).view(-1).topk(count).indices

    @classmethod
    def apply(cls, module: Module, name: str, amount: int | float) -> BasePruningMethod:  # type: ignore[override]
        return super().apply(module, name, amount=amount)


class L1Unstructured(_Unstructured):
    """The elements of least magnitude; amount is a number of them, or a share from 0 to 1.

    Arguments:
        amount: how many elements, or which part of them (a float).

    Example:
        >>> layer = nn.Linear(2, 1)
        >>> method = nn.utils.prune.L1Unstructured.apply(layer, "weight", amount=1)
        >>> layer.weight_mask.sum()
        tensor(1.)
    """

    def _chosen(self, t, count):
        return t.abs().reshape(-1).topk(count, largest=False).indices

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: int | float, importance_scores: Tensor | None = None
    ) -> BasePruningMethod:
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class RandomStructured(BasePruningMethod):
    """Whole slices of dim at random; amount is a number of them, or a share from 0 to 1.

    Arguments:
        amount: how many slices, or which part of them (a float).
        dim: along which dim.

    Example:
        >>> layer = nn.Linear(2, 4)
        >>> method = nn.utils.prune.RandomStructured.apply(layer, "weight", amount=1, dim=0)
        >>> layer.weight_mask.sum()
        tensor(6.)
        >>> nn.utils.prune.RandomStructured(0.5, dim=0).dim
        0
    """

    PRUNING_TYPE = "structured"

    def __init__(self, amount: int | float, dim: int = -1) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        _validate_structured_pruning(t)
        _validate_pruning_dim(t, self.dim)
        count = _count(self.amount, t.shape[self.dim])
        if count == 0:
            return default_mask
        order = _C.rand(t.shape[self.dim]).topk(count).indices
        return default_mask.to(t.dtype) * _without(t, self.dim, order)

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: int | float, dim: int = -1
    ) -> BasePruningMethod:
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(BasePruningMethod):
    """The slices of dim with the least n-norm; amount is a number of them, or a share.

    Arguments:
        amount: how many slices, or which part of them (a float).
        n: which norm.
        dim: along which dim.

    Example:
        >>> layer = nn.Linear(2, 4)
        >>> method = nn.utils.prune.LnStructured.apply(layer, "weight", amount=1, n=2, dim=0)
        >>> layer.weight_mask.sum()
        tensor(6.)
        >>> nn.utils.prune.LnStructured(0.5, 2, dim=0).dim
        0
    """

    PRUNING_TYPE = "structured"

    def __init__(self, amount: int | float, n: int, dim: int = -1) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount
        self.n = n
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        _validate_structured_pruning(t)
        _validate_pruning_dim(t, self.dim)
        size = t.shape[self.dim]
        count = _count(self.amount, size)
        if count == 0:
            return default_mask
        smallest = _compute_norm(t.detach(), self.n, self.dim).topk(count, largest=False)
        return default_mask.to(t.dtype) * _without(t, self.dim, smallest.indices)

    @classmethod
    def apply(  # type: ignore[override]
        cls,
        module: Module,
        name: str,
        amount: int | float,
        n: int,
        dim: int,
        importance_scores: Tensor | None = None,
    ) -> BasePruningMethod:
        return super().apply(
            module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores
        )


class CustomFromMask(BasePruningMethod):
    """A mask that the user made.

    Arguments:
        mask: ones where elements stay, zeros where they go.

    Example:
        >>> layer = nn.Linear(2, 1)
        >>> mask = rl.tensor([[1.0, 0.0]])
        >>> method = nn.utils.prune.CustomFromMask.apply(layer, "weight", mask=mask)
        >>> layer.weight[0, 1].item()
        0.0
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"prune: the mask must have shape {list(default_mask.shape)}, got "
                f"{list(self.mask.shape)}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module: Module, name: str, mask: Tensor) -> BasePruningMethod:  # type: ignore[override]
        return super().apply(module, name, mask=mask)


def identity(module: Module, name: str) -> Module:
    """Prunes nothing, but makes mask and product.

    Arguments:
        module: the module.
        name: of its parameter.

    Example:
        >>> nn.utils.prune.identity(nn.Linear(2, 1), "weight").weight_mask
        tensor([[1., 1.]])
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: int | float) -> Module:
    """Prunes elements at random.

    Arguments:
        module: the module.
        name: of its parameter.
        amount: how many elements, or which part of them (a float).

    Example:
        >>> layer = nn.utils.prune.random_unstructured(nn.Linear(4, 2), "weight", amount=3)
        >>> layer.weight_mask.sum()
        tensor(5.)
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: Module, name: str, amount: int | float, importance_scores: Tensor | None = None
) -> Module:
    """Prunes the elements of least magnitude.

    Arguments:
        module: the module.
        name: of its parameter.
        amount: how many elements, or which part of them (a float).
        importance_scores: magnitudes to go by; None is the parameter's.

    Example:
        >>> layer = nn.Linear(4, 1)
        >>> scores = rl.tensor([[4.0, 1.0, 3.0, 2.0]])
        >>> layer = nn.utils.prune.l1_unstructured(layer, "weight", amount=0.5,
        ...     importance_scores=scores)
        >>> layer.weight_mask
        tensor([[1., 0., 1., 0.]])
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: int | float, dim: int) -> Module:
    """Prunes slices of dim at random.

    Arguments:
        module: the module.
        name: of its parameter.
        amount: how many slices, or which part of them (a float).
        dim: the dim of slices.

    Example:
        >>> layer = nn.utils.prune.random_structured(nn.Linear(4, 2), "weight", amount=1, dim=0)
        >>> layer.weight_mask.sum()
        tensor(4.)
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module: Module, name: str, amount: int | float, n: int, dim: int,
                  importance_scores: Tensor | None = None) -> Module:  # fmt: skip
    """Prunes the slices of dim with the least n-norm.

    Arguments:
        module: the module.
        name: of its parameter.
        amount: how many slices, or which part of them (a float).
        n: which norm.
        dim: the dim of slices.
        importance_scores: magnitudes to go by; None is the parameter's.

    Example:
        >>> scores = rl.tensor([[1.0, 1.0], [5.0, 5.0]])
        >>> layer = nn.utils.prune.ln_structured(nn.Linear(2, 2), "weight", 1, n=2, dim=0,
        ...     importance_scores=scores)
        >>> layer.weight_mask
        tensor([[0., 0.],
                [1., 1.]])
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def global_unstructured(
    parameters: Any, pruning_method: Any, importance_scores: Tensor | None = None, **kwargs: Any
) -> None:
    """Prunes elements of several parameters, [(module, name), ...], as if they were one.

    Arguments:
        parameters: pairs of (module, name).
        pruning_method: a class, such as L1Unstructured.
        importance_scores: magnitudes by pair; None is the parameters'.
        kwargs: for the class, such as amount.

    Example:
        >>> a, b = nn.Linear(2, 2), nn.Linear(2, 2)
        >>> scores = {(a, "weight"): rl.ones(2, 2), (b, "weight"): 9 * rl.ones(2, 2)}
        >>> nn.utils.prune.global_unstructured(list(scores), nn.utils.prune.L1Unstructured,
        ...     scores, amount=4)
        >>> a.weight_mask.sum(), b.weight_mask.sum()
        (tensor(0.), tensor(4.))
    """
    if not hasattr(parameters, "__iter__"):
        raise TypeError("global_unstructured: parameters must be pairs of a module and a name")
    parameters = list(parameters)
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured: importance_scores must be a dict by (module, name)")

    def joined(tensors):
        return _C.cat([t.detach().reshape(-1) for t in tensors])

    values = joined(scores.get((m, n), getattr(m, n)) for m, n in parameters)
    masks = joined(
        getattr(m, n + "_mask", _C.ones_like(getattr(m, n).detach())) for m, n in parameters
    )
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    container.add_pruning_method(method)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            "global_unstructured: takes methods of PRUNING_TYPE 'unstructured', got "
            f"{method.PRUNING_TYPE!r} of {pruning_method.__name__}"
        )
    mask = container.compute_mask(values, masks)
    at = 0
    for module, name in parameters:
        param = getattr(module, name)
        custom_from_mask(module, name, mask[at : at + param.numel()].view_as(param))
        at += param.numel()


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prunes where mask is zero.

    Arguments:
        module: the module.
        name: of its parameter.
        mask: of the parameter's shape; zeros are pruned.

    Example:
        >>> layer = nn.utils.prune.custom_from_mask(nn.Linear(2, 1), "weight", rl.tensor([[1.0,
        ...     0.0]]))
        >>> layer.weight[0, 1]
        tensor(0., grad_fn=<SelectBackward0>)
    """
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: Module, name: str) -> Module:
    """Makes the pruning of a parameter permanent.

    Arguments:
        module: the module.
        name: of its parameter.

    Example:
        >>> layer = nn.utils.prune.custom_from_mask(nn.Linear(2, 1), "weight", rl.tensor([[1.0,
        ...     0.0]]))
        >>> layer = nn.utils.prune.remove(layer, "weight")
        >>> sorted(dict(layer.named_parameters()))
        ['bias', 'weight']
    """
    found = _methods(module, name)
    if not found:
        raise ValueError(
            f"prune.remove: parameter {name!r} of {type(module).__name__} is not pruned"
        )
    for key, method in found.items():
        method.remove(module)
        del module._forward_pre_hooks[key]
    return module


def is_pruned(module: Module) -> bool:
    """Is a parameter of the module, or of one inside it, pruned?

    Arguments:
        module: the module.

    Example:
        >>> layer = nn.Linear(2, 1)
        >>> before = nn.utils.prune.is_pruned(layer)
        >>> before, nn.utils.prune.is_pruned(nn.utils.prune.identity(layer, "bias"))
        (False, True)
    """
    return any(
        isinstance(hook, BasePruningMethod)
        for _, part in module.named_modules()
        for hook in part._forward_pre_hooks.values()
    )


def _methods(module, name):
    return {
        key: hook
        for key, hook in module._forward_pre_hooks.items()
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
    }


def _without(t, dim, indices):
    """Ones, but zeros in these slices of dim."""
    mask = _C.ones(t.shape, dtype=t.dtype, device=t.device)
    return mask.index_fill_(dim, indices, 0)


def _validate_pruning_amount_init(amount):
    if isinstance(amount, bool) or not isinstance(amount, (int, float)):
        raise TypeError(f"prune: amount must be a number, got {type(amount).__name__}")
    whole = isinstance(amount, int)
    if (whole and amount < 0) or (not whole and not 0.0 <= amount <= 1.0):
        raise ValueError(
            f"prune: amount must be a whole number from 0, or a share from 0.0 to 1.0, got {amount}"
        )


def _validate_pruning_amount(amount, tensor_size):
    if isinstance(amount, int) and amount > tensor_size:
        raise ValueError(f"prune: amount {amount} is more than there is to prune, {tensor_size}")


def _compute_nparams_toprune(amount, tensor_size):
    return amount if isinstance(amount, int) else round(amount * tensor_size)


def _count(amount, size):
    _validate_pruning_amount(amount, size)
    return _compute_nparams_toprune(amount, size)


def _validate_structured_pruning(t):
    if t.dim() <= 1:
        raise ValueError(
            f"prune: structured pruning takes tensors of more than one dim, got {list(t.shape)}"
        )


def _validate_pruning_dim(t, dim):
    if dim >= t.dim():
        raise IndexError(f"prune: dim {dim} is out of range for {t.dim()} dims")


def _compute_norm(t, n, dim):
    """The n-norm of every slice of dim."""
    dims = [d for d in range(t.dim()) if d != dim % t.dim()]
    return t.norm(n if n != math.inf else float("inf"), dims)
