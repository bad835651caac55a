"""Export: the module is traced at several sizes, and one program is made of the traces.

1. The example inputs, and inputs whose dynamic sizes are larger (or smaller, where the range says
   so), are traced. Sizes that Python reads carry where they came from (_symbols.py).
2. Numbers that differ between the traces follow sizes (_unify.py); everything else must be equal.
3. Comparisons that Python made of sizes must come out the same in the whole range.
4. The program is compared with the module at further sizes.
"""

from __future__ import annotations

import json
import os
import warnings
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.autograd import no_grad
from rushlight.export._draft_export import FailureReport, FailureType
from rushlight.export._errors import ConstraintViolationError, UserError
from rushlight.export._guards import Guards
from rushlight.export._inputs import Packing
from rushlight.export._module_calls import watched_calls
from rushlight.export._roots import Root, Roots
from rushlight.export._symbols import Book, is_float, watched
from rushlight.export._unify import Mismatch, Numbers, Writer
from rushlight.export.dynamic_shapes import MOST
from rushlight.jit._calls import joined, noted
from rushlight.jit._program import Code
from rushlight.jit._trace import TracerWarning, _asks_for_mode, _difference, _state_of, _Undone

__all__ = ["Exporting", "Trace"]


class Trace:
    """The module, traced at one point."""

    function: dict[str, Any]

    def __init__(self, job: Exporting, tensors: list[Tensor]) -> None:
        tracer = _C._jit_tracer(job.rows, job.aliases, *job.modes, None)
        self.book, self.num_inputs = Book(tracer), len(tensors)
        given = [
            _C._jit_add_input(tracer, row.name, tensor)
            for row, tensor in zip(job.roots.inputs, tensors, strict=True)
        ]
        args, kwargs = job.packing.pack(given)
        with (
            watched(self.book),
            noted() as calls,
            watched_calls(job.module, tracer, job.paths, job.rows) as found,
        ):
            _C._jit_watch(tracer, True)
            try:
                output = job.module(*args, **kwargs)
            finally:
                _C._jit_watch(tracer, False)
        self.module_calls, self.kept_calls = found
        for text, file, line in _C._jit_warnings(tracer):
            what = text.removeprefix("trace: ").partition(";")[0]
            if "its length" in what or "as many items" in what:
                continue  # a size; the traces at other sizes tell what became of it
            job.fail(
                UserError(
                    f"export: {what} (at {file}:{line}), so the program would depend on values; "
                    "use where() instead of a branch, or jit.script for a module that branches by "
                    "values"
                ),
                FailureType.DATA_DEPENDENT_ERROR,
                "goes on as it did with the example inputs",
            )
        self.leaves = _flat(output)
        leaves = [x for x in self.leaves if isinstance(x, Tensor)]
        if not leaves:
            raise UserError("export: the module returns no tensor")
        self.output = Packing(output, "the output")
        self.output.fixed = [_plain(x) for x in self.output.fixed]
        capsule = _C._jit_finish(tracer, "forward", tuple(leaves))
        self.code = joined(Code(capsule), calls, job.rows, job.module)
        self.sizes = _C._jit_value_sizes(tracer)
        self.lines = _C._jit_lines(tracer)
        self.program = json.loads(_C._jit_as_functions(self.code.capsule))
        self.function = next(f for f in self.program["functions"] if f["method"])

    def line(self, op: int) -> str:
        """Where the instruction came from, for messages."""
        found = self.lines[op] if op < len(self.lines) else None
        ops = [s["op"] for s in _all_ops(self.function["body"])]
        what = f"{ops[op]}()" if op < len(ops) else "the end"
        return what if found is None else f"{what} at {found[0]}:{found[1]}"


def _all_ops(body):
    from rushlight.export._unify import statements_of

    return (s for s in statements_of(body) if "op" in s)


def _plain(x):
    """A number without its expression."""
    if isinstance(x, int) and not isinstance(x, bool):
        return int(x)
    return float(x) if isinstance(x, float) else x


def _flat(value):
    from rushlight.utils._pytree import tree_leaves

    return tree_leaves(value)


class Exporting:
    """One export under way."""

    def __init__(
        self, module: Any, packing: Packing, roots: Roots,
        failures: list[FailureReport] | None = None, paths: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self.module, self.packing, self.roots = module, packing, roots
        self.paths = paths  # of submodules whose signatures are kept
        self.failures = failures  # of a draft: what is noted instead of raised
        self.rows, self.aliases = _state_of(module)
        self.modes = (module.training, any(map(_asks_for_mode, module.modules())))
        self.buffers = [tensor for _, tensor, is_parameter, _ in self.rows if not is_parameter]

    def run(self) -> tuple[Code, Trace, Roots]:
        """The program, the trace of the example inputs, and what became of the sizes."""
        with _Undone(self.buffers), warnings.catch_warnings():
            warnings.simplefilter("ignore", TracerWarning)
            self.base = Trace(self, self.roots.resized({}))
            self._fix_unchangeable()
            try:
                code = self.joined()
            except Exception as error:
                if self.failures is not None and isinstance(error, ConstraintViolationError):
                    code = self._drafted(error)
                elif not any(root.kind == "AUTO" for root in self.roots.all):
                    raise
                else:
                    self._settle_auto()
                    code = self.joined()
            return code, self.base, self.roots

    def fail(self, error: UserError, kind: FailureType, became: str) -> None:
        """Raises the error, or notes it in a draft, once."""
        if self.failures is None:
            raise error
        reason = str(error).removeprefix("export: ")
        if all(known.data["reason"] != reason for known in self.failures):
            self.failures.append(FailureReport(kind, {"reason": reason, "became": became}))

    def _drafted(self, error):
        """The program for those of the sizes that can change, or for the example's alone."""
        wanted = self.roots.all
        for root in wanted:
            root.kind = "AUTO"
        self._settle_auto()
        try:
            code = self.joined()
        except ConstraintViolationError as another:  # also with the sizes of the example
            if str(another) != str(error):
                self.fail(another, FailureType.DATA_DEPENDENT_ERROR, "does as it did when traced")
            self.roots = self.roots.keep([])
            code = self._written([self.base])
        left = {root.name for root in self.roots.all}
        stay = ", ".join(f"'{r.name}' is {r.size}" for r in wanted if r.name not in left)
        self.fail(error, FailureType.GUARD_ADDED, stay or "takes the sizes that are left")
        return code

    def _fix_unchangeable(self):
        """A range of one size is a size that stays."""
        self.roots = self.roots.keep([r for r in self.roots.all if r.values(1, 0)])

    def _settle_auto(self):
        """Dim.AUTO: a size may change by itself, or together with equal ones, or not at all."""
        fixed = [r for r in self.roots.all if r.kind != "AUTO"]
        alone, rest, everything = [], [], self.roots
        for root in everything.all:
            if root.kind == "AUTO":
                (alone if self._works(everything.keep([root])) else rest).append(root)
        groups: dict[int, list[Root]] = {}
        for root in rest:
            groups.setdefault(root.size, []).append(root)
        for members in groups.values():
            if len(members) < 2:
                continue
            low, high = max(m.min for m in members), min(m.max for m in members)
            joint = Root(members[0].name, members[0].size, low, high, "AUTO")
            joint.places = [p for m in members for p in m.places]
            if self._works(everything.keep([joint])):
                alone.append(joint)
        self.roots = everything.keep([*fixed, *alone])

    def _works(self, roots):
        before, self.roots = self.roots, roots
        try:
            self.joined()
            return True
        except Exception:
            return False
        finally:
            self.roots = before

    def points(self) -> list[dict[str, int]]:
        """Sizes to trace at, besides the example's; the last ones are for the comparison."""
        count = 3
        rows = [root.values(count, i) for i, root in enumerate(self.roots.all)]
        return [
            {
                root.name: row[min(k, len(row) - 1)]
                for root, row in zip(self.roots.all, rows, strict=True)
            }
            for k in range(count)
        ]

    def joined(self) -> Code:
        """The program for all sizes; raises ConstraintViolationError where there is none."""
        if not self.roots.all:
            code = self._written([self.base])
            self._compare(code, {})
            return code
        Guards(self.roots).narrow(self.base.book.guards)
        self._fix_unchangeable()
        points = self.points()
        traces = [self.base]
        for values in points[:2]:
            traces.append(self._trace_at(values))
        try:
            code = self._written(traces)
        except Mismatch as why:
            raise self._explained(why, traces, points) from None
        self._compare(code, points[2])
        return code

    def _trace_at(self, values):
        try:
            return Trace(self, self.roots.resized(values))
        except Exception as error:
            raise self._refused(values, error) from error

    def _refused(self, values, error):
        """Why the module does not take other sizes."""
        names = [root.name for root in self.roots.all]
        if len(names) > 1:
            bad = [r for r in self.roots.all if not self._takes({r.name: values[r.name]})]
            together = {}
            for r in bad:
                together.setdefault(r.size, []).append(r)
            for size, members in together.items():
                joint = {m.name: size + 1 for m in members}
                if len(members) > 1 and self._takes(joint):
                    names = " and ".join(f"'{m.name}'" for m in members)
                    return ConstraintViolationError(
                        f"export: {names} must be equal: with one of them alone changed, the "
                        f"module raises {type(error).__name__}: {error}; use one Dim for both"
                    )
            if bad:
                values = {bad[0].name: values[bad[0].name]}
        return ConstraintViolationError(
            f"export: with {self.roots.shown(values)} the module raises {type(error).__name__}: "
            f"{error}{_line_of(error)}; give the Dim a range that it takes (min, max), write it as "
            "a multiple (2*dim), or let the size stay (None)"
        )

    def _takes(self, values):
        try:
            with no_grad():
                args, kwargs = self.packing.pack(self.roots.resized(values))
                self.module(*args, **kwargs)
            return True
        except Exception:
            return False

    def _explained(self, why, traces, points):
        """The message for traces that differ."""
        other = traces[why.other]
        values = points[why.other - 1]
        where = self.roots.shown(values)
        for one, two in zip(self.base.book.guards, other.book.guards, strict=False):
            if one[:3] != two[:3] or one.at != two.at:
                break
            if one.held != two.held:
                text = Guards(self.roots).shown(one)
                return ConstraintViolationError(
                    f"export: {text} at {one.at[0]}:{one.at[1]} is {one.held} with the example "
                    f"inputs and {two.held} with {where}, and the module goes another way; give "
                    "the Dim a range in which it is the same (min, max), or let the size stay "
                    "(None)"
                )
        if why.number is not None:
            return ConstraintViolationError(
                f"export: a number of {self.base.line(why.op)} is {why.number[0]} with the example "
                f"inputs and {why.number[why.other]} with {where}, and export cannot tell how it "
                "follows the sizes; compute it from x.shape by whole-number arithmetic"
            )
        return ConstraintViolationError(
            f"export: with {where} the module goes another way: {other.line(why.op)} instead of "
            f"{self.base.line(why.op)}; a loop over a size, a branch by a size or a number made "
            "of one is in the way; let the size stay (None), or script the module"
        )

    def _written(self, traces):
        """Code for what the traces have in common."""
        numbers = Numbers(traces)
        writer = Writer(traces, numbers)
        writer.collect()
        guards = Guards(self.roots)
        kept = guards.checked(self.base.book.guards, numbers)
        for guard in kept:
            writer.need(guard.left)
            writer.need(guard.right)
        for i, leaf in enumerate(self.base.leaves):
            expr = None if isinstance(leaf, Tensor) else self._followed_output(i, numbers, traces)
            if expr is not None:
                writer.need(expr)
        guards.check_inputs(writer)
        writer.read_sizes(range(self.base.num_inputs))
        due = sorted(kept, key=guards.known_after)

        def after(count):
            while due and guards.known_after(due[0]) < count:
                guards.write(writer, due.pop(0))

        after(self.base.num_inputs)
        program = dict(self.base.program)
        body = writer.write(after)
        program["functions"] = [
            {**f, "locals": writer.locals, "body": body} if f is self.base.function else f
            for f in program["functions"]
        ]
        self.numbers_of_calls = self._numbers_of_calls(writer)
        self._write_output(program["functions"][-1], writer, traces)
        state = [row[1] for row in self.rows]
        return Code(_C._jit_script(json.dumps(program), state, self.base.code.constants))

    def _numbers_of_calls(self, writer):
        """{expression: local} of the numbers that kept calls have, where sizes may change."""
        found = {}
        for call in self.base.kept_calls.values() if self.roots.all else ():
            for kind, index in (*call.sources, *call.results):
                operand = writer.operand(index[1]) if kind == "expr" else None
                if isinstance(operand, int):
                    found[index[1]] = operand
        return found

    def _write_output(self, function, writer, traces):
        """Tensors, and numbers that follow sizes, in order: one as it is, several as a tuple."""
        body = function["body"]
        made = next(s for s in reversed(body) if "make" in s)
        del body[body.index(made) :]
        tensors = iter(made["make"])
        operands, kinds, places = [], [], []
        for i, leaf in enumerate(self.base.leaves):
            if isinstance(leaf, Tensor):
                operand, kind = next(tensors), "Tensor"
            else:
                expr = self._followed_output(i, writer.numbers, traces)
                if expr is None:
                    continue
                operand, kind = writer.operand(expr), "float" if is_float(expr) else "int"
            operands.append(operand)
            kinds.append(kind)
            places.append(i)
        self.base.output.tensors = places
        for i in places:
            self.base.output.fixed[i] = None
        if len(operands) > 1:
            to = writer.local(f"Tuple[{', '.join(kinds)}]")
            body.append({"make": operands, "to": to})
            operands = [to]
            kinds = [writer.locals[to]]
        body.append({"return": operands[0]})
        function["returns"] = kinds[0]

    def _followed_output(self, i, numbers, traces):
        """The expression of a number among the outputs; None where it is always the same."""
        if any(len(t.leaves) != len(self.base.leaves) for t in traces):
            raise Mismatch(len(self.base.lines), 1)
        values = tuple(t.leaves[i] for t in traces)
        if all(v == values[0] for v in values):
            return None
        plain = {int} if isinstance(values[0], int) else {float}
        expr = None
        if all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
            expr = numbers.find(tuple(next(iter(plain))(v) for v in values))
        if expr is None:
            raise Mismatch(len(self.base.lines), 1, values)
        return expr

    def _compare(self, code, values):
        """Runs program and module with the same inputs."""
        tensors = self.roots.resized(values)
        with no_grad(), _Undone(self.buffers) as undone:
            args, kwargs = self.packing.pack([t.detach().clone() for t in tensors])
            try:
                expected = self.module(*args, **kwargs)
            except Exception as error:
                raise self._refused(values, error) from error
            undone.now()
            state = [row[1] for row in self.rows]
            attributes = _C._jit_attributes(code.capsule) if code.attributes else None
            copies = [t.detach().clone() for t in tensors]
            found = code.run("forward", state, copies, {}, attributes)
            right_leaves = _flat(expected)
            pairs = zip(
                [right_leaves[i] for i in self.base.output.tensors], _flat(found), strict=True
            )
            for i, (right, made) in enumerate(pairs):
                if isinstance(right, Tensor):
                    how = _difference(right, made, 1e-5)
                else:
                    how = None if right == made else f"{made} instead of {right}"
                if how:
                    where = self.roots.shown(values) or "the example inputs"
                    raise ConstraintViolationError(
                        f"export: with {where}, output {i} of the program differs from the "
                        f"module's, {how}; does it draw random numbers by itself, keep something "
                        "from call to call, or depend on a size in a way that export cannot see?"
                    )


def range_of(root: Root) -> tuple[int, int]:
    """For ExportedProgram.range_constraints."""
    return root.min, min(root.max, MOST)


def _line_of(error):
    """The innermost line of the user's program that an error came from."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
    trace, found = error.__traceback__, ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith(package):
            found = f" (at {file}:{trace.tb_lineno})"
        trace = trace.tb_next
    return found
