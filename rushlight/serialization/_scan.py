"""A dry run over a pickle: follows the opcodes, makes no objects, notes the names."""

from rushlight.serialization._allowed import full_name
from rushlight.serialization._pickle_reader import PickleReader


class _Something:
    """Whatever a name or a call would have given."""

    def __init__(self, name=None):
        self.name = name


class Scanner(PickleReader):
    def __init__(self, data, encoding="utf-8", at=0):
        super().__init__(data, None, None, encoding, at)
        self.names = []
        self.storages = []  # persistent ids, with names for storage types

    def _push_global(self, module, name):
        self.names.append(full_name(module, name))
        self._stack.append(_Something(self.names[-1]))

    def _call(self, function, args):
        return _Something()

    def _new(self, cls, args, kwargs):
        return _Something()

    def _build(self, instance, state):
        pass

    def _load_persistent(self, pid):
        self.storages.append(pid)
        return _Something()

    def _extend(self, items):
        if type(self._stack[-1]) is not _Something:
            super()._extend(items)

    def _set_items(self, items):
        if type(self._stack[-1]) is not _Something:
            super()._set_items(items)

    def _add_items(self, items):
        if type(self._stack[-1]) is not _Something:
            super()._add_items(items)
