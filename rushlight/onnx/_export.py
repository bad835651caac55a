"""Modules and programs written as ONNX."""

from __future__ import annotations

import contextlib
import inspect
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rushlight._C import Tensor
from rushlight.autograd import no_grad
from rushlight.jit._program import ScriptFunction, TopLevelTracedModule
from rushlight.jit._scripted import RecursiveScriptModule
from rushlight.nn import Module
from rushlight.onnx import _layers, _pointwise, _reducing, _shaping
from rushlight.onnx._aliases import Aliases, is_in_place
from rushlight.onnx._axes import axes_of, close, grown
from rushlight.onnx._folding import Folded
from rushlight.onnx._functions import forward_only
from rushlight.onnx._lines import LineFinder
from rushlight.onnx._read import ProgramData, has_functions, read_by
from rushlight.onnx._writer import TRANSLATIONS, Call, UnsupportedError, Writer, onnx_type
from rushlight.utils import _pytree

_FAMILIES = (_layers, _pointwise, _reducing, _shaping)  # they fill TRANSLATIONS
OLDEST, DEFAULT = 18, 18
_of_thread = threading.local()  # .exporting: models see exports of their own thread


class OnnxExporterError(RuntimeError):
    """The model cannot be written as ONNX."""


class UnsupportedOperatorError(OnnxExporterError):
    """An operator has no translation."""


class ONNXProgram:
    """A model in ONNX's form: `export` makes it, `save` writes it, a call runs it in onnxruntime.

    Arguments:
        model_proto (onnx.ModelProto): the model, as the package onnx has it.

    Raises:
        ImportError: when it is called where onnxruntime is not installed.

    Differs from PyTorch: it holds `model_proto` alone, no `model` of the package onnx_ir.

    Example:
        >>> program = rl.onnx.export(nn.ReLU(), rl.zeros(3))
        >>> same = rl.onnx.ONNXProgram(program.model_proto)
        >>> same(rl.tensor([-1.0, 0.0, 2.0]))
        [tensor([0., 0., 2.])]
    """

    def __init__(self, model_proto: Any) -> None:
        self.model_proto = model_proto
        self._session: Any = None

    def save(
        self, destination: str | os.PathLike[str] | Any, *, include_initializers: bool = True,
        keep_initializers_as_inputs: bool = False, external_data: bool | None = None,
    ) -> None:  # fmt: skip
        """Writes the model to a path or an open file. With external_data the weights go to a file
        beside it, "<destination>.data"."""
        import onnx

        if not include_initializers or keep_initializers_as_inputs:
            raise NotImplementedError("ONNXProgram.save: weights are written with the model")
        if hasattr(destination, "write"):
            destination.write(self.model_proto.SerializeToString())
            return
        path = os.fspath(destination)
        if not external_data:
            onnx.save_model(self.model_proto, path)
            return
        weights = f"{os.path.basename(path)}.data"
        with contextlib.suppress(FileNotFoundError):
            os.remove(f"{path}.data")  # onnx appends
        copy = onnx.ModelProto()
        copy.CopyFrom(self.model_proto)
        onnx.save_model(copy, path, save_as_external_data=True, location=weights,
                        all_tensors_to_one_file=True)  # fmt: skip

    def __call__(self, *args: Any, **kwargs: Any) -> list[Tensor]:
        """The outputs, computed by onnxruntime."""
        from rushlight import from_numpy

        try:
            import onnxruntime
        except ImportError:
            raise ImportError("ONNXProgram: running it needs onnxruntime; "
                              "pip install onnxruntime") from None  # fmt: skip
        if self._session is None:
            self._session = onnxruntime.InferenceSession(self.model_proto.SerializeToString())
        leaves = [x for x in _pytree.tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        names = [x.name for x in self._session.get_inputs()]
        fed = {n: x.detach().cpu().numpy() for n, x in zip(names, leaves, strict=True)}
        return [from_numpy(found) for found in self._session.run(None, fed)]


def export(
    model: Module | Callable[..., Any], args: Any = (), f: str | os.PathLike[str] | Any = None, *,
    kwargs: dict[str, Any] | None = None, verbose: bool | None = None,
    input_names: Sequence[str] | None = None, output_names: Sequence[str] | None = None,
    opset_version: int | None = None, dynamo: bool = True, external_data: bool = True,
    dynamic_shapes: Any = None, custom_translation_table: dict[Any, Any] | None = None,
    report: bool = False, optimize: bool = True, verify: bool = False, profile: bool = False,
    dump_exported_program: bool = False, artifacts_dir: str | os.PathLike[str] = ".",
    fallback: bool = False, export_params: bool = True,
    keep_initializers_as_inputs: bool = False, dynamic_axes: Any = None, training: int = 0,
    do_constant_folding: bool = True, **ignored: Any,
) -> ONNXProgram:  # fmt: skip
    """Writes a model as ONNX, by a trace with the example inputs.

    Arguments:
        model (Module or function): what to write; a traced or scripted one as well.
        args (tuple or Tensor): the example inputs.
        f (path or open file, optional): where to write; None only returns the program.
        kwargs (dict, optional): named example inputs.
        input_names, output_names (list of str, optional): names of the inputs and outputs.
        opset_version (int, optional): of ONNX's operators, 18 or newer; None is 18.
        external_data (bool): the weights of a path go to a file beside it, "<f>.data".
        dynamic_axes (dict, optional): dims whose sizes may change: {name of an input or output:
            {dim: name} or [dims]}.
        dynamic_shapes (dict or tuple, optional): the same, by input.
        training (TrainingMode): EVAL, PRESERVE or TRAINING: the mode for the time of the export.
        verify (bool): compare what onnxruntime computes with what the model does.
        custom_translation_table: not supported; one that is not empty raises.
        verbose, dynamo, report, optimize, profile, dump_exported_program, artifacts_dir: accepted.
        fallback, export_params, keep_initializers_as_inputs, do_constant_folding: accepted.

    Returns:
        ONNXProgram: the model, also where it has been written.

    Raises:
        ImportError: where the package onnx is not installed.
        ValueError: for an opset_version that cannot be written.
        UnsupportedOperatorError: for an operator without a translation; it names the line.

    Differs from PyTorch: one exporter, whatever `dynamo` says.

    Example:
        >>> names = {"input_names": ["x"], "output_names": ["y"]}
        >>> program = rl.onnx.export(nn.Linear(3, 2), rl.zeros(1, 3), **names,
        ...                          dynamic_axes={"x": {0: "batch"}})
        >>> [x.name for x in program.model_proto.graph.input], program(rl.zeros(5, 3))[0].shape
        (['x'], rushlight.Size([5, 2]))
    """
    _needs_onnx()
    opset = DEFAULT if opset_version is None else opset_version
    newest = _newest_opset()
    if not OLDEST <= opset <= newest:
        raise ValueError(f"onnx.export: opset_version must be {OLDEST} to {newest}, got {opset}")
    if custom_translation_table:
        raise NotImplementedError("onnx.export: custom_translation_table is not supported")
    args, kwargs = _split_arguments(args, kwargs)
    with _mode_of(model, training), _flagged():
        program = _Export(model, args, kwargs, opset).run(
            input_names, output_names, dynamic_axes, dynamic_shapes
        )
        if verify:
            _verify(program, model, args, kwargs)
    if f is not None:
        program.save(f, external_data=external_data)
    return program


def _needs_onnx() -> None:
    try:
        import onnx  # noqa: F401
    except ImportError:
        raise ImportError(
            "onnx.export: writing ONNX needs the package onnx; pip install onnx"
        ) from None


def _newest_opset() -> int:
    import onnx

    return onnx.defs.onnx_opset_version()


def _split_arguments(args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(args, Tensor) or not isinstance(args, (tuple, list)):
        args = (args,)
    args = tuple(args)
    if kwargs is None and args and isinstance(args[-1], dict):  # PyTorch's older way
        args, kwargs = args[:-1], args[-1]
    return args, dict(kwargs or {})


@contextlib.contextmanager
def _mode_of(model: Any, training: int) -> Iterator[None]:
    """Evaluation mode (0), as it is (1), or training mode (2)."""
    if not isinstance(model, Module) or isinstance(model, TopLevelTracedModule) or training == 1:
        yield
        return
    before = {module: module.training for module in model.modules()}
    model.train(training == 2)
    try:
        yield
    finally:
        for module, mode in before.items():
            module.training = mode


@contextlib.contextmanager
def _flagged() -> Iterator[None]:
    before = is_exporting()
    _of_thread.exporting = True
    try:
        yield
    finally:
        _of_thread.exporting = before


def is_exporting() -> bool:
    """Whether this thread exports a model."""
    return getattr(_of_thread, "exporting", False)


class _Bound(Module):
    """A model with its arguments, of which only the tensors are inputs."""

    def __init__(self, model: Any, spec: Any, leaves: list[Any]) -> None:
        super().__init__()
        self.model = model
        self._spec = spec
        self._leaves = [None if isinstance(leaf, Tensor) else (leaf,) for leaf in leaves]

    def forward(self, *tensors: Tensor) -> Any:
        given = iter(tensors)
        leaves = [next(given) if leaf is None else leaf[0] for leaf in self._leaves]
        args, kwargs = _pytree.tree_unflatten(leaves, self._spec)
        return self.model(*args, **kwargs)


class _Export:
    """One model on its way."""

    def __init__(
        self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], opset: int
    ) -> None:
        self.model, self.args, self.kwargs, self.opset = model, args, kwargs, opset
        leaves, self.spec = _pytree.tree_flatten((args, kwargs))
        self.tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        if _is_traced(model):
            self.callable: Any = model
            self.traced = model
        else:
            self.callable = _Bound(model, self.spec, leaves)
            self.traced = self._trace(self.tensors)
        self.data = ProgramData(self.traced)
        self.data.state_names = [n.removeprefix("model.") for n in self.data.state_names]

    def _trace(self, tensors: list[Tensor]) -> Any:
        from rushlight.jit import trace
        from rushlight.jit._calls import flattened

        if isinstance(self.model, Module):
            self.callable.train(self.model.training)
            for module in self.model.modules():
                module.training = module.training
        with no_grad(), forward_only():
            with flattened():
                return trace(self.callable, tuple(tensors), check_trace=False, strict=False)

    def run(
        self, input_names: Any, output_names: Any, dynamic_axes: Any, dynamic_shapes: Any
    ) -> ONNXProgram:
        numbers = [p["value"] for row in self.data.inputs for p in self.data.leaves(row["value"])]
        names = self._input_names(input_names, len(numbers))
        outputs = list(self.data.leaves(self.data.output))
        out_names = self._output_names(output_names, len(outputs))
        axes = axes_of(names, out_names, dynamic_axes, dynamic_shapes, self._parameter_names())
        writer = Writer(self.data, self.opset)
        self._learn_sizes(writer, numbers, names, axes)
        for number, name in zip(numbers, names, strict=True):
            writer.names[number] = name
        self._translate(writer)
        return ONNXProgram(self._model(writer, numbers, names, outputs, out_names, axes))

    # ---- names

    def _parameter_names(self) -> list[str]:
        """The names of the arguments of the model, for dynamic_shapes and as names of inputs."""
        function = self.model.forward if isinstance(self.model, Module) else self.model
        try:
            bound = inspect.signature(function).bind(*self.args, **self.kwargs).arguments
        except (TypeError, ValueError):
            return []
        found = []
        for name, value in bound.items():
            count = sum(isinstance(x, Tensor) for x in _pytree.tree_leaves(value))
            found += [name] if count == 1 else [f"{name}_{i}" for i in range(count)]
        return found

    def _input_names(self, given: Any, count: int) -> list[str]:
        names = list(given or [])
        if len(names) > count:
            raise ValueError(f"onnx.export: {len(names)} input_names for {count} inputs: {names}")
        known = self._parameter_names()
        known = known if len(known) == count else [f"input_{i}" for i in range(count)]
        return names + known[len(names) :]

    @staticmethod
    def _output_names(given: Any, count: int) -> list[str]:
        names = list(given or [])
        if len(names) > count:
            raise ValueError(f"onnx.export: {len(names)} output_names for {count} outputs: {names}")
        return names + [f"output_{i}" for i in range(len(names), count)]

    # ---- sizes

    def _learn_sizes(
        self, writer: Writer, numbers: list[int], names: list[str], axes: dict[str, dict[int, str]]
    ) -> None:
        """Runs the program with the example, and with longer inputs where sizes may change."""
        self.folded = Folded(self.data, bool(axes))
        reads = [
            (at, number)
            for at, row in enumerate(
                [*self.data.body, {"args": {"": self.data.output}, "results": [-1]}]
            )
            if not self.folded.is_folded(row)
            for number in set(read_by(row))
            if number in self.folded
        ]
        every = self.data.values(*self._inputs(self.tensors), reads)
        self.reads = {key: every.pop(key) for key in reads}
        writer.tensors = every
        writer.shapes = {n: list(x.shape) for n, x in every.items()}
        wanted = {(i, dim): name for i, input_name in enumerate(names)
                  for dim, name in axes.get(input_name, {}).items()}  # fmt: skip
        if not wanted:
            return
        for i, dim in wanted:
            if not 0 <= dim < self.tensors[i].dim():
                raise ValueError(f"onnx.export: {names[i]} has no dim {dim}; its shape is "
                                 f"{list(self.tensors[i].shape)}")  # fmt: skip
        longer = self._longer(wanted, names)
        for number, tensor in longer.items():
            known = writer.shapes[number]
            writer.shapes[number] = [
                a if a == b else None for a, b in zip(known, tensor.shape, strict=True)
            ]
        for which, (value, dim) in enumerate(self.data.sizes):
            if writer.shapes[value][dim] is None:
                writer.dynamic.add(which)

    def _inputs(self, tensors: list[Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if isinstance(self.callable, _Bound):
            return tuple(tensors), {}
        given = iter(tensors)
        leaves, spec = _pytree.tree_flatten((self.args, self.kwargs))
        leaves = [next(given) if isinstance(x, Tensor) else x for x in leaves]
        return _pytree.tree_unflatten(leaves, spec)

    def _longer(self, wanted: dict[tuple[int, int], str], names: list[str]) -> dict[int, Tensor]:
        """All values with longer inputs, if the program does there what the model does."""
        reasons = []
        together = sorted(set(wanted.values()))
        # Each by its own number; all by one, as some must stay equal; each to its double, as some
        # models take multiples only.
        tries: list[dict[str, int] | None] = [
            {n: 2 + 2 * k for k, n in enumerate(together)}, dict.fromkeys(together, 2), None,
        ]  # fmt: skip
        for steps in tries:
            tensors = [
                grown(x, {
                    dim: x.shape[dim] if steps is None else steps[name]
                    for (i, dim), name in wanted.items() if i == at
                })
                for at, x in enumerate(self.tensors)
            ]  # fmt: skip
            try:
                args, kwargs = self._inputs(tensors)
                with no_grad(), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    expected = self.callable(*args, **kwargs)
                    found = self.traced(*args, **kwargs)
                    if not close(found, expected):
                        reasons.append("the results differ: a number of the example stands in it")
                        continue
                    return self.data.values(args, kwargs)
            except Exception as error:
                reasons.append(str(error).strip().splitlines()[0])
        axes = ", ".join(f"{names[i]} dim {dim}" for i, dim in wanted)
        raise OnnxExporterError(
            f"onnx.export: sizes cannot change as asked ({axes}): with longer inputs, "
            f"{reasons[0]}. Programs follow the first two sizes of their inputs; make other sizes "
            "fixed, or write them without numbers (flatten, -1, adaptive pools)"
        )

    # ---- writing

    def _translate(self, writer: Writer) -> None:
        aliases = Aliases(self.data)
        seen: dict[str, int] = {}
        for at, row in enumerate(self.data.body):
            op = row["op"]
            seen[op] = seen.get(op, 0) + 1
            if self.folded.is_folded(row):
                continue
            self._name_constants(writer, at)
            try:
                if row.get("autocast"):
                    raise UnsupportedError("it runs inside autocast, which ONNX does not know")
                in_place = is_in_place(op)
                base = op if op in TRANSLATIONS else op[:-1] if in_place else op
                if base not in TRANSLATIONS:
                    raise UnsupportedError("it has no translation")
                call = Call(writer, row | {"op": base})
                found = TRANSLATIONS[base](call)
                if in_place:
                    written = aliases.write(at, row)
                    found = call.cast(found, call.result().dtype, writer.tensors[written].dtype)
                else:
                    aliases.note(row)
            except UnsupportedError as error:
                raise UnsupportedOperatorError(
                    f"onnx.export: the operator {op!r} cannot be written (opset {self.opset}): "
                    f"{error}{self._line_of(op, seen[op])}"
                ) from None
            found = found if isinstance(found, list) else [found]
            for results, names in zip(row["results"], found, strict=True):
                for number, name in zip(*map(_listed, (results, names)), strict=True):
                    writer.names[number] = name
            if in_place:
                for number in [written, *(v for v in writer.names if aliases.same(v) == written)]:
                    writer.names[number] = found[0]
        self._name_constants(writer, len(self.data.body))

    def _name_constants(self, writer: Writer, at: int) -> None:
        """What an instruction reads of memory that is a constant whenever it is read."""
        for (instruction, number), tensor in self.reads.items():
            if instruction == at:
                writer.names[number] = writer.constant(tensor)

    def _line_of(self, op: str, which: int) -> str:
        """The line of the program that called an operator for the which-th time."""
        finder = LineFinder(op, which)
        with contextlib.suppress(Exception), warnings.catch_warnings(), no_grad():
            warnings.simplefilter("ignore")
            with finder:
                self.callable(*self._inputs(self.tensors)[0])
        return finder.text

    def _model(
        self, writer: Writer, numbers: list[int], names: list[str], outputs: list[Any],
        out_names: list[str], axes: dict[str, dict[int, str]],
    ) -> Any:  # fmt: skip
        import onnx

        helper = onnx.helper
        inputs = []
        for number, name, tensor in zip(numbers, names, self.tensors, strict=True):
            dims = [axes.get(name, {}).get(d, n) for d, n in enumerate(tensor.shape)]
            inputs.append(helper.make_tensor_value_info(name, onnx_type(tensor.dtype), dims))
            del number
        results = []
        call = Call(writer, {"op": "", "args": {}, "results": []})
        for place, name in zip(outputs, out_names, strict=True):
            writer.nodes.append(helper.make_node("Identity", [call.name_of(place)], [name]))
            example = call.example(place)
            known = writer.shapes.get(place.get("value"), list(example.shape))
            given = axes.get(name, {})
            dims = [given.get(d, f"{name}_{d}" if n is None else n) for d, n in enumerate(known)]
            results.append(helper.make_tensor_value_info(name, onnx_type(example.dtype), dims))
        nodes = _needed(writer.nodes, out_names)
        used = {name for node in nodes for name in node.input}
        kept = [proto for name, proto in writer.initializers.items() if name in used]
        graph = helper.make_graph(nodes, "main_graph", inputs, results, kept)
        imports = [helper.make_opsetid("", self.opset)]
        made = helper.make_model(graph, opset_imports=imports, producer_name="rushlight")
        made.ir_version = max(8, helper.find_min_ir_version_for(imports))
        if sum(len(proto.raw_data) for proto in kept) < 2**30:
            onnx.checker.check_model(made)
        return made


def _is_traced(model: Any) -> bool:
    """Whether a model is a program already; scripted ones, which have branches and loops, are
    traced like others."""
    if not isinstance(model, TopLevelTracedModule | ScriptFunction):
        return False
    return not isinstance(model, RecursiveScriptModule) and not has_functions(model)


def _listed(found: Any) -> list[Any]:
    return found if isinstance(found, list) else [found]


def _needed(nodes: list[Any], outputs: list[str]) -> list[Any]:
    """The Nodes that the outputs are made of."""
    wanted, kept = set(outputs), []
    for node in reversed(nodes):
        if any(name in wanted for name in node.output):
            kept.append(node)
            wanted.update(node.input)
    return kept[::-1]


def _verify(program: ONNXProgram, model: Any, args: Any, kwargs: Any) -> None:
    with no_grad():
        expected = model(*args, **kwargs)
    if not close(program(*args, **kwargs), expected):
        raise OnnxExporterError("onnx.export: onnxruntime's results are not the model's")
