"""Watching a program train: what goes into and comes out of modules, losses and optimisers."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight import _C
from rushlight._C import Tensor
from rushlight.doctor._batches import Batches, readable
from rushlight.doctor._calls import Calls
from rushlight.doctor._dependence import leaves_of, mixes_samples, sees_its_own_target
from rushlight.doctor._notes import Leaf, LossCall, Notes, Step
from rushlight.profiler._lines import user_line
from rushlight.profiler._memory import _tensors

__all__ = ["Enough", "Observer"]


class Enough(BaseException):
    """Ends a program whose steps have been seen."""


_LOSSES = ("cross_entropy", "nll_loss", "binary_cross_entropy_with_logits",
           "binary_cross_entropy", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss",
           "kl_div")  # fmt: skip
_TRAINS = ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "BatchNorm1d",
           "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm")  # fmt: skip
_MOST_UNITS = 1 << 20
_ASKED = 2  # calls of a loss whose graph is asked what depends on what
_MOST_STEPS = 20  # of an optimiser beside the first that are looked at


def _is_bad(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and not bool(tensor.isfinite().all())


class Observer:
    """Fills notes while it is open."""

    def __init__(self, on_step: Callable[[], None]) -> None:
        self.notes = Notes()
        self._on_step = on_step
        self._stack = contextlib.ExitStack()
        self._depth = 0
        self._before: dict[int, Tensor] = {}
        self._from_zero: set[int] = set()  # weights that begin there, as many heads do
        self._first_optimizer: int | None = None
        self._cleared = True  # its gradients, since the last step of the first optimiser
        self._backward_line = ""
        self._busy = False
        self._last: dict[int, Tensor] = {}  # weights after the last step of the first optimiser
        self._first_parameter: int | None = None
        self._values: list[tuple[LossCall, Tensor]] = []  # of losses since the last backward
        self._records = True  # whether the program records gradients, where a hook is called
        self._kept: list[tuple[str, set[Any]]] = []  # graphs that were kept, the last two
        self._first: Any = None  # what the first layer of the last call of a model made
        self._embedded: list[tuple[Tensor, Tensor]] = []  # ids and what embeddings made of them

    # ---- putting it in place

    def open(self) -> None:
        """Begins to watch."""
        from rushlight.nn.modules import module
        from rushlight.optim import optimizer

        hooks = (
            module.register_module_forward_pre_hook(self._guard(self._before_module)),
            module.register_module_forward_hook(self._guard(self._after_module), always_call=True),
            optimizer.register_optimizer_step_pre_hook(self._guard(self._before_step)),
            optimizer.register_optimizer_step_post_hook(self._after_step),
        )
        for hook in hooks:
            self._stack.callback(hook.remove)
        self._replace(Tensor, "backward", self._backward)
        self._replace(rushlight.utils.data.DataLoader, "__iter__", self._iterate)
        self._replace(rushlight, "manual_seed", self._seed)
        self._replace(rushlight.optim.Optimizer, "__init__", self._make_optimizer)
        self._replace(rushlight.optim.lr_scheduler.LRScheduler, "step", self._step_scheduler)
        for owner in (rushlight.nn.utils, rushlight.nn.utils.clip_grad):
            self._replace(owner, "clip_grad_norm_", self._clip)
        functional = rushlight.nn.functional
        for name in _LOSSES:
            if hasattr(functional, name):
                self._replace(functional, name, functools.partial(self._loss, name))
        self._stack.enter_context(Calls(self.notes))

    def close(self) -> None:
        """Stops watching; everything is as it was."""
        self._stack.close()
        self.notes.closed = True
        self._before.clear()
        self._last.clear()
        self._values.clear()
        self._first, self._embedded, self._kept = None, [], []

    def _make_optimizer(self, before: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self.notes.optimizer_line = self.notes.optimizer_line or user_line()
        self.notes.made.append(args[0])
        return before(*args, **kwargs)

    def _step_scheduler(self, before: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self.notes.steps:  # making one takes a step as well
            self.notes.schedulers.setdefault(id(args[0]), [args[0], 0])[1] += 1
        return before(*args, **kwargs)

    def _seed(self, before: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self.notes.steps and (line := user_line()):
            key = line, str(args or kwargs)  # seeds of their own make no step like another
            self.notes.seeds[key] = self.notes.seeds.get(key, 0) + 1
        return before(*args, **kwargs)

    def _clip(self, before: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        norm = before(*args, **kwargs)
        most = kwargs.get("max_norm", args[1] if len(args) > 1 else 0.0)
        if len(self.notes.clipped) < _MOST_STEPS:
            self._guard(self._note_norm)(norm, most)
        return norm

    def _note_norm(self, norm: Any, most: Any) -> None:
        norm, most = float(norm), float(most)
        if most > 0 and norm == norm:
            self.notes.clipped.append((norm, norm / most))
            self.notes.clip_line = self.notes.clip_line or user_line()

    def _replace(self, owner: Any, name: str, around: Callable[..., Any]) -> None:
        before = getattr(owner, name)
        own = name in vars(owner)

        @functools.wraps(before)
        def call(*args, **kwargs):
            return around(before, *args, **kwargs)

        setattr(owner, name, call)
        self._stack.callback(setattr if own else lambda o, n, _: delattr(o, n), owner, name, before)

    def _guard(self, hook: Callable[..., None]) -> Callable[..., None]:
        """The hook without gradients, and not for calls that it makes itself."""

        def guarded(*args):
            if self._busy:
                return
            self._busy = True
            self._records = rushlight.is_grad_enabled()
            try:
                with rushlight.no_grad(), _C.DisableTorchFunction():
                    hook(*args)
            finally:
                self._busy = False

        return guarded

    # ---- modules

    def _before_module(self, module: Any, args: Any) -> None:
        self._depth += 1
        if self._depth > 1:
            return
        if id(module) not in self.notes.models:
            self.notes.models[id(module)] = module
            for name, parameter in module.named_parameters():
                self.notes.names.setdefault(id(parameter), name)
        self._first, self._embedded = None, []
        given = readable(args)
        self.notes.given |= {id(t) for t in given if t.requires_grad}
        if given and given[0].dim():
            features = () if given[0].is_floating_point() else (1,)  # ids are yet to get them
            self.notes.input_shape = *given[0].shape, *features
        for tensor in given:
            if tensor.is_floating_point() and tensor.numel() and not tensor.requires_grad:
                if tensor is given[0]:  # later ones may be masks, or states that begin with zeros
                    self.notes.calls += 1
                    flat = tensor.numel() > 8 and bool((tensor == tensor.flatten()[0]).all())
                    self.notes.flat_inputs += flat
                self.notes.input_scale.append(float(tensor.float().abs().mean()))
                self.notes.input_line = self.notes.input_line or user_line()
                break

    def _after_module(self, module: Any, args: Any, output: Any) -> None:
        self._depth = max(0, self._depth - 1)
        name = self._name(module)
        if self.notes.first_bad is None and not any(True for _ in module.children()):
            if any(_is_bad(t) for t in readable(output)):
                came_in = any(_is_bad(t) for t in readable(args))
                weights = any(_is_bad(p) for p in module.parameters(recurse=False))
                where = "weights" if weights else "input" if came_in else "output"
                self.notes.first_bad = name, where, user_line()
        kind = type(module).__name__
        if isinstance(output, Tensor) and output.grad_fn is not None:
            if kind == "Embedding" and args and isinstance(args[0], Tensor):
                self._embedded.append((args[0], output))
            if self._first is None and next(module.parameters(recurse=False), None) is not None:
                self._first = output
        if kind in _TRAINS and not module.training and self._records:
            # What is frozen is in evaluation mode on purpose.
            own = list(module.parameters(recurse=False))
            trains = not own or any(p.requires_grad for p in own)
            if trains and any(t.requires_grad for t in _tensors(output)):
                self.notes.in_eval.setdefault(name, kind)
        if module.training and kind.endswith("Dropout") and isinstance(module.p, float | int):
            self.notes.drops[name] = float(module.p)
        if module.training and "BatchNorm" in kind and args and isinstance(args[0], Tensor):
            x = args[0]
            if x.dim() >= 2 and x.shape[1]:
                self.notes.few[name] = max(self.notes.few.get(name, 0), x.numel() // x.shape[1])
        weight = getattr(module, "weight", None)
        if isinstance(weight, Tensor) and weight.dim() >= 2 and args and "Embedding" not in kind:
            self._note_units(name, args[0], 1 if weight.dim() > 2 else -1)

    def _name(self, module: Any) -> str:
        for model in self.notes.models.values():
            for name, inner in model.named_modules():
                if inner is module:
                    return name or type(module).__name__
        return type(module).__name__

    def _note_units(self, name: str, x: Any, dim: int) -> None:
        """Which units of a layer's input were ever anything but zero."""
        if not isinstance(x, Tensor) or not x.is_floating_point() or x.dim() < 2:
            return
        if x.numel() > _MOST_UNITS * 64 or x.shape[dim] < 4:
            return
        others = [d for d in range(x.dim()) if d != dim % x.dim()]
        alive = (x.detach() != 0).any(dim=others) if len(others) > 1 else (x != 0).any(others[0])
        known = self.notes.alive.get(name)
        if known is not None and known[0].shape == alive.shape:
            alive = known[0] | alive
        self.notes.alive[name] = alive, user_line()

    # ---- losses and backward

    def _loss(self, name: str, before: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        out = before(*args, **kwargs)
        given = [*args[:2], *(kwargs[k] for k in ("input", "target") if k in kwargs)][:2]
        if len(given) == 2 and all(isinstance(t, Tensor) for t in given):
            mean = kwargs.get("reduction", "mean") == "mean" and len(args) < 3
            self._guard(self._note_loss)(name, given[0], given[1], out, mean)
            smoothing = kwargs.get("label_smoothing", 0.0)
            if smoothing > 0.5:
                self.notes.losses[name, user_line()].smoothing = float(smoothing)
        return out

    def _note_loss(self, name: str, x: Tensor, target: Tensor, out: Any, mean: bool) -> None:
        line = user_line()
        call = self.notes.losses.setdefault((name, line), LossCall(name, line))
        call.calls += 1
        call.samples = x.shape[0] if mean and x.dim() else 0
        if self._records and call.calls <= _ASKED:
            self._note_dependence(call, x, target)
        if x.grad_fn is not None:
            call.cut += x.grad_fn.name().startswith("ReluBackward")
            self._note_labels(target)
        x = x.detach()
        if name.startswith("binary") and target.numel():
            call.outside += bool((target < -1e-3).any()) or bool((target > 1.001).any())
        if isinstance(out, Tensor) and out.numel() == 1:
            call.value.append(float(out))
            if out.grad_fn is not None and len(self._values) < _MOST_STEPS:
                self._values.append((call, out))
        if x.numel() and x.is_floating_point():
            low, high = float(x.min()), float(x.max())
            call.positive += high > 1e-3
            sigmoid = x.numel() in self.notes.sigmoids and 0 <= low <= high <= 1
            call.after_sigmoid += sigmoid
            self.notes.sigmoids.clear()
            if x.dim() >= 2 and x.shape[1] > 1 and low >= 0:
                sums = x.float().sum(1)
                call.probabilities += bool(((sums - 1).abs() < 1e-3).all())
        if name.endswith(("mse_loss", "l1_loss", "huber_loss")) and x.shape != target.shape:
            call.shapes = tuple(x.shape), tuple(target.shape)

    def _note_dependence(self, call: LossCall, x: Tensor, target: Tensor) -> None:
        samples, first = self.notes.batch_size, self._first
        if first is not None and not self.notes.samples_meet and self._samples_first(samples):
            mixed = mixes_samples(x, first, samples)
            call.mixed += [] if mixed is None else [mixed]
        if call.name == "cross_entropy" and not target.is_floating_point():
            call.own.append(any(
                sees_its_own_target(x, target, ids, made) for ids, made in self._embedded
            ))  # fmt: skip

    def _note_labels(self, target: Tensor) -> None:
        """Of batches that are trained with; lengths and numbers of samples are no targets."""
        now, self.notes.labels_now = self.notes.labels_now, None
        if now is not None and target.dim() == 1 and target.numel() == len(now):
            if not target.is_floating_point() and target.tolist() == now:
                self.notes.labels.append(now)

    def _samples_first(self, samples: int) -> bool:
        """Whether models are given samples of the loader, in the first dim."""
        shape = self.notes.input_shape
        return len(shape) > 1 and shape[0] == samples != shape[1]

    def _note_leaves(self, root: Tensor, retains: bool) -> None:
        leaves = self.notes.leaves
        found, nodes = leaves_of(root)
        for line, kept in self._kept:
            self.notes.reused[line] = self.notes.reused.get(line, 0) + (not kept.isdisjoint(nodes))
        self._kept = self._kept[-1:] + ([(self._backward_line, nodes)] if retains else [])
        for tensor in found:
            leaf = leaves.get(id(tensor))
            if leaf is None:
                leaves[id(tensor)] = Leaf(tensor, tensor._version)
            else:
                leaf.times += 1
                leaf.written = leaf.written or leaf.version != tensor._version

    def _backward(self, before: Callable[..., Any], tensor: Tensor, *args: Any, **kw: Any) -> Any:
        self.notes.backwards += 1
        line = self._backward_line = user_line() or ""
        self.notes.backward_at[line] = self.notes.backward_at.get(line, 0) + 1
        if kw.get("retain_graph"):
            self.notes.retained[line] = self.notes.retained.get(line, 0) + 1
        if not self._cleared:
            self._guard(self._note_cleared)()
        if tensor.grad_fn is not None:
            self._guard(self._note_leaves)(tensor, bool(kw.get("retain_graph")))
        self._first, self._embedded = None, []
        if self._values:
            self._guard(self._note_slopes)(tensor)
        return before(tensor, *args, **kw)

    def _note_slopes(self, root: Tensor) -> None:
        """In which direction losses go when what backward begins with goes down. Only the nodes
        between the two run."""
        values, self._values = self._values, []
        if root.numel() != 1 or root.grad_fn is None:
            return
        slopes = []
        for call, value in values:
            slope: Any = 1.0
            if value is not root:
                with rushlight.enable_grad():
                    (slope,) = rushlight.autograd.grad(
                        root, value, retain_graph=True, allow_unused=True
                    )
            by = 0.0 if slope is None else float(slope)
            if len(values) == 1 and call.samples:
                call.shares.append(by * call.samples)
            if by > 0 or by < 0:  # not NaN
                slopes.append((call, 1 if by > 0 else -1))
        # Beside a loss that goes down, one that goes up is an adversary's, and meant.
        lowered = any(slope > 0 for _, slope in slopes)
        for call, sign in slopes:
            if sign > 0 or not lowered:
                call.slopes.append(sign)

    def _note_cleared(self) -> None:
        """Another loss may send gradients first, as the two networks of a GAN do to each other, so
        every backward between two steps is asked."""
        optimizer = self.notes.optimizers[self._first_optimizer or 0]
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None and bool((parameter.grad != 0).any()):
                    return
        self._cleared = True

    # ---- optimisers

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        first = next((id(p) for g in optimizer.param_groups for p in g["params"]), None)
        if self._first_optimizer is None:
            self._first_optimizer, self._first_parameter = id(optimizer), first
            self.notes.steps_of[id(optimizer)] = self.notes.steps
        elif id(optimizer) not in self.notes.optimizers and first == self._first_parameter:
            self.notes.remade += 1  # its steps go on as those of the one before
            self._first_optimizer = id(optimizer)
            self.notes.steps_of[id(optimizer)] = self.notes.steps
        if id(optimizer) not in self.notes.optimizers:
            self.notes.optimizers[id(optimizer)] = optimizer
            self.notes.lines_of[id(optimizer)] = user_line()
            self._note_constant(optimizer)
        steps = self.notes.steps_of.setdefault(id(optimizer), [])
        if id(optimizer) != self._first_optimizer:
            if len(steps) < _MOST_STEPS:
                steps.append(self._step_of(optimizer))
            return
        self.notes.step_line = self.notes.step_line or user_line()
        if not self._cleared and self._backward_line:
            line = self._backward_line
            self.notes.stale[line] = self.notes.stale.get(line, 0) + 1
        self.notes.anomaly = self.notes.anomaly or rushlight.is_anomaly_enabled()
        step = self._step_of(optimizer)
        for parameter, name in self._parameters(optimizer):
            last = self._last.pop(id(parameter), None)
            if last is not None and last.shape == parameter.shape:
                size = max(float(last.float().norm()), 1e-30)
                step.moved[name] = float((parameter.detach() - last).float().norm()) / size
        step.rates = [float(g["lr"]) for g in optimizer.param_groups if "lr" in g]
        steps.append(step)

    def _note_constant(self, optimizer: Any) -> None:
        matrices = [
            (parameter, name)
            for parameter, name in self._parameters(optimizer)
            if parameter.dim() >= 2
            and min(parameter.shape[:2]) > 1
            and parameter.numel() <= 1 << 24
        ]
        found = [n for p, n in matrices if bool((p.detach() == p.detach().flatten()[0]).all())]
        # Of a chain of layers. Single ones, as heads, and one of two, as in adapters of low rank,
        # are begun with zeros on purpose.
        if len(found) > 1 and 2 * len(found) > len(matrices):
            self.notes.constant += found

    def _step_of(self, optimizer: Any) -> Step:
        """What the gradients are before a step; weights are kept, to see what it changes."""
        step = Step(zero=True)
        total = 0.0
        for parameter, name in self._parameters(optimizer):
            if not parameter.requires_grad:
                continue
            if parameter.grad is None:
                step.without.append(name)
                continue
            gradient = parameter.grad
            gradient = (gradient._vals if gradient.is_sparse else gradient).detach()
            norm = float(gradient.float().norm()) if gradient.numel() else 0.0
            if norm != norm or norm == float("inf"):
                step.bad_gradients.append(name)
                continue
            step.zero = step.zero and norm == 0
            if norm == 0 and parameter.dim() >= 2:
                step.zeros.append(name)
            total += norm * norm
            if parameter.dim() >= 2 and parameter.numel() <= _MOST_UNITS * 64:
                self._before[id(parameter)] = parameter.detach().clone()
                step.sums[name] = float(parameter.detach().double().sum())
        step.gradient_norm = total**0.5
        return step

    def counts(self, optimizer: Any) -> bool:
        """Whether its steps are those of the program: it is the first, or has taken its place."""
        first = next((id(p) for g in optimizer.param_groups for p in g["params"]), None)
        return id(optimizer) == self._first_optimizer or first == self._first_parameter

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._before:
            self._guard(self._note_updates)(optimizer)
            self._before.clear()
        if id(optimizer) != self._first_optimizer:
            return
        self._cleared, self._backward_line = False, ""
        self._on_step()

    def _note_updates(self, optimizer: Any) -> None:
        step = self.notes.steps_of[id(optimizer)][-1]
        for parameter, name in self._parameters(optimizer):
            old = self._before.get(id(parameter))
            if old is not None:
                size = float(old.float().norm())
                if size == 0:
                    self._from_zero.add(id(parameter))
                elif id(parameter) not in self._from_zero:
                    step.updates[name] = float((parameter.detach() - old).float().norm()) / size
                    if id(optimizer) == self._first_optimizer:
                        self._last[id(parameter)] = parameter.detach().clone()

    def _parameters(self, optimizer: Any) -> list[tuple[Any, str]]:
        return [
            (parameter, self.notes.names.get(id(parameter), f"param_groups[{g}]['params'][{i}]"))
            for g, group in enumerate(optimizer.param_groups)
            for i, parameter in enumerate(group["params"])
        ]

    # ---- loaders

    def _iterate(self, before: Callable[..., Any], loader: Any) -> Any:
        self.notes.iterators += 1
        self.notes.iterator_line = user_line()
        iterator = before(loader)
        return Batches(iterator, loader, self.notes)
