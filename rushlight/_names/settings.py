"""Modules of settings that programs write to and that change nothing here."""

import contextlib
import sys
from types import ModuleType


def _new_group(owner, name):
    """A group of settings that nobody has named before."""
    if name.startswith("__"):
        raise AttributeError(name)
    group = _Group()
    setattr(owner, name, group)
    return group


class _Settings(ModuleType):
    """A module whose attributes may all be read and set; unset ones are settings too."""

    def __getattr__(self, name):
        return _new_group(self, name)

    @contextlib.contextmanager
    def patch(self, *args, **changes):
        """Other settings for the time of a with block."""
        if args:
            changes |= args[0] if isinstance(args[0], dict) else {args[0]: args[1]}
        old = {name: vars(self).get(name) for name in changes}
        vars(self).update(changes)
        try:
            yield
        finally:
            vars(self).update(old)


class _Group:
    """Settings with a name in common, such as triton.cudagraphs; false while nothing is set."""

    def __getattr__(self, name):
        return _new_group(self, name)

    def __bool__(self):
        return False


def make_settings(module):
    """Turns the module of this name into one of settings."""
    sys.modules[module].__class__ = _Settings
