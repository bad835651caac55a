"""Derivatives of a function at a point: jacobian, hessian, and products with them.

These take the function and the point together; rushlight.func has the same as transforms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, overload

import rushlight
from rushlight import _C
from rushlight._C import Tensor
from rushlight.autograd.grad_mode import enable_grad

_Tensors: TypeAlias = Tensor | tuple[Tensor, ...]
_In = TypeVar("_In", Tensor, tuple[Tensor, ...])  # one tensor, or a tuple, as the inputs are
_Out = TypeVar("_Out", Tensor, tuple[Tensor, ...])  # the same for what the function returns

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def _as_tuple(value, where, what):
    """(was it a tuple?, tuple of tensors)"""
    is_tuple = isinstance(value, tuple)
    items = value if is_tuple else (value,)
    for i, item in enumerate(items):
        if not isinstance(item, Tensor):
            raise TypeError(
                f"{where}: {what} must be a Tensor or a tuple of Tensors, got "
                f"{type(item).__name__}" + (f" at index {i}" if is_tuple else "")
            )
    return is_tuple, items


def _prepared(inputs, create_graph):
    """Inputs with a place of their own in the graph; leaves unless a graph is to be made."""
    out = []
    for x in inputs:
        if create_graph and x.requires_grad:
            out.append(x.view_as(x))
        else:
            out.append(_C._cut_graph(x).requires_grad_(True))
    return tuple(out)


def _finished(tensors, create_graph):
    if isinstance(tensors, tuple):
        return tuple(_finished(t, create_graph) for t in tensors)
    return tensors if create_graph else _C._cut_graph(tensors)


def _shaped(value, is_tuple):
    return value if is_tuple else value[0]


def _checked_vectors(v, like, is_tuple, where):
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(
                f"{where}: v must be given, unless there is one tensor with one element"
            )
        return (rushlight.ones_like(like[0]),)
    _, v = _as_tuple(v, where, "v")
    if len(v) != len(like):
        raise RuntimeError(f"{where}: got {len(v)} vectors for {len(like)} tensors")
    for i, (a, b) in enumerate(zip(v, like, strict=True)):
        if tuple(a.shape) != tuple(b.shape):
            raise RuntimeError(
                f"{where}: entry {i} of v has shape {tuple(a.shape)}, expected {tuple(b.shape)}"
            )
    return tuple(v)


def _check_strict_output(outputs, inputs, where):
    for i, y in enumerate(outputs):
        if not y.requires_grad:
            raise RuntimeError(
                f"{where}: output {i} is independent of the inputs, which strict=True forbids"
            )
    del inputs


def _grad(outputs, inputs, grad_outputs, create_graph):
    used = [(y, g) for y, g in zip(outputs, grad_outputs, strict=True) if y.requires_grad]
    if not used:
        return (None,) * len(inputs)
    return _C._grad(
        [y for y, _ in used], list(inputs), [g for _, g in used], True, create_graph, True
    )


def _filled(grads, inputs, strict, create_graph, where, what="the output"):
    """Zeros for gradients that are missing; with strict, an error."""
    out = []
    for i, (g, x) in enumerate(zip(grads, inputs, strict=True)):
        if g is None:
            if strict:
                raise RuntimeError(
                    f"{where}: {what} is independent of input {i}, which strict=True forbids"
                )
            g = rushlight.zeros_like(x)
        elif strict and create_graph and not g.requires_grad:
            raise RuntimeError(
                f"{where}: the derivative with respect to input {i} is independent of the inputs, "
                "which strict=True with create_graph=True forbids"
            )
        out.append(g)
    return tuple(out)


def vjp(func: Callable[..., _Out], inputs: _In, v: _Tensors | None = None,
        create_graph: bool = False, strict: bool = False) -> tuple[_Out, _In]:  # fmt: skip
    """``(func(*inputs), v-weighted gradients of the inputs)``.

    Arguments:
        func: a function of the inputs.
        inputs: a tensor, or a tuple of them.
        v: weights of the outputs; not needed for one number.
        create_graph: let the result be differentiated.
        strict: raise where an output does not depend on an input.

    Example:
        >>> rl.autograd.functional.vjp(lambda x: x**2, rl.tensor([1.0, 2.0]), v=rl.tensor([1.0,
        ...     0.0]))
        (tensor([1., 4.]), tensor([2., 0.]))
    """
    where = "vjp"
    with enable_grad():
        is_inputs_tuple, inputs = _as_tuple(inputs, where, "inputs")
        inputs = _prepared(inputs, create_graph)
        is_outputs_tuple, outputs = _as_tuple(func(*inputs), where, "the outputs")
        if strict:
            _check_strict_output(outputs, inputs, where)
        v = _checked_vectors(v, outputs, is_outputs_tuple, where)
    with rushlight.set_grad_enabled(create_graph or rushlight.is_grad_enabled()):
        grads = _grad(outputs, inputs, v, create_graph)
        result = _filled(grads, inputs, strict, create_graph, where)
    return (
        _shaped(_finished(outputs, create_graph), is_outputs_tuple),
        _shaped(_finished(result, create_graph), is_inputs_tuple),
    )


def jvp(func: Callable[..., _Out], inputs: _In, v: _Tensors | None = None,
        create_graph: bool = False, strict: bool = False) -> tuple[_Out, _Out]:  # fmt: skip
    """``(func(*inputs), derivative of the outputs along v)``, by reverse mode twice.

    Arguments:
        func: a function of the inputs.
        inputs: a tensor, or a tuple of them.
        v: the direction; not needed for one number.
        create_graph: let the result be differentiated.
        strict: raise where an output does not depend on an input.

    Example:
        >>> rl.autograd.functional.jvp(lambda x: x**2, rl.tensor([1.0, 2.0]), v=rl.tensor([1.0,
        ...     0.0]))
        (tensor([1., 4.]), tensor([2., 0.]))
    """
    where = "jvp"
    with enable_grad():
        is_inputs_tuple, inputs = _as_tuple(inputs, where, "inputs")
        inputs = _prepared(inputs, create_graph)
        v = _checked_vectors(v, inputs, is_inputs_tuple, where)
        is_outputs_tuple, outputs = _as_tuple(func(*inputs), where, "the outputs")
        if strict:
            _check_strict_output(outputs, inputs, where)
        # The gradient is linear in these weights, and differentiating it by them gives J v.
        weights = tuple(rushlight.zeros_like(y, requires_grad=True) for y in outputs)
        grads = _grad(outputs, inputs, weights, True)
        grads = _filled(grads, inputs, strict, False, where)
        found = _grad(grads, weights, v, create_graph)
        result = _filled(found, outputs, strict, create_graph, where)
    return (
        _shaped(_finished(outputs, create_graph), is_outputs_tuple),
        _shaped(_finished(result, create_graph), is_outputs_tuple),
    )


def _jacobian_rows(outputs, inputs, create_graph, strict, vectorize, where):
    """For each output, for each input, the block of the Jacobian."""
    result = []
    for y in outputs:
        blocks = None
        if vectorize and y.numel() and y.requires_grad:
            basis = rushlight.eye(y.numel(), dtype=y.dtype, device=y.device)
            found = rushlight.autograd.grad(
                y, inputs, basis.view(y.numel(), *y.shape), retain_graph=True,
                create_graph=create_graph, allow_unused=True, is_grads_batched=True,
            )  # fmt: skip
            blocks = [
                rushlight.zeros(y.numel(), *x.shape, dtype=x.dtype, device=x.device)
                if g is None
                else g
                for g, x in zip(found, inputs, strict=True)
            ]
        elif y.numel():
            rows = []
            for j in range(y.numel()):
                unit = rushlight.zeros_like(y).reshape(-1)
                unit[j] = 1
                found = _grad((y,), inputs, (unit.view(y.shape),), create_graph)
                rows.append(_filled(found, inputs, strict, create_graph, where))
            blocks = [rushlight.stack(column) for column in zip(*rows, strict=True)]
        else:
            blocks = [x.new_zeros(0, *x.shape) for x in inputs]
        result.append(
            tuple(b.reshape((*y.shape, *x.shape)) for b, x in zip(blocks, inputs, strict=True))
        )
    return tuple(result)


@overload
def jacobian(
    func: Callable[..., Tensor], inputs: Tensor,
    create_graph: bool = False, strict: bool = False, vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Tensor: ...  # fmt: skip
@overload
def jacobian(
    func: Callable[..., Tensor], inputs: tuple[Tensor, ...],
    create_graph: bool = False, strict: bool = False, vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> tuple[Tensor, ...]: ...  # fmt: skip
@overload
def jacobian(
    func: Callable[..., tuple[Tensor, ...]], inputs: Tensor,
    create_graph: bool = False, strict: bool = False, vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> tuple[Tensor, ...]: ...  # fmt: skip
@overload
def jacobian(
    func: Callable[..., tuple[Tensor, ...]], inputs: tuple[Tensor, ...],
    create_graph: bool = False, strict: bool = False, vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> tuple[tuple[Tensor, ...], ...]: ...  # fmt: skip
def jacobian(
    func: Callable[..., Any], inputs: _Tensors,
    create_graph: bool = False, strict: bool = False, vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> _Tensors | tuple[tuple[Tensor, ...], ...]:  # fmt: skip
    """The Jacobian of ``func``: a tensor, or tuples by output and by input.

    Arguments:
        func: a function of the inputs.
        inputs: a tensor, or a tuple of them.
        create_graph: let the Jacobian be differentiated.
        strict: raise where an output does not depend on an input.
        vectorize: all rows at once, by vmap.
        strategy: 'reverse-mode' or 'forward-mode'.

    Example:
        >>> rl.autograd.functional.jacobian(lambda x: x**2, rl.tensor([1.0, 2.0]), vectorize=True)
        tensor([[2., 0.],
                [0., 4.]])
    """
    where = "jacobian"
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            "jacobian: strategy must be 'forward-mode' or 'reverse-mode', got " + repr(strategy)
        )
    if strict and vectorize:
        raise RuntimeError("jacobian: strict=True and vectorize=True are not supported together")
    is_inputs_tuple, given = _as_tuple(inputs, where, "inputs")
    if strategy == "forward-mode":
        if create_graph:
            raise NotImplementedError(
                "jacobian: create_graph=True is not supported with strategy='forward-mode'; use "
                "func.jacfwd"
            )
        if not vectorize:
            raise NotImplementedError("jacobian: strategy='forward-mode' needs vectorize=True")
        return _jacobian_forward(func, given, is_inputs_tuple, where)
    with enable_grad():
        inputs = _prepared(given, create_graph)
        is_outputs_tuple, outputs = _as_tuple(func(*inputs), where, "the outputs")
        if strict:
            _check_strict_output(outputs, inputs, where)
        rows = _jacobian_rows(outputs, inputs, create_graph, strict, vectorize, where)
    rows = _finished(rows, create_graph)
    rows = tuple(_shaped(row, is_inputs_tuple) for row in rows)
    return _shaped(rows, is_outputs_tuple)


def _jacobian_forward(func, inputs, is_inputs_tuple, where):
    from rushlight.func import jacfwd

    seen = {}

    def run(*args):
        seen["tuple"], outputs = _as_tuple(func(*args), where, "the outputs")
        return tuple(outputs)

    plain = [_C._cut_graph(x) for x in inputs]
    rows = jacfwd(run, argnums=tuple(range(len(plain))))(*plain)
    rows = tuple(_shaped(_finished(tuple(row), False), is_inputs_tuple) for row in rows)
    return _shaped(rows, seen["tuple"])


def _scalar_output(func, where):
    def run(*args):
        out = func(*args)
        is_tuple, items = _as_tuple(out, where, "the output")
        if is_tuple and len(items) != 1:
            raise RuntimeError(f"{where}: the function must return one tensor, got {len(items)}")
        if items[0].numel() != 1:
            raise RuntimeError(
                f"{where}: the function must return a single value, got shape "
                f"{tuple(items[0].shape)}"
            )
        return items[0].squeeze() if items[0].dim() else items[0]

    return run


@overload
def hessian(
    func: Callable[..., Tensor], inputs: Tensor,
    create_graph: bool = False, strict: bool = False, vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Tensor: ...  # fmt: skip
@overload
def hessian(
    func: Callable[..., Tensor], inputs: tuple[Tensor, ...],
    create_graph: bool = False, strict: bool = False, vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> tuple[tuple[Tensor, ...], ...]: ...  # fmt: skip
def hessian(
    func: Callable[..., Tensor], inputs: _Tensors,
    create_graph: bool = False, strict: bool = False, vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Tensor | tuple[tuple[Tensor, ...], ...]:  # fmt: skip
    """The second derivatives of ``func``, which returns one number.

    Arguments:
        func: a function of the inputs that returns one number.
        inputs: a tensor, or a tuple of them.
        create_graph: let the Hessian be differentiated.
        strict: raise where an output does not depend on an input.
        vectorize: all rows at once, by vmap.
        outer_jacobian_strategy: 'reverse-mode' or 'forward-mode'.

    Example:
        >>> rl.autograd.functional.hessian(lambda x: (x**3).sum(), rl.tensor([1.0, 2.0]),
        ...     vectorize=True)
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    where = "hessian"
    is_inputs_tuple, given = _as_tuple(inputs, where, "inputs")
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            "hessian: outer_jacobian_strategy must be 'forward-mode' or 'reverse-mode', got "
            + repr(outer_jacobian_strategy)
        )
    scalar = _scalar_output(func, where)

    def gradient(*args):
        if outer_jacobian_strategy == "forward-mode":
            args = tuple(x if x.requires_grad else _C._grad_input(x) for x in args)
        rows = jacobian(scalar, args, create_graph=True, strict=strict)
        return rows if isinstance(rows, tuple) else (rows,)

    result = jacobian(
        gradient, given, create_graph=create_graph, strict=strict, vectorize=vectorize,
        strategy=outer_jacobian_strategy,
    )  # fmt: skip
    return result if is_inputs_tuple else result[0][0]


def vhp(func: Callable[..., Tensor], inputs: _In, v: _Tensors | None = None,
        create_graph: bool = False, strict: bool = False) -> tuple[Tensor, _In]:  # fmt: skip
    """``(func(*inputs), v @ Hessian)``.

    Arguments:
        func: a function of the inputs that returns one number.
        inputs: a tensor, or a tuple of them.
        v: the vector; not needed for one number.
        create_graph: let the result be differentiated.
        strict: raise where an output does not depend on an input.

    Example:
        >>> rl.autograd.functional.vhp(lambda x: (x**3).sum(), rl.tensor([1.0, 2.0]), v=rl.ones(2))
        (tensor(9.), tensor([ 6., 12.]))
    """
    return _hessian_product("vhp", func, inputs, v, create_graph, strict, twice=False)


def hvp(func: Callable[..., Tensor], inputs: _In, v: _Tensors | None = None,
        create_graph: bool = False, strict: bool = False) -> tuple[Tensor, _In]:  # fmt: skip
    """``(func(*inputs), Hessian @ v)``; vhp costs less, and a Hessian is symmetric.

    Arguments:
        func: a function of the inputs that returns one number.
        inputs: a tensor, or a tuple of them.
        v: the vector; not needed for one number.
        create_graph: let the result be differentiated.
        strict: raise where an output does not depend on an input.

    Example:
        >>> rl.autograd.functional.hvp(lambda x: (x**3).sum(), rl.tensor([1.0, 2.0]), v=rl.ones(2))
        (tensor(9.), tensor([ 6., 12.]))
    """
    return _hessian_product("hvp", func, inputs, v, create_graph, strict, twice=True)


def _hessian_product(where, func, inputs, v, create_graph, strict, twice):
    with enable_grad():
        is_inputs_tuple, inputs = _as_tuple(inputs, where, "inputs")
        inputs = _prepared(inputs, create_graph)
        v = _checked_vectors(v, inputs, is_inputs_tuple, where)
        value = _scalar_output(func, where)(*inputs)
        if strict:
            _check_strict_output((value,), inputs, where)
        first = _grad((value,), inputs, (rushlight.ones_like(value),), True)
        first = _filled(first, inputs, strict, True, where)
        if twice:
            weights = tuple(rushlight.zeros_like(x, requires_grad=True) for x in inputs)
            second = _grad(first, inputs, weights, True)
            second = _filled(second, inputs, strict, False, where)
            found = _grad(second, weights, v, create_graph)
        else:
            found = _grad(first, inputs, v, create_graph)
        result = _filled(found, inputs, strict, create_graph, where)
    return _finished(value, create_graph), _shaped(_finished(result, create_graph), is_inputs_tuple)
