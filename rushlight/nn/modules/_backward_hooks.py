"""Backward hooks: nodes at the borders of a module's part of the graph call them.

All inputs that need gradients go through one node, and all outputs through another. When the engine
reaches the node of the outputs, the gradients of all of them are known; at the node of the inputs,
those of all inputs are. One node a border sees them together, which hooks of tensors would not.
"""

import warnings
from functools import partial

from rushlight import _C
from rushlight._C import Tensor
from rushlight.autograd.function import Function


class BackwardHookFunction(Function):
    """Returns its tensors; on the way back, `watch` sees and may change their gradients."""

    @staticmethod
    def forward(ctx, watch, *tensors):
        ctx.watch = watch
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*[t for t in tensors if not t.requires_grad])
        return tensors if len(tensors) > 1 else tensors[0]

    @staticmethod
    def backward(ctx, *grads):
        return None, *ctx.watch(grads)


def _through(watch, values):
    """(values with their tensors sent through a node, indices of these), or (values, None)."""
    indices = [i for i, v in enumerate(values) if isinstance(v, Tensor)]
    tensors = [values[i] for i in indices]
    if not _C.is_grad_enabled() or not any(t.requires_grad for t in tensors):
        return values, None
    seen = BackwardHookFunction.apply(watch, *tensors)
    seen = seen if isinstance(seen, tuple) else (seen,)
    values = list(values)
    for i, tensor in zip(indices, seen, strict=True):
        values[i] = tensor
    return tuple(values), indices


def _spread(grads, indices, count):
    """Gradients at their places among all arguments, None elsewhere."""
    out = [None] * count
    for i, grad in zip(indices, grads, strict=True):
        out[i] = grad
    return tuple(out)


class GraphHooks:
    """The full backward hooks of one call of a module."""

    def __init__(self, module, hooks, pre_hooks):
        self.module, self.hooks, self.pre_hooks = module, hooks, pre_hooks
        self.grad_outputs = None
        self.input_indices = self.output_indices = None

    def watch_inputs(self, args):
        """The arguments, sent through a node that runs the hooks on its way back."""
        self.input_count = len(args)
        if self.hooks:
            args, self.input_indices = _through(self._at_inputs, tuple(args))
        return args

    def watch_outputs(self, result):
        """The result, sent through a node that runs the pre-hooks on its way back."""
        several = isinstance(result, tuple)
        values = result if several else (result,)
        self.output_count = len(values)
        values, self.output_indices = _through(self._at_outputs, values)
        if not several:
            return values[0]
        # A named tuple stays one.
        return type(result)(*values) if hasattr(result, "_fields") else values

    def _at_outputs(self, grads):
        full = _spread(grads, self.output_indices, self.output_count)
        for hook in self.pre_hooks:
            changed = hook(self.module, full)
            if changed is not None:
                full = self._checked("pre-hook", changed, self.output_indices, self.output_count)
        self.grad_outputs = full
        if self.hooks and self.input_indices is None:
            # No input needs a gradient, so nothing will come by there: this is the moment.
            for hook in self.hooks:
                changed = hook(self.module, (None,) * self.input_count, full)
                if changed is not None and not (
                    isinstance(changed, tuple) and all(g is None for g in changed)
                ):
                    raise RuntimeError(
                        "a backward hook returned gradients for inputs, but no input of "
                        f"{type(self.module).__name__} requires grad"
                    )
        return [full[i] for i in self.output_indices]

    def _at_inputs(self, grads):
        if self.grad_outputs is None:
            # The gradient came in by another way than the outputs; there is nothing to report.
            return grads
        full = _spread(grads, self.input_indices, self.input_count)
        for hook in self.hooks:
            changed = hook(self.module, full, self.grad_outputs)
            if changed is not None:
                full = self._checked("hook", changed, self.input_indices, self.input_count)
        self.grad_outputs = None
        return [full[i] for i in self.input_indices]

    def _checked(self, kind, changed, indices, count):
        """What a hook returned, as a tuple of the right length."""
        changed = changed if isinstance(changed, tuple) else (changed,)
        if len(changed) != count:
            raise RuntimeError(
                f"a backward {kind} of {type(self.module).__name__} returned {len(changed)} "
                f"gradients, expected {count}"
            )
        for i, grad in enumerate(changed):
            if grad is not None and i not in indices:
                raise RuntimeError(
                    f"a backward {kind} of {type(self.module).__name__} returned a gradient at "
                    f"position {i}, where no tensor requires one; expected None"
                )
        return changed


def add_regular_hooks(module, hooks, result):
    """The old kind: they hang on the node that made the first tensor of the result."""
    found = result
    while not isinstance(found, Tensor):
        if isinstance(found, dict):
            found = next((v for v in found.values() if isinstance(v, Tensor)), None)
        elif isinstance(found, list | tuple) and found:
            found = found[0]
        else:
            return
    if found.grad_fn is None:
        return
    if not isinstance(result, Tensor):
        warnings.warn(
            f"{type(module).__name__}: a regular backward hook sees only the first of several "
            "outputs; use register_full_backward_hook",
            FutureWarning,
            stacklevel=5,
        )
    for hook in hooks:
        found.grad_fn.register_hook(partial(hook, module))
