"""Tracing: runs a function once and keeps its operators as a program."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.autograd import no_grad
from rushlight.jit._calls import joined, noted
from rushlight.jit._program import Code, ScriptFunction, TopLevelTracedModule
from rushlight.nn import Module

__all__ = ["TracerWarning", "TracingCheckError", "trace", "trace_module"]


class TracerWarning(Warning):
    """Something in a traced function depends on values that the program does not compute."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Does nothing: the warnings name lines of users' programs only."""


class TracingCheckError(Exception):
    """The program that a trace gave does not run with the inputs it is checked with."""


def trace(
    func: Callable[..., Any] | Module,
    example_inputs: Any = None,
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_kwarg_inputs: dict[str, Any] | None = None,
    _store_inputs: bool = True,
) -> TopLevelTracedModule | ScriptFunction:
    """A program that does what the function or module does with the example inputs.

    Python is run once: branches, loops and numbers become what they were. A module gives a module
    that shares its parameters and buffers; a function gives a function.

    Arguments:
        func: a function or a module.
        example_inputs: what it is called with while it is recorded.
        optimize: accepted.
        check_trace: run the program once more and compare.
        check_inputs: further inputs to compare with.
        check_tolerance: how much results may differ.
        strict: accepted.
        example_kwarg_inputs: named ones.

    Example:
        >>> program = rl.jit.trace(lambda x: x.relu() * 2, (rl.zeros(3),), check_trace=True)
        >>> program(rl.tensor([-1.0, 0.0, 1.0]))
        tensor([0., 0., 2.])
    """
    if isinstance(func, TopLevelTracedModule | ScriptFunction):
        warnings.warn("trace: this was traced before; it is returned as it is", stacklevel=2)
        return func
    by_name = example_kwarg_inputs is not None
    example = example_kwarg_inputs if by_name else example_inputs
    owner = getattr(func, "__self__", None)
    if isinstance(owner, Module) and getattr(func, "__name__", "") == "forward":
        func = owner
    if isinstance(func, Module):
        if check_inputs is not None:
            check_inputs = [{"forward": inputs} for inputs in check_inputs]
        return trace_module(
            func, {"forward": example}, optimize, check_trace, check_inputs, check_tolerance,
            strict, example_inputs_is_kwarg=by_name,
        )  # fmt: skip
    _warn_about(optimize)
    traced = _Traced(func, func, "forward", ([], []), (False, False), strict)
    code = _program_of(traced, None, *_call_of(example, by_name))
    if check_trace:
        for inputs in [example] if check_inputs is None else check_inputs:
            traced.warn_of_faults(code, inputs, by_name, check_tolerance)
    return ScriptFunction(code, getattr(func, "__name__", type(func).__name__))


def trace_module(
    mod: Module,
    inputs: dict[str, Any],
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_inputs_is_kwarg: bool = False,
    _store_inputs: bool = True,
) -> TopLevelTracedModule:
    """A module with a program for each of the named methods: {name: its example inputs}.

    Arguments:
        mod: the module.
        inputs: {name of a method: its example inputs}; several inputs are a tuple.
        optimize: has no effect; a warning says so.
        check_trace: whether to run programs and methods again and to warn where they differ.
        check_inputs: a list of dicts like `inputs` for these runs; None is `inputs` itself.
        check_tolerance: how far results may differ.
        strict: whether results that are lists or dicts are refused.
        example_inputs_is_kwarg: whether example inputs are dicts of keyword arguments.

    Example:
        >>> class Net(nn.Module):
        ...     def forward(self, x):
        ...         return x + 1
        ...     def twice(self, x):
        ...         return x * 2
        >>> inputs = {"forward": rl.ones(1), "twice": rl.ones(1)}
        >>> net = rl.jit.trace_module(Net(), inputs, check_trace=False)
        >>> net(rl.tensor([3.0])), net.twice(rl.tensor([3.0]))
        (tensor([4.]), tensor([6.]))
    """
    if not isinstance(mod, Module):
        raise AttributeError(f"trace_module: expected a Module, got {type(mod).__name__}")
    if not isinstance(inputs, dict):
        raise AttributeError("trace_module: inputs must be a dict {method: example inputs}, got "
                             f"{type(inputs).__name__}")  # fmt: skip
    _warn_about(optimize)
    state, modes = _state_of(mod), (mod.training, any(map(_asks_for_mode, mod.modules())))
    code, methods = None, {}
    for name, example in inputs.items():
        function = mod if name == "forward" else getattr(mod, name)
        signature_of = mod.forward if name == "forward" else function
        methods[name] = _Traced(function, signature_of, name, state, modes, strict)
        code = _program_of(methods[name], code, *_call_of(example, example_inputs_is_kwarg))
    if code is None:
        raise ValueError("trace_module: no method was named")
    if check_trace:
        for given in [inputs] if check_inputs is None else check_inputs:
            for name, example in given.items():
                methods[name].warn_of_faults(code, example, example_inputs_is_kwarg,
                                             check_tolerance)  # fmt: skip
    names = [(name, type(part).__name__) for name, part in mod.named_modules()]
    if code.defaults:
        from rushlight.jit._scripted import RecursiveScriptModule

        state_now = [row[1] for row in state[0]]
        return RecursiveScriptModule(code, state_now, type(mod).__name__, names[1:])
    return TopLevelTracedModule(code, [row[1] for row in state[0]], type(mod).__name__, names)


def _warn_about(optimize):
    if optimize is not None:
        warnings.warn("trace: `optimize` is deprecated and has no effect", FutureWarning,
                      stacklevel=3)  # fmt: skip


def _state_of(module):
    """Rows (name, tensor, is_parameter, persistent), and (name, row, the row that it stands before)
    for further names."""
    rows, aliases, seen = [], [], {}

    def add(name, tensor, is_parameter, persistent):
        if tensor is None:
            return
        if id(tensor) in seen:
            aliases.append((name, seen[id(tensor)], len(rows)))
            return
        seen[id(tensor)] = len(rows)
        rows.append((name, tensor, is_parameter, persistent))

    for prefix, part in module.named_modules(remove_duplicate=False):
        dot = f"{prefix}." if prefix else ""
        for name, tensor in part._parameters.items():
            add(dot + name, tensor, True, True)
        for name, tensor in part._buffers.items():
            add(dot + name, tensor, False, name not in part._non_persistent_buffers_set)
    return rows, aliases


def _asks_for_mode(module):
    """Does code of its class read `training`?"""
    for cls in type(module).__mro__:
        if cls is Module:
            return False
        for value in vars(cls).values():
            code = getattr(value, "__code__", None)
            if code is not None and "training" in code.co_names:
                return True
    return False


def _call_of(example, by_name):
    """(args, kwargs) of example inputs as users give them."""
    if by_name:
        if not isinstance(example, dict):
            raise RuntimeError("trace: example_kwarg_inputs must be a dict, got "
                               f"{type(example).__name__}")  # fmt: skip
        return (), example
    if example is None:
        raise RuntimeError("trace: give example_inputs or example_kwarg_inputs, what the model is "
                           "called with: jit.trace(model, x).save(path)")  # fmt: skip
    if isinstance(example, Tensor | dict):
        return (example,), {}
    return tuple(example), {}


def _names_of(function, count):
    """Names for arguments that are given by position."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # written in C
        parameters = []
    names = []
    for p in parameters:
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            names.append(p.name)
        elif p.kind == p.VAR_POSITIONAL:
            names += [f"{p.name}_{i}" for i in range(count - len(names))]
    names += [f"argument_{i}" for i in range(len(names), count)]
    return names[:count]


def _packed_like(given, packed):
    """Named tuples again, where the example has them."""
    if isinstance(given, tuple) and hasattr(given, "_fields"):
        return type(given)(*map(_packed_like, given, packed))
    if isinstance(given, tuple | list):
        return type(packed)(map(_packed_like, given, packed))
    if isinstance(given, dict):
        return {key: _packed_like(given[key], value) for key, value in packed.items()}
    return packed


class _Traced:
    """One function or method that is being traced."""

    def __init__(self, function, signature_of, method, state, modes, strict):
        self.function, self.method, self.strict = function, method, strict
        self.signature_of, self.modes = signature_of, modes
        self.calls, self.owner = [], function if isinstance(function, Module) else None
        self.rows, self.aliases = state
        # What runs that only look must leave as it was; parameters that are written join later.
        self.buffers = [tensor for _, tensor, is_parameter, _ in self.rows if not is_parameter]

    def code(self, before, args, kwargs):
        """What a call with these arguments does, as one more method of the code before."""
        capsule = None if before is None else before.capsule
        tracer = _C._jit_tracer(self.rows, self.aliases, *self.modes, capsule)

        def handed(name, value):
            return _packed_like(value, _C._jit_add_input(tracer, name, value))

        names = _names_of(self.signature_of, len(args))
        args = [handed(name, value) for name, value in zip(names, args, strict=True)]
        kwargs = {name: handed(name, value) for name, value in kwargs.items()}
        try:
            with noted() as self.calls:
                _C._jit_watch(tracer, True)
                output = self.function(*args, **kwargs)
        finally:
            _C._jit_watch(tracer, False)
            for text, file, line in _C._jit_warnings(tracer):
                warnings.warn_explicit(text, TracerWarning, file or "<unknown>", line)
        if self.strict:
            _refuse_mutable(output)
        return Code(_C._jit_finish(tracer, self.method, output))

    def run(self, code, args, kwargs):
        """What the code makes of these arguments."""
        state = [row[1] for row in self.rows]
        return code.run(self.method, state, args, kwargs, self.attributes_of(code))

    @staticmethod
    def attributes_of(code):
        """Of a program with functions: what it keeps from call to call, as it is at first."""
        return _C._jit_attributes(code.capsule) if code.attributes else None

    def faults(self, code, args, kwargs, tolerance):
        """Runs function and program with the same inputs and random numbers; what they do to
        buffers is undone. Returns texts: what differs."""
        with no_grad(), _Undone(self.buffers) as undone:
            expected = self.function(*_copied(args), **_copied(kwargs))
            after = [b.clone() for b in self.buffers]
            undone.now()
            found = self.run(code, _copied(args), _copied(kwargs))
            pairs = [("a buffer", *pair) for pair in zip(after, self.buffers, strict=True)]
            outputs = zip(_leaves(expected), _leaves(found), strict=True)
            pairs += [(f"output {i}", *pair) for i, pair in enumerate(outputs)]
            differences = [
                (what, _difference(right, made, tolerance)) for what, right, made in pairs
            ]
        return [f"{what} differs from the Python function's, {how}" for what, how in differences
                if how]  # fmt: skip

    def warn_of_faults(self, code, example, by_name, tolerance):
        args, kwargs = _call_of(example, by_name)
        try:
            faults = self.faults(code, args, kwargs, tolerance)
        except Exception as error:
            raise TracingCheckError(
                f"trace: the program does not run with the inputs that it is checked with: {error}"
            ) from error
        for fault in faults:
            warnings.warn(
                f"trace: of the program, {fault}; does the function draw random numbers by itself, "
                "or keep something from call to call?",
                TracerWarning,
                stacklevel=4,
            )


def _program_of(traced, before, args, kwargs):
    """The code with this method; its numbers follow sizes of inputs where that can be told."""
    from rushlight.jit._sizes import followed

    counted = [row[1] for row in traced.rows if row[2] and not row[1].is_inference()]
    versions = [parameter._version for parameter in counted]
    code = traced.code(before, args, kwargs)
    for parameter, version in zip(counted, versions, strict=True):
        if parameter._version != version:  # an embedding with max_norm
            traced.buffers.append(parameter)
    calls = traced.calls
    if not calls:
        return followed(traced, before, code, args, kwargs, _Undone) or code

    def with_calls(found):
        return joined(found, calls, traced.rows, traced.owner)

    found = followed(traced, before, code, args, kwargs, _Undone, with_calls)
    return with_calls(code) if found is None else found


class _Undone:
    """A with block after which buffers and random numbers are what they were."""

    def __init__(self, buffers):
        self.buffers = buffers

    def __enter__(self):
        self.random = _C.default_generator.get_state()
        self.values = [b.detach().clone() for b in self.buffers]
        return self

    def now(self):
        _C.default_generator.set_state(self.random)
        with no_grad():
            for buffer, value in zip(self.buffers, self.values, strict=True):
                buffer.copy_(value)

    def __exit__(self, *error):
        self.now()


def _refuse_mutable(output):
    if isinstance(output, list | dict):
        kind = type(output).__name__
        raise RuntimeError(
            f"trace: the output is a {kind}, whose items might depend on the inputs, and the "
            "program would always give as many; return a tuple, or pass strict=False"
        )
    if isinstance(output, tuple):
        for item in output:
            _refuse_mutable(item)


def _leaves(value):
    if isinstance(value, tuple | list):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, dict):
        for key in value:
            yield from _leaves(value[key])
    else:
        yield value


def _copied(value):
    if isinstance(value, Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_copied, value))
    if isinstance(value, tuple | list):
        return type(value)(map(_copied, value))
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return value


def _difference(right, made, tolerance):
    if right is None or made is None:
        return None if right is made else "one of them is None"
    if (right.shape, right.dtype, right.device) != (made.shape, made.dtype, made.device):
        return (f"{made.dtype} {tuple(made.shape)} on {made.device} instead of {right.dtype} "
                f"{tuple(right.shape)} on {right.device}")  # fmt: skip
    if _C.allclose(made, right, rtol=tolerance, atol=tolerance, equal_nan=True):
        return None
    wide = _C.complex128 if right.is_complex() else _C.float64
    return f"by up to {(made.to(wide) - right.to(wide)).abs().max().item():g}"
