"""The handle that every register_..._hook returns."""

import itertools
import weakref

__all__ = ["RemovableHandle"]

_ids = itertools.count()


class RemovableHandle:
    """Takes a hook out again: ``handle.remove()``, or as a context manager."""

    __slots__ = ("__weakref__", "_extra", "_hooks", "id")

    def __init__(self, hooks_dict, *, extra_dict=None):
        """extra_dict: one dict or a list of dicts where the hook has marks under the same id."""
        self.id = next(_ids)
        self._hooks = weakref.ref(hooks_dict)
        if extra_dict is None:
            extra = ()
        elif isinstance(extra_dict, dict):
            extra = (extra_dict,)
        else:
            extra = tuple(extra_dict)
        self._extra = tuple(weakref.ref(d) for d in extra)

    def remove(self):
        for reference in (self._hooks, *self._extra):
            hooks = reference()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self):
        return self._hooks(), self.id, tuple(r() for r in self._extra)

    def __setstate__(self, state):
        # The module that owned the hooks may not have come along.
        from collections import OrderedDict

        hooks, self.id, extra = state
        self._hooks = weakref.ref(OrderedDict() if hooks is None else hooks)
        self._extra = tuple(weakref.ref(OrderedDict() if d is None else d) for d in extra)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        self.remove()
