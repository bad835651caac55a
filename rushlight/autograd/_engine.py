"""The two ways to ask for gradients; the work is done by the C++ engine."""

from rushlight import _C
from rushlight._C import Tensor


def _as_list(value):
    return [value] if isinstance(value, Tensor) else list(value)


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, inputs=None):
    """Adds the gradients of ``tensors`` to the ``.grad`` of the leaves they depend on."""
    tensors = _as_list(tensors)
    grads = [None] * len(tensors) if grad_tensors is None else _as_list(grad_tensors)
    if len(grads) != len(tensors):
        raise RuntimeError(f"backward: got {len(tensors)} tensors and {len(grads)} gradients")
    if inputs is not None:
        inputs = _as_list(inputs)
        if not inputs:
            raise RuntimeError("backward: inputs must not be empty")
    _C._backward(tensors, grads, create_graph if retain_graph is None else retain_graph,
                 create_graph, inputs)  # fmt: skip


def _batched_grad(outputs, inputs, grads, retain_graph, create_graph, allow_unused):
    """One gradient for each entry of dimension 0 of the grad_outputs, in one walk."""
    given = [g for g in grads if g is not None]
    if not given or len(given) != len(grads):
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
        return [None if g is None else _C._vmap_remove(g, 0, level) for g in found]
    finally:
        _C._vmap_exit()


def grad(
    outputs,
    inputs,
    grad_outputs=None,
    retain_graph=None,
    create_graph=False,
    only_inputs=True,
    allow_unused=None,
    is_grads_batched=False,
    materialize_grads=False,
):
    """The gradients of ``outputs`` with respect to ``inputs``, as a tuple."""
    if not only_inputs:
        raise ValueError("grad: only_inputs=False is no longer supported; use backward()")
    if materialize_grads and allow_unused is False:
        raise ValueError("grad: materialize_grads=True needs allow_unused=True or None")
    outputs, inputs = _as_list(outputs), _as_list(inputs)
    grads = [None] * len(outputs) if grad_outputs is None else _as_list(grad_outputs)
    if len(grads) != len(outputs):
        raise RuntimeError(f"grad: got {len(outputs)} outputs and {len(grads)} gradients")
    unused = materialize_grads if allow_unused is None else allow_unused
    retain = create_graph if retain_graph is None else retain_graph
    if is_grads_batched:
        results = _batched_grad(outputs, inputs, grads, retain, create_graph, unused)
    else:
        results = _C._grad(outputs, inputs, grads, retain, create_graph, unused)
    if materialize_grads:
        results = [_C.zeros_like(x) if g is None else g
                   for g, x in zip(results, inputs, strict=True)]  # fmt: skip
    return tuple(results)
