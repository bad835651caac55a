"""The gradient of an operator: register_autograd's functions as an autograd.Function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.autograd import Function


class _Call:
    """How one call's arguments were laid out flat, since a Function knows tensors only where they
    are arguments themselves: the length of each list, or None."""

    def __init__(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        self.keywords = keywords
        self.lengths = [len(a) if _holds_tensors(a) else None for a in args]

    def packed(self, flat):
        """The arguments, or their gradients, as the operator has them."""
        rest = iter(flat)
        return tuple(
            next(rest) if n is None else [next(rest) for _ in range(n)] for n in self.lengths
        )

    def flattened(self, packed, what):
        flat = []
        for n, item in zip(self.lengths, packed, strict=True):
            if n is None:
                flat.append(item)
            elif item is None:
                flat += [None] * n
            elif len(item) != n:
                raise RuntimeError(f"{what}: expected a list of {n} gradients, got {len(item)}")
            else:
                flat += item
        return flat


def _holds_tensors(argument):
    from rushlight import Tensor

    return isinstance(argument, (list, tuple)) and any(isinstance(a, Tensor) for a in argument)


def gradient_kernel(
    op: Any, backward: Callable[..., Any] | None, setup_context: Callable[..., Any] | None
) -> Callable[..., Any]:
    """What runs the operator where a gradient is needed."""
    name = f"GeneratedBackwardFor_{op.qualified.replace('::', '_')}_{op.overload or 'default'}"
    lists = [kind.endswith("[]") for kind in op.results]
    keyword_names = [a[0] for a in op.arguments if a[2]]
    count = sum(not a[2] for a in op.arguments)

    def forward(*flat):
        call = flat[-1]
        output = op.run_kernel(*call.packed(flat[:-1]), **call.keywords)
        call.output = output
        if not any(lists):
            return output
        outputs = (output,) if len(lists) == 1 else output
        call.result_lengths = [len(o) if l else None for l, o in zip(lists, outputs, strict=True)]
        flat_output = []
        for is_list, item in zip(lists, outputs, strict=True):
            flat_output += item if is_list else [item]
        return tuple(flat_output)

    def set_up(ctx, inputs, output):
        call = inputs[-1]
        ctx._call = call
        ctx.needs_input_grad = call.packed(ctx.needs_input_grad[:-1])
        if setup_context is not None:
            packed = call.packed(inputs[:-1])
            if keyword_names:
                setup_context(ctx, packed, call.keywords, call.output)
            else:
                setup_context(ctx, packed, call.output)
        del call.output

    def run_backward(ctx, *grads):
        if backward is None:
            raise RuntimeError(
                f"backward: {op.qualified.replace('::', '.')}.{op.overload or 'default'} has no "
                "gradient; give it one with register_autograd"
            )
        call = ctx._call
        if any(lists):
            rest = iter(grads)
            grads = tuple(
                next(rest) if n is None else [next(rest) for _ in range(n)]
                for n in call.result_lengths
            )
        given = backward(ctx, *grads)
        given = given if isinstance(given, tuple) else (given,)
        if len(given) != count:
            raise RuntimeError(
                f"{op.qualified}: backward must return one gradient per argument of the operator: "
                f"{count} expected, {len(given)} given"
            )
        return *call.flattened(given, op.qualified), None

    body = {
        "forward": staticmethod(forward),
        "setup_context": staticmethod(set_up),
        "backward": staticmethod(run_backward),
    }
    function = type(name, (Function,), body)

    def kernel(*args, **keywords):
        call = _Call(args, keywords)
        result = function.apply(*call.flattened(args, op.qualified), call)
        if not any(lists):
            return result
        rest = iter(result if isinstance(result, tuple) else (result,))
        outputs = tuple(
            next(rest) if n is None else [next(rest) for _ in range(n)] for n in call.result_lengths
        )
        return outputs[0] if len(outputs) == 1 else outputs

    return kernel
