"""The module that compile makes of a module."""

from rushlight.compiler._compile import Options, call_fused
from rushlight.nn import Module

__all__ = ["OptimizedModule"]


class OptimizedModule(Module):
    """Calls the module it was made of with its ops fused; all else is asked of that module."""

    def __init__(self, mod, options=None):
        super().__init__()
        self.__dict__["_options"] = options or Options()
        self._orig_mod = mod
        self.training = mod.training

    def __getattr__(self, name):
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._orig_mod, name)

    def __setattr__(self, name, value):
        own = name in ("_orig_mod", "training") or "_orig_mod" not in self.__dict__.get(
            "_modules", ()
        )
        if name == "training" and "_orig_mod" in self.__dict__.get("_modules", ()):
            self._modules["_orig_mod"].training = value
        if own or name in self.__dict__:
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name):
        delattr(self._orig_mod, name)

    def __dir__(self):
        return sorted({*super().__dir__(), *dir(self._orig_mod)})

    def __len__(self):
        return len(self._orig_mod)

    def __iter__(self):
        return iter(self._orig_mod)

    def __getitem__(self, index):
        return self._orig_mod[index]

    def __call__(self, *args, **kwargs):
        return call_fused(self._options, self._orig_mod, args, kwargs)

    forward = __call__
