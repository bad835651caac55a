"""The two ways to ask for gradients; the work is done by the C++ engine."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence, ValuesView
from typing import Any, overload

from rushlight import _C
from rushlight._C import Tensor


def _are_of_values(tensors):
    """Is one of them sparse or nested, with values that take part in the graph in its place?"""
    return any(
        type(t) is not Tensor
        and isinstance(t, Tensor)
        and (t.layout is not _C.strided or t.is_nested)
        for t in tensors
    )


def _is_edge(value):
    return isinstance(value, tuple) and hasattr(value, "output_nr")  # a GradientEdge


def _as_list(function, name, value):
    if isinstance(value, Tensor) or _is_edge(value):
        return [value]
    try:
        return list(value)
    except TypeError:
        kind = type(value).__name__
        raise TypeError(
            f"{function}: '{name}' must be a tensor or a sequence of tensors, not {kind}"
        ) from None


def _edges(name, values):
    from rushlight.autograd.graph import get_gradient_edge

    edges = [get_gradient_edge(v) if isinstance(v, Tensor) else v for v in values]
    for e in edges:
        if not _is_edge(e):
            raise TypeError(f"grad: '{name}' must hold tensors or GradientEdges, not "
                            f"{type(e).__name__}")  # fmt: skip
    return [(e.node, e.output_nr) for e in edges]


def _grad_of_edges(outputs, inputs, grads, retain_graph, create_graph, allow_unused):
    """autograd.grad where some of the tensors are given as GradientEdges."""
    if grads is None:
        grads = [None] * len(outputs)
    if len(grads) != len(outputs):
        raise RuntimeError(f"grad: got {len(outputs)} outputs and {len(grads)} gradients")
    seeds = []
    for output, grad in zip(outputs, grads, strict=True):
        if grad is None and isinstance(output, Tensor) and output.numel() == 1:
            grad = _C.ones_like(output)
        if grad is None:
            raise RuntimeError("grad: a GradientEdge among the outputs needs a gradient in "
                               "grad_outputs")  # fmt: skip
        seeds.append(grad)
    return _C._grad_of_edges(_edges("outputs", outputs), seeds, _edges("inputs", inputs),
                             create_graph if retain_graph is None else retain_graph,
                             create_graph, allow_unused)  # fmt: skip


def backward(
    tensors: Sequence[Tensor],
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Adds the gradients of ``tensors`` to the ``.grad`` of the leaves they depend on.

    ``grad_tensors`` are the gradients of ``tensors`` themselves; None stands for one, and is only
    for tensors with one element. ``inputs`` names the tensors that shall get a gradient instead of
    all leaves; they need not be leaves.

    Arguments:
        tensors: what is differentiated, usually one loss.
        grad_tensors: a gradient of each that is not a single number.
        retain_graph: keep the graph for another call; None keeps it if create_graph is set.
        create_graph: record backward itself, for higher derivatives.
        inputs: add to the .grad of these only.

    Example:
        >>> x = rl.tensor([2.0], requires_grad=True)
        >>> rl.autograd.backward([x**2], [rl.ones(1)])
        >>> x.grad
        tensor([4.])
    """
    tensors = _as_list("backward", "tensors", tensors)
    if grad_tensors is not None:
        grad_tensors = _as_list("backward", "grad_tensors", grad_tensors)
    if inputs is not None:
        inputs = _as_list("backward", "inputs", inputs)
    if _are_of_values((*tensors, *(inputs or ()))):
        from rushlight.autograd._values import as_values

        tensors, grad_tensors = as_values(tensors, grad_tensors)
        inputs = None if inputs is None else as_values(inputs, None)[0]
    _C._backward(tensors, grad_tensors, retain_graph, create_graph, inputs)


def _batched_grad(outputs, inputs, grads, retain_graph, create_graph, allow_unused):
    """One gradient for each entry of dimension 0 of the grad_outputs, in one walk."""
    given = [g for g in grads or () if g is not None]
    if len(given) != len(outputs):
        raise RuntimeError("grad: is_grads_batched=True needs grad_outputs for every output")
    sizes = {g.shape[0] if g.dim() else None for g in given}
    if len(sizes) != 1 or None in sizes:
        raise RuntimeError(
            "grad: with is_grads_batched=True all grad_outputs need the same size in dimension 0, "
            f"got shapes {[tuple(g.shape) for g in given]}"
        )
    for g, y in zip(given, outputs, strict=True):
        if tuple(g.shape[1:]) != tuple(y.shape):
            raise RuntimeError(
                f"grad: with is_grads_batched=True an output of shape {tuple(y.shape)} needs "
                f"grad_outputs of shape (N, {', '.join(map(str, y.shape))}), got {tuple(g.shape)}"
            )
    level = _C._vmap_enter(sizes.pop(), 0, True)
    try:
        found = _C._grad(outputs, inputs, [_C._vmap_add(g, 0, level) for g in given],
                         retain_graph, create_graph, allow_unused)  # fmt: skip
        return tuple(None if g is None else _C._vmap_remove(g, 0, level) for g in found)
    finally:
        _C._vmap_exit()


def _laid_out(x, gradient):
    """A gradient that lies in memory as its tensor does: programs flatten gradients by view()."""
    if gradient is None or not x.is_contiguous() or gradient.is_contiguous():
        return gradient
    return gradient.contiguous()


@overload
def grad(outputs: Any, inputs: Mapping[str, Tensor],
         grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
         retain_graph: bool | None = None, create_graph: bool = False, only_inputs: bool = True,
         allow_unused: bool | None = None, is_grads_batched: bool = False,
         materialize_grads: bool = False) -> dict[str, Tensor]: ...  # fmt: skip
@overload
def grad(outputs: Any, inputs: Tensor | Sequence[Any] | Iterator[Any] | ValuesView[Any],
         grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
         retain_graph: bool | None = None, create_graph: bool = False, only_inputs: bool = True,
         allow_unused: bool | None = None, is_grads_batched: bool = False,
         materialize_grads: bool = False) -> tuple[Tensor, ...]: ...  # fmt: skip
def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...] | dict[str, Tensor]:
    """The gradients of ``outputs`` with respect to ``inputs``, as a tuple (a dict for a dict).

    No ``.grad`` changes. An input that the outputs do not depend on is an error, or with
    ``allow_unused=True`` gets None, or with ``materialize_grads=True`` zeros.

    Arguments:
        outputs: what is differentiated.
        inputs: by what.
        grad_outputs: a gradient of each output that is not a single number.
        retain_graph: keep the graph for another call; None keeps it if create_graph is set.
        create_graph: record backward itself, for higher derivatives.
        only_inputs: accepted; only True exists.
        allow_unused: return None for inputs that do not matter, instead of raising.
        is_grads_batched: grad_outputs have a first dim of samples.
        materialize_grads: zeros instead of None.

    Returns: a tuple with one gradient per input.

    Example:
        >>> x = rl.tensor(3.0, requires_grad=True)
        >>> (first,) = rl.autograd.grad(x**3, x, create_graph=True)
        >>> rl.autograd.grad(first, x), first.item()
        ((tensor(18.),), 27.0)
    """
    if not only_inputs:
        warnings.warn(
            "grad: only_inputs=False has no effect; use backward() to fill every .grad",
            FutureWarning,
            stacklevel=2,
        )
    if materialize_grads and allow_unused is False:
        raise ValueError("grad: materialize_grads=True needs allow_unused=True or None")
    keys = list(inputs) if isinstance(inputs, Mapping) else None
    outputs = _as_list("grad", "outputs", outputs)
    inputs = _as_list("grad", "inputs", inputs if keys is None else inputs.values())
    if grad_outputs is not None:
        grad_outputs = _as_list("grad", "grad_outputs", grad_outputs)
    unused = materialize_grads if allow_unused is None else allow_unused
    if any(_is_edge(t) for t in (*outputs, *inputs)):
        return _grad_of_edges(outputs, inputs, grad_outputs, retain_graph, create_graph, unused)
    ask = _batched_grad if is_grads_batched else _C._grad
    of_values = _are_of_values((*outputs, *inputs))
    if of_values:  # which take part in the graph
        from rushlight.autograd._values import as_values, like_inputs

        outputs, grad_outputs = as_values(outputs, grad_outputs)
        given, inputs = inputs, as_values(inputs, None)[0]
    results = ask(outputs, inputs, grad_outputs, retain_graph, create_graph, unused)
    if of_values:
        results, inputs = like_inputs(given, results), given
    elif not is_grads_batched:
        results = tuple(map(_laid_out, inputs, results))
    if materialize_grads:
        results = tuple(
            _C.zeros_like(x) if g is None else g for x, g in zip(inputs, results, strict=True)
        )
    return results if keys is None else dict(zip(keys, results, strict=True))
