"""Errors of worker processes, as the main process raises them."""

import contextlib
import pickle
import signal
import traceback

from rushlight.utils.data._utils.fetch import NO_SAMPLE

# What exceptions of Python itself know besides their text; not in their __dict__.
_KNOWN = (
    (OSError, ("errno", "strerror", "filename", "filename2")),
    (UnicodeError, ("encoding", "object", "start", "end", "reason")),
    (SyntaxError, ("msg", "filename", "lineno", "offset", "text", "end_lineno", "end_offset")),
    (ImportError, ("name", "path", "msg")),
    (NameError, ("name",)),
    (AttributeError, ("name",)),
)


def _attributes_of(error):
    found = {}
    for kind, names in _KNOWN:
        if isinstance(error, kind):
            values = {name: getattr(error, name, None) for name in names}
            found.update({name: value for name, value in values.items() if value is not None})
    found.update(getattr(error, "__dict__", {}))
    return found


def _can_be_sent(value):
    try:
        pickle.loads(pickle.dumps(value))
        return True
    except Exception:
        return False


class Failure:
    """An exception of a worker: class, text with traceback, sample, and attributes that pickle."""

    def __init__(self, error, where, key=NO_SAMPLE):
        self._kind = type(error)
        self._name = type(error).__name__
        sample = "" if key is NO_SAMPLE else f", for sample {key!r}"
        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        self._text = f"Caught {self._name} {where}{sample}.\nOriginal {trace}"
        self._has_key, self._key = key is not NO_SAMPLE, None if key is NO_SAMPLE else key
        # What cannot be sent is left out, down to the text.
        self._attributes = {n: v for n, v in _attributes_of(error).items() if _can_be_sent(v)}
        self._inner = tuple(e for e in getattr(error, "exceptions", ()) if _can_be_sent(e))
        if not _can_be_sent(self._key):
            self._key = None
        if not _can_be_sent(self._kind):
            self._kind = RuntimeError

    def reraise(self):
        raise self.exception()

    def exception(self):
        """An exception of the same class, whatever arguments that class asks for."""
        for make in (self._ordinary, self._with_plain_text, self._group):
            try:
                error = make()
                for name, value in self._attributes.items():
                    with contextlib.suppress(Exception):  # properties may refuse
                        setattr(error, name, value)
                if self._text in str(error):
                    break  # otherwise the class has a text of its own
            except Exception:
                pass
        else:
            error = RuntimeError(self._text)
        if self._has_key:
            error.sample_index = self._key
        return error

    def _ordinary(self):
        error = self._kind.__new__(self._kind, self._text)
        error.args = (self._text,)
        return error

    def _with_plain_text(self):
        return _with_plain_text(self._kind)(self._text)

    def _group(self):
        return self._kind(self._text, self._inner)


def _with_plain_text(kind):
    """A subclass that is made from a text and prints it."""
    members = {
        "__init__": lambda self, text: setattr(self, "args", (text,)),
        "__str__": lambda self: str(self.args[0]),  # a KeyError would print the repr, and so on
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
