"""Comparisons of sizes: what they ask of the ranges, and what the program checks when it runs."""

from __future__ import annotations

import itertools
from typing import Any

from rushlight.export._errors import ConstraintViolationError
from rushlight.export._roots import Root, Roots
from rushlight.export._symbols import COMPARED, Guard, sizes_in
from rushlight.export.dynamic_shapes import MOST

__all__ = ["Guards"]

_NEAR = 2048  # sizes next to the example's are all tried, farther ones by doubling


class Guards:
    """For one export."""

    def __init__(self, roots: Roots) -> None:
        self.roots = roots

    # Names ----------------------------------------------------------------------------------------

    def shown(self, guard: Guard) -> str:
        """`x.shape[0] > 5`."""
        return f"{self._text(guard.left)} {COMPARED[guard.how]} {self._text(guard.right)}"

    def _text(self, expr):
        if expr[0] == "is":
            return str(expr[1])
        if expr[0] == "size":
            if expr[1] < len(self.roots.inputs):
                return f"{self.roots.inputs[expr[1]].path}.shape[{expr[2]}]"
            return f"%{expr[1]}.shape[{expr[2]}]"
        signs = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%",
                 "truediv": "/", "pow": "**"}  # fmt: skip
        name = expr[0].rpartition("_")[0]
        if name in signs and len(expr) == 3:
            return f"({self._text(expr[1])} {signs[name]} {self._text(expr[2])})"
        return f"{expr[0]}({', '.join(map(self._text, expr[1:]))})"

    # Before the program is made -------------------------------------------------------------------

    def narrow(self, guards: list[Guard]) -> None:
        """Before other sizes are tried: ranges of hints shrink to where Python goes the same way;
        raises for a Dim whose range has to."""
        for guard in guards:
            concerned = self._roots_of(guard)
            if concerned is not None and len(concerned) == 1:
                self._narrow(guard, concerned[0])

    def checked(self, guards: list[Guard], numbers: Any) -> list[Guard]:
        """Those that the program must check when it runs. Raises where a range cannot hold."""
        kept, seen = [], set()
        for guard in guards:
            if guard[:4] in seen or self._is_fixed(guard, numbers):
                continue
            seen.add(guard[:4])
            concerned = self._roots_of(guard)
            if concerned is not None and len(concerned) == 1:
                if self._narrow(guard, concerned[0]):
                    kept.append(guard)
            else:
                kept.append(guard)
        return kept

    @staticmethod
    def _is_fixed(guard, numbers):
        vectors = [numbers.vector(e) for e in (guard.left, guard.right)]
        return all(v is not None and len(set(v)) == 1 for v in vectors)

    def _roots_of(self, guard) -> list[Root] | None:
        """The roots that a comparison depends on; None where it has other sizes."""
        found: list[Root] = []
        for v, d in sizes_in(guard.left) | sizes_in(guard.right):
            if v >= len(self.roots.inputs):
                return None
            at = self.roots.root_of(v, d)
            if at is not None and at[0] not in found:
                found.append(at[0])
        return found

    def _holds(self, guard, root, n):
        def size(v, d):
            at = self.roots.root_of(v, d)
            if at is None or at[0] is not root:
                return self.roots.inputs[v].tensor.shape[d] if at is None else at[0].size
            return at[1].factor * n + at[1].offset

        try:
            return guard.holds(size)
        except ArithmeticError:
            return False

    def _narrow(self, guard, root):
        """Checks the range; whether the program must look as well, because of 0 and 1."""
        low, high = max(root.min, min(2, root.size)), root.max
        first = self._end(guard, root, low, -1)
        last = self._end(guard, root, high, 1)
        if (first, last) != (low, high):
            if root.kind == "Dim":
                self._refuse(guard, root, first, last, low, high)
            root.min, root.max = max(first, root.min), min(last, root.max)
            if root.kind == "DYNAMIC" and root.min == root.max:
                self._refuse(guard, root, first, last, low, high)
        return any(not self._holds(guard, root, n) for n in range(root.min, low))

    def _end(self, guard, root, end, step):
        """How far from the example's size towards the end it holds."""
        good = root.size
        near = range(root.size + step, end + step, step)
        for n in itertools.islice(near, _NEAR):
            if not self._holds(guard, root, n):
                return good
            good = n
        if good == end:
            return end
        width = _NEAR
        while good != end:
            n = end if abs(end - good) <= width else good + step * width
            if not self._holds(guard, root, n):
                bad = n
                while abs(bad - good) > 1:
                    middle = (bad + good) // 2
                    good, bad = (
                        (middle, bad) if self._holds(guard, root, middle) else (good, middle)
                    )
                return good
            good, width = n, width * 2
        return end

    def _refuse(self, guard, root, first, last, low, high):
        if root.kind == "Dim" and first < last:
            given = (root.min if first == low else first, root.max if last == high else last)
            parts = [f"min={given[0]}"] if given[0] > 0 else []
            parts += [f"max={given[1]}"] if given[1] != MOST else []
            advice = f"write {root.name} = Dim('{root.name}', {', '.join(parts)})"
        else:
            advice = "the size must stay: write None for it"
        raise ConstraintViolationError(
            f"export: not all sizes '{root.name}' may have do the same: {self.shown(guard)} at "
            f"{guard.at[0]}:{guard.at[1]} is {guard.held} with the example inputs, "
            f"{root.name} = {root.size}, and not for all from {low} to "
            f"{'any size' if high == MOST else high}; {advice}"
        )

    # In the program -------------------------------------------------------------------------------

    @staticmethod
    def known_after(guard: Guard) -> int:
        """The last value that it needs."""
        return max((v for v, _ in sizes_in(guard.left) | sizes_in(guard.right)), default=0)

    def write(self, writer: Any, guard: Guard) -> None:
        """As a check of the program."""
        from rushlight.export._symbols import is_float

        kind = "float" if is_float(guard.left) or is_float(guard.right) else "int"
        operands = [writer.operand(e) for e in (guard.left, guard.right)]
        if kind == "float":
            operands = [
                o if is_float(e) else writer.do("float_int", [o], "float")
                for o, e in zip(operands, (guard.left, guard.right), strict=True)
            ]
        held = writer.do(f"{guard.how}_{kind}", operands, "bool")
        wrong = writer.do("not", [held], "bool") if guard.held else held
        text = (
            f"export: this program is for sizes where {self.shown(guard)} is {guard.held}, as in "
            f"the module at {guard.at[0]}:{guard.at[1]}"
        )
        _raise_if(writer, wrong, [{"is": text}])

    def check_inputs(self, writer: Any) -> None:
        """Sizes that stay, sizes that belong together, ranges."""
        roots: dict[str, Any] = {}
        for i, row in enumerate(self.roots.inputs):
            count = writer.do("dim", [i], "int")
            wrong = writer.do("ne_int", [count, {"is": row.tensor.dim()}], "bool")
            _raise_if(writer, wrong, [{"is": f"export: the input '{row.path}' must have "
                                       f"{row.tensor.dim()} dimensions, got "}, count])  # fmt: skip
            for d, n in enumerate(row.tensor.shape):
                self._check_size(writer, roots, i, d, n)

    def _check_size(self, writer, roots, i, d, n):
        path = self.roots.inputs[i].path
        size = writer.operand(("size", i, d))
        at = self.roots.root_of(i, d)
        where = f"export: the input '{path}' has size "
        if at is None:
            wrong = writer.do("ne_int", [size, {"is": n}], "bool")
            text = f" in dimension {d}, and this program is for {n} there; sizes that may change " \
                   "are named by dynamic_shapes"  # fmt: skip
            return _raise_if(writer, wrong, [{"is": where}, size, {"is": text}])
        root, place = at
        follows = _linear(root.name, place)
        if root.name in roots:
            expected = roots[root.name]
            if place.factor != 1:
                expected = writer.do("mul_int", [expected, {"is": place.factor}], "int")
            if place.offset:
                expected = writer.do("add_int", [expected, {"is": place.offset}], "int")
            wrong = writer.do("ne_int", [size, expected], "bool")
            text = f" in dimension {d}, and it must be {follows} = "
            return _raise_if(writer, wrong, [{"is": where}, size, {"is": text}, expected])
        roots[root.name] = self._root_size(writer, root, place, size, where, d)
        return None

    @staticmethod
    def _root_size(writer, root, place, size, where, d):
        n = size
        if place.offset:
            n = writer.do("sub_int", [n, {"is": place.offset}], "int")
        if place.factor != 1:
            rest = writer.do("mod_int", [n, {"is": place.factor}], "int")
            wrong = writer.do("ne_int", [rest, {"is": 0}], "bool")
            text = f" in dimension {d}, which is no {_linear(root.name, place)} for a whole " \
                   f"{root.name}"  # fmt: skip
            _raise_if(writer, wrong, [{"is": where}, size, {"is": text}])
            n = writer.do("floordiv_int", [n, {"is": place.factor}], "int")
        for how, bound, word in (("lt", root.min, "at least"), ("gt", root.max, "at most")):
            if (how, bound) in (("lt", 0), ("gt", MOST)):
                continue
            wrong = writer.do(f"{how}_int", [n, {"is": bound}], "bool")
            text = f" in dimension {d}, and {root.name} must be {word} {bound}"
            _raise_if(writer, wrong, [{"is": where}, size, {"is": text}])
        return n


def _linear(name, place):
    text = name if place.factor == 1 else f"{place.factor}*{name}"
    return text if not place.offset else f"{text} {'+' if place.offset > 0 else '-'} " \
        f"{abs(place.offset)}"  # fmt: skip


def _raise_if(writer, condition, parts):
    """Raises with a message of texts and numbers."""
    before, writer.out = writer.out, []
    message = parts[0]
    if len(parts) > 1:
        message = writer.do("concat", parts, "str")
    writer.out.append({"raise": "AssertionError", "message": message})
    then, writer.out = writer.out, before
    writer.out.append({"if": condition, "then": then, "else": []})
