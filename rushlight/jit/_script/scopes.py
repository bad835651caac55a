"""with: modes that hold for a block."""

from __future__ import annotations

import ast

from rushlight.jit._script.classes import is_user_class
from rushlight.jit._script.errors import refuse
from rushlight.jit._script.loops import Loops
from rushlight.jit._script.objects import is_object
from rushlight.jit._script.values import NONE, describe

_MODES = (
    "no_grad(), enable_grad(), set_grad_enabled(...), autocast(...) and objects of your classes"
)


class Scopes(Loops):
    """Blocks in which gradients or autocast are switched."""

    def stmt_With(self, node):
        outer, modes, managers = self.out, {}, []
        self.out = []
        for item in node.items:
            manager = self.manager(item.context_expr)
            if manager is None:
                modes.update(self.modes(item.context_expr))
                continue
            self.check_end(node)
            entered = self.needs(manager, "__enter__")
            if item.optional_vars is not None:
                self.assign(item.optional_vars, entered)
            managers.append(manager)
        self.block(node.body)
        for manager in reversed(managers):
            self.needs(manager, "__exit__", NONE, NONE, NONE)
        body, self.out = self.out, outer
        if modes:
            self.emit(**{"with": modes, "body": body})
        else:
            self.out += body

    def manager(self, node):
        """The object of a class whose __enter__ and __exit__ stand around a block; None: a mode."""
        if isinstance(node, ast.Call):
            cls = self.expr(node.func)
            if not (cls.known and cls.owner is None and is_user_class(cls.obj)):
                return None
        v = self.expr(node)
        return v if is_object(v) else None

    def check_end(self, node):
        """Programs call __exit__ at the end of the block, and nowhere else."""
        for part in (inner for statement in node.body for inner in ast.walk(statement)):
            if isinstance(part, ast.Return | ast.Break | ast.Continue):
                self.node = part
                refuse("the with block of an object is left early", "leave it at its end")

    def modes(self, node):
        import rushlight as torch
        from rushlight.jit._script.values import short_name

        if not isinstance(node, ast.Call):
            refuse(f"with is there for {_MODES}")
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
            f"with {name or describe(cls)} is not there in programs", f"with is there for {_MODES}"
        )
