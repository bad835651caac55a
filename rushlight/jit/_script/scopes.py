"""with: modes that hold for a block."""

from __future__ import annotations

import ast

from rushlight.jit._script.errors import refuse
from rushlight.jit._script.loops import Loops
from rushlight.jit._script.values import describe


class Scopes(Loops):
    """Blocks in which gradients or autocast are switched."""

    def stmt_With(self, node):
        outer, modes = self.out, {}
        for item in node.items:
            modes.update(self.modes(item.context_expr))
        self.out = []
        self.block(node.body)
        body, self.out = self.out, outer
        if modes:
            self.emit(**{"with": modes, "body": body})
        else:
            self.out += body

    def modes(self, node):
        import rushlight as torch
        from rushlight.jit._script.values import short_name

        if not isinstance(node, ast.Call):
            refuse(
                "with is there for no_grad(), enable_grad(), set_grad_enabled(...) and "
                "autocast(...)"
            )
        cls = self.expr(node.func)
        args = [self.expr(a) for a in node.args]
        kwargs = {k.arg: self.expr(k.value) for k in node.keywords}
        if not all(v.known for v in [*args, *kwargs.values()]):
            refuse("the arguments of a with block must stand in the program")
        if cls.obj is torch.no_grad:
            return {"grad": False}
        if cls.obj is torch.enable_grad:
            return {"grad": True}
        if cls.obj is torch.set_grad_enabled:
            return {"grad": bool(args[0].obj)}
        if cls.obj in (torch.autocast, torch.amp.autocast, torch.cuda.amp.autocast):
            made = cls.obj(*(a.obj for a in args), **{k: v.obj for k, v in kwargs.items()})
            if not made._enabled:
                refuse("autocast that is switched off is not there in programs")
            return {"autocast": {made.device: short_name(made.fast_dtype)}}
        name = getattr(cls.obj, "__name__", "")
        if name in (
            "record_function",
            "nullcontext",
            "optimized_execution",
            "fuser",
            "strict_fusion",
        ):
            return {}
        refuse(
            f"with {name or describe(cls)} is not there in programs",
            "with is there for no_grad(), enable_grad(), set_grad_enabled(...) and autocast(...)",
        )
