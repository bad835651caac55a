"""Derivatives checked against differences.

A gradient of a complex input follows PyTorch's convention: for a real function L of z = x + iy it
is dL/dx + i dL/dy. The checks look at real numbers only: a complex input is perturbed along its
real and along its imaginary part, a complex output is seen as two real ones.

- Slow mode compares whole Jacobians, element by element.
- Fast mode compares one random projection, u^T J v, of each.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import rushlight
from rushlight import _C
from rushlight._C import Tensor
from rushlight.autograd import forward_ad
from rushlight.autograd._engine import grad as autograd_grad
from rushlight.autograd.grad_mode import enable_grad

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """A derivative differs from the differences, or breaks a rule."""


def _as_tuple(x):
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def _is_differentiable(x):
    return isinstance(x, Tensor) and (x.is_floating_point() or x.is_complex())


def _of_values(func, inputs):
    """The function and its inputs, with values in the place of sparse and nested tensors."""
    tensors = [x for x in _as_tuple(inputs) if isinstance(x, Tensor)]
    if all(x.layout is rushlight.strided and not x.is_nested for x in tensors):
        return func, inputs
    from rushlight.autograd._values import through_values

    return through_values(func, _as_tuple(inputs))


def _checked_inputs(inputs, check_forward):
    inputs = _as_tuple(inputs)
    if not any(isinstance(x, Tensor) and x.requires_grad for x in inputs):
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them has "
            "requires_grad=True"
        )
    for i, x in enumerate(inputs):
        if not (isinstance(x, Tensor) and x.requires_grad):
            continue
        if x.dtype not in (rushlight.float64, rushlight.complex128):
            warnings.warn(
                f"gradcheck: input {i} requires gradient and is not a double precision floating "
                "point or complex tensor; the check will likely fail for lack of precision",
                stacklevel=4,
            )
        if any(s == 0 and n > 1 for s, n in zip(x.stride(), x.shape, strict=True)):
            raise RuntimeError(
                f"gradcheck: input {i} has a dimension with stride 0: its elements share memory "
                "and cannot be changed one by one; pass a contiguous() copy"
            )
        x.retain_grad()
    return inputs


def _outputs(func, inputs):
    """All differentiable outputs, whether they require grad or not."""
    return tuple(y for y in _as_tuple(func(*inputs)) if _is_differentiable(y))


def _check_output_types(outputs):
    for y in _as_tuple(outputs):
        if not isinstance(y, Tensor):
            raise ValueError(
                "gradcheck: expected the function to return tensors, got " + type(y).__name__
            )


def _flat_real(t):
    """The numbers of a tensor as one real vector, on the host: real parts, then imaginary parts."""
    t = t.detach().cpu()
    if not t.is_complex():
        return t.reshape(-1)
    return rushlight.cat([t.real.reshape(-1), t.imag.reshape(-1)])


def _real_size(t):
    return t.numel() * (2 if t.is_complex() else 1)


def _from_flat_real(flat, like):
    """The inverse of _flat_real, where `like` is."""
    if like.is_complex():
        n = like.numel()
        flat = rushlight.complex(flat[:n], flat[n:])
    return flat.to(like.dtype).reshape(like.shape).to(like.device)


# --- three ways to a derivative -------------------------------------------------------------------


def _numerical(func, inputs, x, direction, eps):
    """Derivative of all outputs when x moves along a real direction; x is changed and put back.

    The function runs in the mode of the caller: it may take gradients itself."""
    step = _from_flat_real(direction, x)
    data = x.data
    before = data.clone()
    data.copy_(before + eps * step)
    above = [_flat_real(y).clone() for y in _outputs(func, inputs)]
    data.copy_(before - eps * step)
    below = [_flat_real(y).clone() for y in _outputs(func, inputs)]
    data.copy_(before)
    return [(a - b) / (2 * eps) for a, b in zip(above, below, strict=True)]


def _forward(func, inputs, x_index, direction, zero_others=False):
    """The same by forward mode."""
    with forward_ad.dual_level():
        duals = []
        for i, x in enumerate(inputs):
            if i == x_index:
                duals.append(forward_ad.make_dual(x, _from_flat_real(direction, x)))
            elif zero_others and isinstance(x, Tensor) and x.requires_grad:
                duals.append(forward_ad.make_dual(x, rushlight.zeros_like(x)))
            else:
                duals.append(x)
        found = []
        for y in _outputs(func, duals):
            value, tangent = forward_ad.unpack_dual(y)
            if tangent is None:
                tangent = rushlight.zeros_like(value)
            elif tuple(tangent.shape) != tuple(value.shape) or tangent.dtype != value.dtype:
                raise GradcheckError(
                    f"forward mode gave a tangent of shape {tuple(tangent.shape)} and dtype "
                    f"{tangent.dtype} to an output of shape {tuple(value.shape)} and dtype "
                    f"{value.dtype}"
                )
            found.append(_flat_real(tangent).clone())
    return found


def _backward(output, inputs, weights, **options):
    """Gradients of <weights, output> as flat real vectors; zeros where there is none."""
    seed = _from_flat_real(weights, output)
    grads = autograd_grad(output, inputs, seed, retain_graph=True, allow_unused=True, **options)
    return [
        rushlight.zeros(_real_size(x), dtype=_real_dtype(x)) if g is None else _flat_real(g)
        for g, x in zip(grads, inputs, strict=True)
    ]


def _real_dtype(x):
    return x.dtype.to_real()


# --- comparing ------------------------------------------------------------------------------------


def _close(a, b, rtol, atol):
    return a.numel() == 0 or rushlight.allclose(a, b, rtol, atol, equal_nan=True)


def _fail_mismatch(kind, i_out, i_in, numerical, analytical, extra=""):
    raise GradcheckError(
        f"Jacobian computed with {kind} mode mismatch for output {i_out} with respect to input "
        f"{i_in},{extra}\nnumerical:{numerical}\nanalytical:{analytical}\n"
    )


def _unit(n, k):
    e = rushlight.zeros(n, dtype=rushlight.float64)
    e[k] = 1
    return e


class _Check:
    """One call of gradcheck: the function, the point and the tolerances."""

    def __init__(self, func: Callable[..., Any], inputs: Any, eps: float,
                 atol: float | Tensor | None, rtol: float | Tensor | None,
                 nondet_tol: Any) -> None:  # fmt: skip
        self.func, self.inputs = func, inputs
        self.eps, self.atol, self.rtol, self.nondet_tol = eps, atol, rtol, nondet_tol
        self.places = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
        self.wanted = [inputs[i] for i in self.places]
        with enable_grad():
            result = func(*inputs)
        _check_output_types(result)
        self.outputs = tuple(y for y in _as_tuple(result) if _is_differentiable(y))

    # slow mode

    def numerical_jacobian(self, place: Any) -> Any:
        """For each output a matrix: a row for each real number of the input."""
        x = self.inputs[place]
        rows = [
            _numerical(self.func, self.inputs, x, _unit(_real_size(x), k), self.eps)
            for k in range(_real_size(x))
        ]
        return self._matrices(rows, x)

    def forward_jacobian(self, place: Any) -> Any:
        x = self.inputs[place]
        rows = [
            _forward(self.func, self.inputs, place, _unit(_real_size(x), k))
            for k in range(_real_size(x))
        ]
        return self._matrices(rows, x)

    def _matrices(self, rows, x):
        if not rows:
            return [rushlight.zeros(0, _real_size(y)) for y in self.outputs]
        return [rushlight.stack(column) for column in zip(*rows, strict=True)]

    def backward_jacobian(self, output: Tensor) -> Any:
        """For each input a matrix, laid out as the numerical one."""
        rows = []
        for j in range(_real_size(output)):
            weights = _unit(_real_size(output), j)
            first = _backward(output, self.wanted, weights)
            again = _backward(output, self.wanted, weights)
            for i, (a, b) in enumerate(zip(first, again, strict=True)):
                if not _close(a, b, 0.0, self.nondet_tol):
                    raise GradcheckError(
                        "Backward is not reentrant: running it twice with the same input and "
                        f"gradient gives different values for input {self.places[i]}; the "
                        f"tolerance for nondeterminism was {self.nondet_tol}"
                    )
            rows.append(first)
        if not rows:
            return [rushlight.zeros(_real_size(x), 0) for x in self.wanted]
        return [rushlight.stack(column, 1) for column in zip(*rows, strict=True)]

    def compare_slowly(self, backward: bool, forward: bool) -> None:
        numerical = [self.numerical_jacobian(p) for p in self.places]
        if backward:
            for o, y in enumerate(self.outputs):
                if not y.requires_grad:
                    continue
                for i, analytical in enumerate(self.backward_jacobian(y)):
                    if not _close(analytical, numerical[i][o], self.rtol, self.atol):
                        _fail_mismatch("reverse", o, self.places[i], numerical[i][o], analytical)
        if forward:
            for i, p in enumerate(self.places):
                for o, analytical in enumerate(self.forward_jacobian(p)):
                    if not _close(analytical, numerical[i][o], self.rtol, self.atol):
                        _fail_mismatch("forward", o, p, numerical[i][o], analytical)
        self._check_independent(lambda i, o: numerical[i][o], backward)

    # fast mode

    def _direction(self, n, seed):
        generator = rushlight.Generator()
        generator.manual_seed(seed)
        v = rushlight.rand(n, dtype=rushlight.float64, generator=generator)
        norm = math.sqrt(float((v * v).sum()))
        return v / norm if norm > 0 else v

    def compare_fast(self, backward: bool, forward: bool) -> None:
        us = [self._direction(_real_size(x), 2 * i + 1) for i, x in enumerate(self.wanted)]
        vs = [self._direction(_real_size(y), 2 * o) for o, y in enumerate(self.outputs)]
        numerical = [
            _numerical(self.func, self.inputs, x, u, self.eps)
            for x, u in zip(self.wanted, us, strict=True)
        ]
        # A sum of n terms, each within atol, may be off by the sum of their weights.
        atols = [[self.atol * max(1.0, float(u.sum()) * float(v.sum())) for v in vs] for u in us]  # type: ignore[operator]
        for o, (y, v) in enumerate(zip(self.outputs, vs, strict=True)):
            if not (backward and y.requires_grad):
                continue
            grads = _backward(y, self.wanted, v)
            for i, (g, u) in enumerate(zip(grads, us, strict=True)):
                have, want = (g * u).sum(), (numerical[i][o] * v).sum()
                if not _close(have, want, self.rtol, atols[i][o]):
                    self._explain(o, self.places[i], want, have, "reverse")
        if forward:
            for i, (p, u) in enumerate(zip(self.places, us, strict=True)):
                for o, tangent in enumerate(_forward(self.func, self.inputs, p, u)):
                    have, want = (tangent * vs[o]).sum(), (numerical[i][o] * vs[o]).sum()
                    if not _close(have, want, self.rtol, atols[i][o]):
                        self._explain(o, p, want, have, "forward")
        self._check_independent(lambda i, o: numerical[i][o], backward)

    def _explain(self, o, p, want, have, kind):
        """A projection says little: give the whole Jacobians where they are small."""
        if _real_size(self.inputs[p]) * _real_size(self.outputs[o]) <= 10_000:
            numerical = self.numerical_jacobian(p)[o]
            if kind == "forward":
                analytical = self.forward_jacobian(p)[o]
            else:
                analytical = self.backward_jacobian(self.outputs[o])[self.places.index(p)]
            extra = " in fast mode (here are the whole Jacobians)"
            _fail_mismatch(kind, o, p, numerical, analytical, extra)
        _fail_mismatch(kind, o, p, want, have, " in fast mode (projections are compared)")

    def _check_independent(self, numerical, backward):
        """An output without a graph must not depend on the inputs."""
        if not backward:
            return
        for o, y in enumerate(self.outputs):
            if y.requires_grad:
                continue
            for i, p in enumerate(self.places):
                block = numerical(i, o)
                if not _close(block, rushlight.zeros_like(block), 0.0, self.atol):
                    raise GradcheckError(
                        f"Numerical gradient for function expected to be zero: output {o} does not "
                        f"require grad, but changes with input {p}"
                    )

    # rules beside the values

    def check_grad_types(self, check_dtypes: Any) -> None:
        for y in self.outputs:
            if not y.requires_grad:
                continue
            grads = autograd_grad(
                y, self.wanted, rushlight.zeros_like(y), retain_graph=True, allow_unused=True
            )
            for p, x, g in zip(self.places, self.wanted, grads, strict=True):
                if g is None:
                    continue
                if tuple(g.shape) != tuple(x.shape):
                    raise GradcheckError(
                        f"grad has shape {tuple(g.shape)}, but input {p} has {tuple(x.shape)}"
                    )
                if check_dtypes and g.dtype != x.dtype:
                    raise GradcheckError(
                        f"Gradient has dtype mismatch: {g.dtype} for input {p} of {x.dtype}"
                    )

    def check_undefined(self) -> None:
        """A gradient that is missing must mean the same as one of zeros."""
        tracked = [y for y in self.outputs if y.requires_grad]
        if len(tracked) < 2:
            return
        for k, y in enumerate(tracked):
            weights = self._direction(_real_size(y), 2 * k)
            alone = _backward(y, self.wanted, weights)
            seeds = [
                _from_flat_real(weights, y) if j == k else rushlight.zeros_like(other)
                for j, other in enumerate(tracked)
            ]
            found = autograd_grad(tracked, self.wanted, seeds, retain_graph=True, allow_unused=True)
            for p, a, b in zip(self.places, alone, found, strict=True):
                full = rushlight.zeros_like(a) if b is None else _flat_real(b)
                if not _close(a, full, self.rtol, self.atol):
                    raise GradcheckError(
                        "Expected backward function to handle undefined output grads: with only "
                        f"output {k} in the graph, the gradient of input {p} is {a}; with zeros "
                        f"for the others it is {full}"
                    )

    def check_undefined_tangents(self) -> None:
        """A missing tangent must mean the same as zeros."""
        if len(self.places) < 2:
            return
        for p in self.places:
            u = self._direction(_real_size(self.inputs[p]), 1)
            alone = _forward(self.func, self.inputs, p, u)
            full = _forward(self.func, self.inputs, p, u, zero_others=True)
            for o, (a, b) in enumerate(zip(alone, full, strict=True)):
                if not _close(a, b, self.rtol, self.atol):
                    raise GradcheckError(
                        f"forward mode: for output {o}, a tangent of input {p} alone gives {a}, "
                        f"and with zeros for the other inputs {b}"
                    )

    def check_batched(self) -> None:
        """Several gradients at once must equal one after the other."""
        for o, y in enumerate(self.outputs):
            if not y.requires_grad:
                continue
            seeds = [_from_flat_real(self._direction(_real_size(y), 100 + k), y) for k in range(2)]
            loop = [
                autograd_grad(y, self.wanted, s, retain_graph=True, allow_unused=True)
                for s in seeds
            ]
            try:
                batched = autograd_grad(
                    y, self.wanted, rushlight.stack(seeds), retain_graph=True,
                    allow_unused=True, is_grads_batched=True,
                )  # fmt: skip
            except RuntimeError as error:
                raise GradcheckError(
                    f"While computing batched gradients of output {o}: {error}"
                ) from error
            for p, got, *rows in zip(self.places, batched, *loop, strict=True):
                if got is None and rows[0] is None:
                    continue
                want = rushlight.stack(rows)
                if not _close(_flat_real(got), _flat_real(want), self.rtol, self.atol):
                    raise GradcheckError(
                        f"For output {o} and input {p}: batched gradients {got} differ from those "
                        f"computed one after the other, {want}"
                    )

    def check_batched_forward(self) -> None:
        for p in self.places:
            x = self.inputs[p]
            rows = [self._direction(_real_size(x), 100 + k) for k in range(2)]
            loop = [_forward(self.func, self.inputs, p, u) for u in rows]

            def run(tangent, p=p, x=x):
                inputs = list(self.inputs)
                with forward_ad.dual_level():
                    inputs[p] = forward_ad.make_dual(x, tangent)
                    pairs = [forward_ad.unpack_dual(y) for y in _outputs(self.func, inputs)]
                    return tuple(rushlight.zeros_like(v) if t is None else t for v, t in pairs)

            tangents = rushlight.stack([_from_flat_real(u, x) for u in rows])
            try:
                batched = rushlight.func.vmap(run)(tangents)
            except RuntimeError as error:
                raise GradcheckError(
                    f"While computing batched tangents of input {p}: {error}"
                ) from error
            for o, (got, *want) in enumerate(zip(batched, *loop, strict=True)):
                for k, row in enumerate(want):
                    if not _close(_flat_real(got[k]), row, self.rtol, self.atol):
                        raise GradcheckError(
                            f"For output {o} and input {p}: batched tangents differ from those "
                            "computed one after the other"
                        )


def gradcheck(func: Callable[..., Tensor | Sequence[Tensor]], inputs: Tensor | Sequence[Tensor], *,
              eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3,
              raise_exception: bool = True, nondet_tol: float = 0.0,
              check_undefined_grad: bool = True, check_grad_dtypes: bool = False,
              check_batched_grad: bool = False, check_batched_forward_grad: bool = False,
              check_forward_ad: bool = False, check_backward_ad: bool = True,
              fast_mode: bool = False, masked: bool | None = None) -> bool:  # fmt: skip
    """Compares the derivatives of ``func`` at ``inputs`` with central differences.

    Returns True, or raises GradcheckError (returns False with ``raise_exception=False``). Inputs
    that require grad are checked; they should be float64 or complex128.

    Compares derivatives with differences of the function's values: use float64.

    Arguments:
        func: a function of the inputs.
        inputs: tensors that need a gradient.
        eps: half the distance between points.
        atol, rtol: tolerances.
        raise_exception: raise with the first difference, instead of returning False.
        nondet_tol: how much two calls may differ.
        check_undefined_grad, check_grad_dtypes, check_batched_grad, check_batched_forward_grad,
            check_forward_ad, check_backward_ad: what else is checked.
        fast_mode: one random direction instead of all.
        masked: accepted; of sparse inputs the elements that are there are changed.

    Example:
        >>> x = rl.tensor([0.5], dtype=rl.float64, requires_grad=True)
        >>> rl.autograd.gradcheck(rl.sin, (x,), eps=1e-6)
        True
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError(
            "gradcheck: at least one of check_forward_ad and check_backward_ad must be True"
        )
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("gradcheck: check_batched_grad needs check_backward_ad=True")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("gradcheck: check_batched_forward_grad needs check_forward_ad=True")
    del masked  # gradients of sparse inputs are those of their values
    func, inputs = _of_values(func, inputs)
    inputs = _checked_inputs(inputs, check_forward_ad)
    try:
        check = _Check(func, inputs, eps, atol, rtol, nondet_tol)
        if check_backward_ad:
            check.check_grad_types(check_grad_dtypes)
        if fast_mode:
            check.compare_fast(check_backward_ad, check_forward_ad)
        else:
            check.compare_slowly(check_backward_ad, check_forward_ad)
        if check_backward_ad and check_undefined_grad:
            check.check_undefined()
        if check_forward_ad and check_undefined_grad:
            check.check_undefined_tangents()
        if check_batched_grad:
            check.check_batched()
        if check_batched_forward_grad:
            check.check_batched_forward()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _random_like(y, non_contiguous):
    generator = rushlight.Generator()
    generator.manual_seed(1234)
    flat = rushlight.rand(_real_size(y), dtype=rushlight.float64, generator=generator) * 2 - 1
    g = _from_flat_real(flat, y)
    if non_contiguous and g.numel() > 1:
        wide = rushlight.zeros(*g.shape, 2, dtype=g.dtype, device=g.device)
        wide[..., 0] = g
        g = wide[..., 0]
    return g.to(y.device).requires_grad_(True)


def gradgradcheck(func: Callable[..., Tensor | Sequence[Tensor]], inputs: Tensor | Sequence[Tensor],
                  grad_outputs: Tensor | Sequence[Tensor | None] | None = None, *,
                  eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3,
                  gen_non_contig_grad_outputs: bool = False, raise_exception: bool = True,
                  nondet_tol: float = 0.0, check_undefined_grad: bool = True,
                  check_grad_dtypes: bool = False, check_batched_grad: bool = False,
                  check_fwd_over_rev: bool = False, check_rev_over_rev: bool = True,
                  fast_mode: bool = False, masked: bool | None = None) -> bool:  # fmt: skip
    """Checks second derivatives: gradcheck of the gradients of ``func``.

    ``grad_outputs`` are the weights of the outputs, random ones by default.

    Arguments:
        func: a function of the inputs.
        inputs: tensors that need a gradient.
        grad_outputs: gradients of the outputs; None draws them.
        eps: half the distance between points.
        atol, rtol: tolerances.
        gen_non_contig_grad_outputs: draw them with gaps in memory.
        raise_exception: raise with the first difference, instead of returning False.
        nondet_tol: how much two calls may differ.
        check_undefined_grad, check_grad_dtypes, check_batched_grad, check_fwd_over_rev,
            check_rev_over_rev: what else is checked.
        fast_mode: one random direction instead of all.
        masked: accepted; of sparse inputs the elements that are there are changed.

    Example:
        >>> x = rl.tensor([0.5], dtype=rl.float64, requires_grad=True)
        >>> rl.autograd.gradgradcheck(rl.sin, (x,), eps=1e-6)
        True
    """
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError(
            "gradgradcheck: at least one of check_fwd_over_rev and check_rev_over_rev must be True"
        )
    func, inputs = _of_values(func, _as_tuple(inputs))
    if grad_outputs is None:
        with enable_grad():
            result = _as_tuple(func(*inputs))
        outputs = [y for y in result if _is_differentiable(y) and y.requires_grad]
        grad_outputs = tuple(_random_like(y, gen_non_contig_grad_outputs) for y in outputs)
    else:
        grad_outputs = _as_tuple(grad_outputs)
    places = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]

    def gradients(*args):
        own, weights = args[: len(inputs)], args[len(inputs) :]
        # One tensor may stand in two places, which then get a place each in the graph. Others are
        # passed as they are: a Parameter has to be one where a module takes it.
        with enable_grad():
            own = tuple(
                x if i not in places or (x.requires_grad and sum(x is y for y in own) == 1)
                else x.view_as(x) if x.requires_grad
                else _C._cut_graph(x).requires_grad_(True)
                for i, x in enumerate(own)
            )  # fmt: skip
            outputs = [y for y in _as_tuple(func(*own)) if _is_differentiable(y)]
            outputs = [y for y in outputs if y.requires_grad]
            found = autograd_grad(
                outputs, [own[i] for i in places], weights, create_graph=True, allow_unused=True
            )
        return tuple(g for g in found if g is not None)

    return gradcheck(
        gradients,
        (*inputs, *grad_outputs),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )
