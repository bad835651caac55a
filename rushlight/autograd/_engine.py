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
    if is_grads_batched:
        raise NotImplementedError("grad: is_grads_batched=True is not supported")
    if materialize_grads and allow_unused is False:
        raise ValueError("grad: materialize_grads=True needs allow_unused=True or None")
    outputs, inputs = _as_list(outputs), _as_list(inputs)
    grads = [None] * len(outputs) if grad_outputs is None else _as_list(grad_outputs)
    if len(grads) != len(outputs):
        raise RuntimeError(f"grad: got {len(outputs)} outputs and {len(grads)} gradients")
    unused = materialize_grads if allow_unused is None else allow_unused
    results = _C._grad(outputs, inputs, grads,
                       create_graph if retain_graph is None else retain_graph,
                       create_graph, unused)  # fmt: skip
    if materialize_grads:
        results = [_C.zeros_like(x) if g is None else g
                   for g, x in zip(results, inputs, strict=True)]  # fmt: skip
    return tuple(results)
