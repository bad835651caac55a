"""Transforms in forward mode: jvp, jacfwd, and hessian, which uses both."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any, Literal, overload

import rushlight
from rushlight import _C
from rushlight._C import Tensor
from rushlight.func._reverse import (
    as_argnums,
    basis_of,
    check_output_leaves,
    check_tensor_leaves,
    jacrev,
    replace_args,
    split_aux,
)
from rushlight.func._vmap import _name, check_randomness, vmap
from rushlight.utils._pytree import tree_flatten, tree_map_only, tree_unflatten


@contextlib.contextmanager
def forward_level():
    """A level of forward mode of its own: levels nest, and do not mix."""
    enabled = _C._is_fwd_grad_enabled()
    level = _C._enter_dual_level()
    _C._set_fwd_grad_enabled(True)
    try:
        yield level
    finally:
        _C._set_fwd_grad_enabled(enabled)
        _C._exit_dual_level()


def push(func, primals, tangents, has_aux, strict, where):
    """func at flat primals along flat tangents: (outputs, tangents, aux), outputs as func has."""
    with forward_level() as level:
        duals = [_C._make_dual(x, t, level) for x, t in zip(primals, tangents, strict=True)]
        outputs, aux = split_aux(func(duals), has_aux, where)
        flat, spec = check_output_leaves(outputs, where)
        values, derivatives = [], []
        for y in flat:
            value, tangent = _C._unpack_dual(y, level)
            if tangent is None:
                if strict:
                    raise RuntimeError(
                        f"{where}: an output does not depend on the inputs, and strict is True"
                    )
                tangent = rushlight.zeros_like(value)
            values.append(value)
            derivatives.append(tangent)
        aux = tree_map_only(Tensor, lambda x: _C._unpack_dual(x, level)[0], aux)
    return tree_unflatten(values, spec), tree_unflatten(derivatives, spec), aux


@overload
def jvp(
    func: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...], *,
    strict: bool = False, has_aux: Literal[False] = False,
) -> tuple[Any, Any]: ...  # fmt: skip
@overload
def jvp(
    func: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...], *,
    strict: bool = False, has_aux: Literal[True],
) -> tuple[Any, Any, Any]: ...  # fmt: skip
def jvp(
    func: Callable[..., Any],
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> tuple[Any, Any] | tuple[Any, Any, Any]:
    """``(func(*primals), derivative along tangents)``, and aux when the function returns one.

    Arguments:
        func: a function of tensors.
        primals: where, a tuple of tensors.
        tangents: the direction, of the same shapes.
        strict: raise where an output does not depend on an input.
        has_aux: func returns (output, aux).

    Example:
        >>> rl.func.jvp(rl.square, (rl.tensor(3.0),), (rl.tensor(1.0),), has_aux=False)
        (tensor(9.), tensor(6.))
    """
    where = f"jvp({_name(func)})"
    for name, value in (("primals", primals), ("tangents", tangents)):
        if not isinstance(value, tuple):
            raise RuntimeError(
                f"{where}: expected {name} to be a tuple, e.g. (x,), got {type(value).__name__}"
            )
    flat, spec = tree_flatten(primals)
    flat_tangents, tangent_spec = tree_flatten(tangents)
    if spec != tangent_spec:
        raise RuntimeError(
            f"{where}: expected primals and tangents to have the same structure, got {spec} and "
            f"{tangent_spec}"
        )
    if not flat:
        raise RuntimeError(f"{where}: no primals were given")
    check_tensor_leaves(primals, where, "primals")
    check_tensor_leaves(tangents, where, "tangents")
    outputs, derivatives, aux = push(
        lambda duals: func(*tree_unflatten(duals, spec)),
        flat, flat_tangents, has_aux, strict, where,
    )  # fmt: skip
    return (outputs, derivatives, aux) if has_aux else (outputs, derivatives)


def jacfwd(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    has_aux: bool = False,
    *,
    chunk_size: int | None = None,
    randomness: str = "error",
) -> Callable[..., Any]:
    """A function that returns the Jacobian of ``func``, column by column in forward mode.

    The result is that of ``jacrev``; forward mode is the better choice when there are more outputs
    than inputs.

    Arguments:
        func: a function of tensors.
        argnums: by which argument, or a tuple of them.
        has_aux: func returns (output, aux).
        chunk_size: so many columns at a time; None is all.
        randomness: as for vmap.

    Example:
        >>> rl.func.jacfwd(lambda x: x**2, argnums=0)(rl.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """
    check_randomness(randomness, "jacfwd")

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        where = f"jacfwd({_name(func)})"
        positions = as_argnums(argnums, len(args), where)
        chosen = tuple(args[n] for n in positions)
        check_tensor_leaves(chosen, where, "the inputs to differentiate by")
        inputs, in_spec = tree_flatten(chosen)
        seen = {}  # what every column has in common

        def column(*tangents):
            def run(duals):
                return func(
                    *replace_args(args, positions, tree_unflatten(duals, in_spec)), **kwargs
                )

            _, derivatives, aux = push(run, inputs, tangents, has_aux, False, where)
            flat, seen["spec"] = tree_flatten(derivatives)
            seen["aux"] = aux
            return tuple(flat)

        basis = basis_of(inputs)
        if basis[0].shape[0] == 0:
            raise RuntimeError(f"{where}: the inputs have no elements")
        columns = vmap(
            column, out_dims=-1, randomness=randomness, chunk_size=chunk_size, _linear=True
        )(*basis)

        def of_output(c):
            parts, start = [], 0
            for x in inputs:
                part = c.narrow(-1, start, x.numel())
                parts.append(part.reshape((*c.shape[:-1], *x.shape)))
                start += x.numel()
            tree = tree_unflatten(parts, in_spec)
            return tree if isinstance(argnums, tuple) else tree[0]

        jacobian = tree_unflatten([of_output(c) for c in columns], seen["spec"])
        return (jacobian, seen["aux"]) if has_aux else jacobian

    return wrapper


def hessian(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """A function that returns the second derivatives of ``func``: forward over reverse.

    Arguments:
        func: a function that returns one number.
        argnums: by which argument, or a tuple of them.

    Example:
        >>> rl.func.hessian(lambda x: (x**3).sum(), argnums=0)(rl.tensor([1.0, 2.0]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """``(func(*primals), jvp_fn)``: ``jvp_fn(*tangents)`` is the derivative at the primals.

    The function runs again for each call of jvp_fn, at the same primals.

    Arguments:
        func: a function of tensors.
        primals: where.

    Example:
        >>> value, push = rl.func.linearize(rl.square, rl.tensor(3.0))
        >>> push(rl.tensor(1.0))
        tensor(6.)
    """
    where = f"linearize({_name(func)})"
    if not primals:
        raise RuntimeError(f"{where}: no primals were given")
    check_tensor_leaves(primals, where, "primals")
    flat, spec = tree_flatten(primals)
    outputs = func(*primals)

    def jvp_fn(*tangents):
        flat_tangents, tangent_spec = tree_flatten(tangents)
        if tangent_spec != spec:
            raise RuntimeError(f"{where}: the tangents must have the structure of the primals")
        for x, t in zip(flat, flat_tangents, strict=True):
            if tuple(x.shape) != tuple(t.shape) or x.dtype != t.dtype:
                raise RuntimeError(
                    f"{where}: a tangent has shape {tuple(t.shape)} and dtype {t.dtype}, its "
                    f"primal has {tuple(x.shape)} and {x.dtype}"
                )
        return push(
            lambda duals: func(*tree_unflatten(duals, spec)),
            flat, flat_tangents, False, False, where,
        )[1]  # fmt: skip

    return outputs, jvp_fn
