"""Imported by Python processes that a program started (`_children.py` says how they find it): the
name torch is Rushlight there too, from the first time that it is asked for."""

import os
import sys


class _FirstAsked:
    """Sets the name up when it is asked for, so that processes which never do lose nothing."""

    names = frozenset(os.environ.get("RUSHLIGHT_AS_TORCH", "").split())

    def _set_up(self):
        sys.meta_path.remove(self)
        if "torch" in sys.modules:
            return False
        try:
            import rushlight.as_torch
        except ImportError:  # a process of another environment, which has its own PyTorch or none
            return False
        rushlight.as_torch.install()
        return True

    def find_spec(self, fullname, path=None, target=None):
        if fullname.partition(".")[0] not in self.names or not self._set_up():
            return None
        for finder in sys.meta_path:
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                return spec
        return None

    def find_distributions(self, context=None):
        name = getattr(context, "name", None)
        if (name is None or name.replace("-", "_") in self.names) and self._set_up():
            # Whoever asks goes through a copy of sys.meta_path that does not have the new one.
            yield from sys.meta_path[0].find_distributions(context)


def _import_the_next_one():
    """This file stands before the environment's own sitecustomize, if there is one."""
    import importlib.machinery
    import importlib.util

    here = os.path.dirname(os.path.abspath(__file__))
    others = [p for p in sys.path if os.path.abspath(p or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if _FirstAsked.names:
    sys.meta_path.insert(0, _FirstAsked())
_import_the_next_one()
