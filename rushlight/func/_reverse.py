"""Transforms in reverse mode: grad, vjp, jacrev."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal, TypeVar, overload

import rushlight
from rushlight import _C
from rushlight._C import Tensor
from rushlight.autograd.grad_mode import enable_grad
from rushlight.func._vmap import _name, vmap
from rushlight.utils._pytree import tree_flatten, tree_map, tree_map_only, tree_unflatten

_T = TypeVar("_T")


def as_argnums(argnums, count, where):
    """argnums as a tuple of positions from 0."""
    given = argnums if isinstance(argnums, tuple) else (argnums,)
    if not given:
        raise RuntimeError(f"{where}: argnums must not be empty")
    out = []
    for n in given:
        if not isinstance(n, int) or isinstance(n, bool):
            raise RuntimeError(f"{where}: argnums must be ints, got {n!r}")
        if not -count <= n < count:
            raise RuntimeError(
                f"{where}: got argnum={n}, but only {count} positional inputs were given"
            )
        out.append(n % count)
    if len(set(out)) != len(out):
        raise RuntimeError(f"{where}: argnums must be unique, got {argnums}")
    return tuple(out)


def replace_args(args, positions, values):
    """args with other values at some positions."""
    args = list(args)
    for n, value in zip(positions, values, strict=True):
        args[n] = value
    return tuple(args)


def check_tensor_leaves(tree, where, what):
    for leaf in tree_flatten(tree)[0]:
        if not isinstance(leaf, Tensor):
            raise ValueError(f"{where}: {what} must hold tensors only, got {type(leaf).__name__}")


def grad_inputs(tree, where):
    """Every tensor of the tree, with a place of its own in the graph."""
    check_tensor_leaves(tree, where, "the inputs to differentiate by")
    return tree_map(_C._grad_input, tree)


class Recorded:
    """The outputs of a function, with what is needed to differentiate them by its inputs."""

    def __init__(self, inputs, outputs, keep):
        self.inputs, self.outputs = inputs, outputs
        # Does the graph lead to anything that the caller may differentiate by, too?
        self.beyond = keep and _C._reaches_beyond(outputs, inputs)

    def pull(self, cotangents, retain_graph=False):
        """The gradients of the inputs; zeros where an input was not used."""
        pairs = [(y, v) for y, v in zip(self.outputs, cotangents, strict=True) if y.requires_grad]
        create = rushlight.is_grad_enabled() and (
            self.beyond or any(v is not None and v.requires_grad for _, v in pairs)
        )
        found = [None] * len(self.inputs)
        if pairs:
            found = _C._grad(
                [y for y, _ in pairs],
                self.inputs,
                [v for _, v in pairs],
                retain_graph or create,
                create,
                True,
                True,
            )
        return [
            rushlight.zeros_like(x) if g is None else g
            for g, x in zip(found, self.inputs, strict=True)
        ]

    def release(self, tree):
        """Outputs for the caller: without the graph, unless somebody outside may need it."""
        return tree if self.beyond else tree_map_only(Tensor, _C._cut_graph, tree)


def record(func, args, positions, where):
    """Runs func on differentiable copies of some args: (outputs, flat copies, their TreeSpec)."""
    chosen = grad_inputs(tuple(args[n] for n in positions), where)
    flat, spec = tree_flatten(chosen)
    with enable_grad():
        outputs = func(*replace_args(args, positions, chosen))
    return outputs, flat, spec


def split_aux(outputs, has_aux, where):
    if not has_aux:
        return outputs, None
    if not (isinstance(outputs, tuple) and len(outputs) == 2):
        raise RuntimeError(
            f"{where}: with has_aux=True the function must return a tuple (output, aux), got "
            f"{type(outputs).__name__}"
        )
    return outputs


def grad_and_value(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Like ``grad``, but returns (gradient, value), or (gradient, (value, aux)).

    Arguments:
        func: a function that returns one number, or (number, aux) with has_aux.
        argnums: by which argument, or a tuple of them.
        has_aux: return aux as well.

    Example:
        >>> rl.func.grad_and_value(lambda x, y: x**2 * y, argnums=0)(rl.tensor(3.0), rl.tensor(2.0))
        (tensor(12.), tensor(18.))
    """

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        where = f"grad_and_value({_name(func)})"
        keep = rushlight.is_grad_enabled()
        positions = as_argnums(argnums, len(args), where)
        outputs, flat, spec = record(lambda *a: func(*a, **kwargs), args, positions, where)
        value, aux = split_aux(outputs, has_aux, where)
        if not isinstance(value, Tensor):
            raise RuntimeError(
                f"{where}: expected the function to return a tensor, got {type(value).__name__}"
            )
        if value.dim() != 0:
            raise RuntimeError(
                f"{where}: expected the function to return a scalar tensor, got one of shape "
                f"{tuple(value.shape)}; reduce it first, or use jacrev"
            )
        if value.is_complex():
            raise RuntimeError(f"{where}: the value must be real, got {value.dtype}")
        recorded = Recorded(flat, [value], keep)
        grads = tree_unflatten(recorded.pull([None]), spec)
        if not isinstance(argnums, tuple):
            grads = grads[0]
        value, aux = recorded.release(value), recorded.release(aux)
        return (grads, (value, aux)) if has_aux else (grads, value)

    return wrapper


def grad(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that returns the gradient of ``func``, which must return a scalar tensor.

    ``argnums`` says by which positional inputs (an int, or a tuple of ints); with ``has_aux`` the
    function returns (value, aux), and the result is (gradient, aux).

    Arguments:
        func: a function that returns one number, or (number, aux) with has_aux.
        argnums: by which argument, or a tuple of them.
        has_aux: return aux as well.

    Example:
        >>> rl.func.grad(lambda x, y: x**2 * y, argnums=1)(rl.tensor(3.0), rl.tensor(2.0))
        tensor(9.)
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        grads, value = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return wrapper


def check_output_leaves(outputs, where):
    flat, spec = tree_flatten(outputs)
    if not flat:
        raise RuntimeError(f"{where}: the function returned nothing to differentiate")
    for leaf in flat:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(
                f"{where}: expected the function to return only tensors, got {type(leaf).__name__}"
            )
    return flat, spec


@overload
def vjp(
    func: Callable[..., _T], *primals: Any, has_aux: Literal[False] = False
) -> tuple[_T, Callable[..., Any]]: ...
@overload
def vjp(
    func: Callable[..., Any], *primals: Any, has_aux: Literal[True]
) -> tuple[Any, Callable[..., Any], Any]: ...
def vjp(
    func: Callable[..., Any], *primals: Any, has_aux: bool = False
) -> tuple[Any, Callable[..., Any]] | tuple[Any, Callable[..., Any], Any]:
    """``(func(*primals), vjp_fn)``: ``vjp_fn(cotangents)`` gives the primals' gradients, a tuple.

    With ``has_aux`` the function returns (output, aux), and so does vjp: (output, vjp_fn, aux).

    Arguments:
        func: a function of tensors.
        primals: where.
        has_aux: func returns (output, aux).

    Example:
        >>> value, pull = rl.func.vjp(rl.square, rl.tensor(3.0), has_aux=False)
        >>> pull(rl.tensor(1.0))
        (tensor(6.),)
    """
    where = f"vjp({_name(func)})"
    if not primals:
        raise RuntimeError(f"{where}: no primals were given")
    keep = rushlight.is_grad_enabled()
    outputs, flat_inputs, in_spec = record(func, primals, range(len(primals)), where)
    outputs, aux = split_aux(outputs, has_aux, where)
    flat, spec = check_output_leaves(outputs, where)
    recorded = Recorded(flat_inputs, flat, keep)

    def vjp_fn(cotangents, retain_graph=True, create_graph=None):
        given, given_spec = tree_flatten(cotangents)
        if given_spec != spec:
            raise RuntimeError(
                f"{where}: the cotangents must have the structure of the outputs, {spec}, got "
                f"{given_spec}"
            )
        for y, v in zip(flat, given, strict=True):
            if not isinstance(v, Tensor):
                raise RuntimeError(f"{where}: cotangents must be tensors, got {type(v).__name__}")
            if tuple(y.shape) != tuple(v.shape):
                raise RuntimeError(
                    f"{where}: an output has shape {tuple(y.shape)}, its cotangent has shape "
                    f"{tuple(v.shape)}"
                )
        return tuple(tree_unflatten(recorded.pull(given, retain_graph=True), in_spec))

    released = recorded.release(outputs)
    return (released, vjp_fn, recorded.release(aux)) if has_aux else (released, vjp_fn)


def basis_of(flat):
    """For each tensor, the rows of the standard basis of all of them together."""
    total = sum(y.numel() for y in flat)
    out, start = [], 0
    for y in flat:
        rows = rushlight.zeros(total, y.numel(), dtype=y.dtype, device=y.device)
        rows.diagonal(-start).fill_(1)
        out.append(rows.view((total, *y.shape)))
        start += y.numel()
    return out


def jacrev(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """A function that returns the Jacobian of ``func``, row by row in reverse mode.

    The result has, for every output and every input of ``argnums``, a tensor of shape
    ``(*output.shape, *input.shape)``. ``chunk_size`` bounds how many rows are computed at once.

    Arguments:
        func: a function of tensors.
        argnums: by which argument, or a tuple of them.
        has_aux: func returns (output, aux).
        chunk_size: so many rows at a time; None is all.

    Example:
        >>> rl.func.jacrev(lambda x: x**2, argnums=0)(rl.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """
    if chunk_size is not None and not (isinstance(chunk_size, int) and chunk_size > 0):
        raise ValueError(f"jacrev: chunk_size must be None or a positive int, got {chunk_size!r}")

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        where = f"jacrev({_name(func)})"
        keep = rushlight.is_grad_enabled()
        positions = as_argnums(argnums, len(args), where)
        outputs, inputs, in_spec = record(lambda *a: func(*a, **kwargs), args, positions, where)
        outputs, aux = split_aux(outputs, has_aux, where)
        flat, out_spec = check_output_leaves(outputs, where)
        recorded = Recorded(inputs, flat, keep)

        def pull(*rows):
            return recorded.pull(rows, retain_graph=True)

        basis = basis_of(flat)
        if chunk_size == 1:
            rows = [pull(*(b[i] for b in basis)) for i in range(basis[0].shape[0])]
            columns = [rushlight.stack(column) for column in zip(*rows, strict=True)]
        elif basis[0].shape[0] == 0:
            columns = [x.new_zeros(0, *x.shape) for x in inputs]
        else:
            columns = vmap(pull, chunk_size=chunk_size, _linear=True)(*basis)

        def of_output(y, start):
            parts = [
                c.narrow(0, start, y.numel()).reshape((*y.shape, *x.shape))
                for c, x in zip(columns, inputs, strict=True)
            ]
            tree = tree_unflatten(parts, in_spec)
            return tree if isinstance(argnums, tuple) else tree[0]

        per_output, start = [], 0
        for y in flat:
            per_output.append(of_output(y, start))
            start += y.numel()
        jacobian = tree_unflatten(per_output, out_spec)
        return (jacobian, recorded.release(aux)) if has_aux else jacobian

    return wrapper
