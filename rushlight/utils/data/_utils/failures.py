"""Errors of worker processes, as the main process raises them."""

import pickle
import signal
import traceback

from rushlight.utils.data._utils.fetch import NO_SAMPLE


class Failure:
    """An exception of a worker: class, text with traceback, sample, and attributes that pickle."""

    def __init__(self, error, where, key=NO_SAMPLE):
        self._kind = type(error)
        self._name = type(error).__name__
        sample = "" if key is NO_SAMPLE else f", for sample {key!r}"
        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        self._text = f"Caught {self._name} {where}{sample}.\nOriginal {trace}"
        self._attributes = dict(getattr(error, "__dict__", {}))
        self._has_key, self._key = key is not NO_SAMPLE, None if key is NO_SAMPLE else key
        # What cannot be sent is left out, down to the text.
        for part, empty in (("_attributes", {}), ("_key", None), ("_kind", RuntimeError)):
            try:
                pickle.loads(pickle.dumps(getattr(self, part)))
            except Exception:
                setattr(self, part, empty)

    def reraise(self):
        raise self.exception()

    def exception(self):
        """An exception of the same class, whatever arguments that class asks for."""
        kind = self._kind
        if issubclass(kind, KeyError):
            kind = _with_plain_text(kind)  # a KeyError prints the repr of its text
        try:
            error = kind.__new__(kind, self._text)
            error.args = (self._text,)
            error.__dict__.update(self._attributes)
            if self._text not in str(error):
                raise ValueError("the class has a text of its own")
        except Exception:
            try:
                error = _with_plain_text(self._kind)(self._text)
            except Exception:
                error = RuntimeError(self._text)
        if self._has_key:
            error.sample_index = self._key
        return error


def _with_plain_text(kind):
    """A subclass that is made from a text and prints it."""
    members = {
        "__init__": lambda self, text: setattr(self, "args", (text,)),
        "__str__": lambda self: str(self.args[0]),
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
    }
    return type(kind.__name__, (kind,), members)


_HINTS = {
    "SIGKILL": " The system kills processes when memory runs out: try fewer workers, or smaller "
    "batches.",
    "SIGBUS": " This can mean that shared memory ran out.",
}


def death_message(pid, exitcode, doing):
    """The text for a worker that is gone."""
    if exitcode is not None and exitcode < 0:
        try:
            name = signal.Signals(-exitcode).name
            words = signal.strsignal(-exitcode) or name
        except ValueError:
            name, words = "", f"signal {-exitcode}"
        how = f"is killed by signal: {words}" + (f" ({name})" if name else "")
        return f"DataLoader worker (pid {pid}) {how}{doing}.{_HINTS.get(name, '')}"
    return f"DataLoader worker (pid {pid}) exited unexpectedly with exit code {exitcode}{doing}."
