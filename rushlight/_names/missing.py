"""What programs read when they ask for a name of PyTorch's that is not here."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from rushlight._names.absent import explained, why_missing

COMPATIBILITY_PAGE = "docs/compatibility.md"


def _printed(module):
    """The module as the program spelled it: torch... when Rushlight answers to that name."""
    if "rushlight.as_torch" in sys.modules and sys.modules["rushlight.as_torch"].is_installed():
        return "torch" + module.removeprefix("rushlight")
    return module


class MissingNameError(AttributeError):
    """A name that Rushlight does not have. The text is made when it is read, since many programs
    only probe with hasattr."""

    def __init__(self, module: str, name: str) -> None:
        super().__init__(module, name)
        self._module = module
        self.name = name  # with both of these set, Python adds no suggestion of its own
        self.obj = None

    def __reduce__(self):
        return MissingNameError, (self._module, self.name)

    def __str__(self):
        text = f"module {_printed(self._module)!r} has no attribute {self.name!r}"
        below = f"{self._module}.{self.name}".removeprefix("rushlight.")
        reason = why_missing(below)
        text += f": Rushlight does not have it ({reason})" if reason else ": not in Rushlight"
        near = self._nearest()
        if near:
            text += f"; the nearest name is {near!r}"
        return f"{text}. {COMPATIBILITY_PAGE} lists what is there"

    def _nearest(self):
        import difflib

        names = [n for n in dir(sys.modules.get(self._module)) if n[0] != "_" and n != self.name]
        same_case = self.name[:1].isupper()
        lower = {}
        for name in sorted(names, key=lambda n: n[0].isupper() == same_case):
            lower[name.lower()] = name  # of Normal and normal, the one written alike
        longer = sorted(n for n in lower if n.startswith(f"{self.name.lower()}_"))
        found = longer or difflib.get_close_matches(self.name.lower(), lower, n=1, cutoff=0.6)
        return lower[found[0]] if found else None


def submodule_or_raise(module: str, name: str) -> Any:
    """What stands in for an absent name, or the submodule of that name, imported now (PyTorch has
    imported all of its own long before), or a MissingNameError."""
    if not name.startswith("__"):
        found = stand_ins(module.removeprefix("rushlight.")).get(name)
        if found is not None:
            return found
        if hasattr(sys.modules.get(module), "__path__"):
            import importlib.util

            if importlib.util.find_spec(f"{module}.{name}") is not None:
                return importlib.import_module(f"{module}.{name}")
    raise MissingNameError(module, name)


def names_missing_from(module: str, homes: dict[str, str] | None = None) -> Callable[[str], Any]:
    """A module's __getattr__. homes: {name: the module that has it} for names that are loaded when
    first used; every other name that reaches it is a submodule or absent."""

    def __getattr__(name):
        if homes is None or name not in homes:
            return submodule_or_raise(module, name)
        found = getattr(importlib.import_module(homes[name]), name)
        setattr(sys.modules[module], name, found)
        return found

    return __getattr__


def not_available(
    what: str, why: str, first: Callable[[], Any] | None = None
) -> Callable[..., NoReturn]:
    """A function that raises NotImplementedError when called: the name exists, the feature not.

    what: its name below the package. first: called before, to raise what matters more.
    """

    def unavailable(*args: Any, **kwargs: Any) -> NoReturn:
        if first is not None:
            first()
        raise NotImplementedError(f"{what}: {why}. {COMPATIBILITY_PAGE} lists what is there")

    unavailable.__name__ = unavailable.__qualname__ = what.rpartition(".")[2]
    unavailable.__doc__ = f"Not available: {why}."
    unavailable.__unavailable__ = why  # type: ignore[attr-defined]
    return unavailable


def unavailable_class(name, module, why, base=object):
    """A class to name, to subclass and to ask isinstance of; making an object of it raises."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        shown = type(self).__name__
        raise NotImplementedError(f"{shown}: {why}. {COMPATIBILITY_PAGE} lists what is there")

    space = {"__init__": __init__, "__module__": module, "__doc__": f"Not available: {why}."}
    space["__unavailable__"] = why
    return type(name, (base,), space)


def removed(name):
    """A function that PyTorch removed: it says what to use."""
    from rushlight._names.absent import REMOVED

    def raise_removed(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(f"{name}: PyTorch removed this function; use {REMOVED[name]}")

    raise_removed.__name__ = raise_removed.__qualname__ = name
    raise_removed.__doc__ = f"Removed: use {REMOVED[name]}."
    return raise_removed


def _answering(name, answer):
    def function(*args: Any, **kwargs: Any) -> Any:
        return answer

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{answer}: there is no such machinery."
    return function


def _need_gpu():
    from rushlight import cuda

    cuda.current_device()


@functools.cache
def stand_ins(dotted):
    """{name: what stands in for it} for the absent names of a module below the package ("" for
    the package)."""
    from rushlight._names.absent_names import ANSWERS, ERRORS, ROWS

    module = f"rushlight.{dotted}" if dotted else "rushlight"
    prefix = f"{dotted}.".removeprefix("as_torch.") if dotted else ""
    first = _need_gpu if dotted == "cuda" else None  # without a GPU, that is the reason
    found = {}
    for row_module, reason, classes, functions in ROWS:
        if row_module != dotted:
            continue
        why = explained(reason)
        for name in classes.split():
            found[name] = unavailable_class(name, module, why, ERRORS.get(prefix + name, object))
        for name in functions.split():
            found[name] = not_available(prefix + name, why, first)
            found[name].__module__ = module  # where pickle looks for it
    for path, answer in ANSWERS.items():
        if path.rpartition(".")[0] == dotted:
            name = path.rpartition(".")[2]
            found[name] = _answering(name, answer)
    return found


def _from_elsewhere(dotted):
    from rushlight._names.absent_names import ALIASES

    found = {}
    for to, home, names in ALIASES:
        if to == dotted:
            module = importlib.import_module(f"rushlight.{home}")
            listed = module.__all__ if names == "*" else names.split()
            found |= {name: getattr(module, name) for name in listed}
    return found


def fill(namespace):
    """Gives a module the names that the table has for it, and the __getattr__ for all others."""
    from rushlight._names.absent_names import DEVICES

    module = namespace["__name__"]
    dotted = module.removeprefix("rushlight.")
    if dotted in DEVICES:
        from rushlight._names import no_device

        names = no_device.functions(dotted, DEVICES[dotted])
    else:
        names = _from_elsewhere(dotted) | stand_ins(dotted)
    if namespace.get("__doc__") is None:
        namespace["__doc__"] = (
            f"Names of torch.{dotted}: they can be imported; what needs more says so when used."
        )
    namespace.update(names)
    public = (name for name in names if name not in namespace.get("__all__", ()))
    namespace["__all__"] = sorted([*namespace.get("__all__", ()), *public])
    namespace["__getattr__"] = names_missing_from(module)
