"""The user's additions to what load accepts in a file."""

from __future__ import annotations

from collections.abc import Callable

_allowed = set()


def _checked(safe_globals):
    for entry in safe_globals:
        if isinstance(entry, tuple):
            if len(entry) != 2:
                raise ValueError(
                    "add_safe_globals: a tuple must be (object, full name in the file), got "
                    f"{len(entry)} items"
                )
            if type(entry[1]) is not str:
                raise TypeError(
                    "add_safe_globals: the second item of a tuple must be the full name in the "
                    f"file, a str, got {type(entry[1]).__name__}"
                )
        elif not (hasattr(entry, "__module__") and hasattr(entry, "__qualname__")):
            raise TypeError(
                "add_safe_globals: expected classes, functions or tuples (object, name), got "
                f"{type(entry).__name__}"
            )
    return set(safe_globals)


def add_safe_globals(safe_globals: list[Callable | tuple[Callable, str]]) -> None:
    """Lets load use these classes and functions when a file names them.

    An entry is a class or function, or a tuple of one and the full name that it has in the file.
    Whoever wrote the file then chooses the arguments of its constructor or call.

    Arguments:
        safe_globals: classes or functions.

    Example:
        >>> class Settings: pass
        >>> rl.serialization.add_safe_globals([Settings])
        >>> Settings in rl.serialization.get_safe_globals()
        True
        >>> rl.serialization.clear_safe_globals()
    """
    _allowed.update(_checked(safe_globals))


def get_safe_globals() -> list[Callable | tuple[Callable, str]]:
    """What add_safe_globals was given so far.

    Example:
        >>> rl.serialization.get_safe_globals()
        []
    """
    return list(_allowed)


def clear_safe_globals() -> None:
    """Forgets everything that add_safe_globals was given.

    Example:
        >>> rl.serialization.clear_safe_globals()
        >>> rl.serialization.get_safe_globals()
        []
    """
    _allowed.clear()


class safe_globals:
    """A context in which load may use the given classes and functions.

    Arguments:
        safe_globals: classes or functions.

    Example:
        >>> class Settings: pass
        >>> with rl.serialization.safe_globals([Settings]):
        ...     print(Settings in rl.serialization.get_safe_globals())
        True
    """

    def __init__(self, safe_globals: list[Callable | tuple[Callable, str]]) -> None:
        self.safe_globals = safe_globals

    def __enter__(self) -> None:
        self._new = _checked(self.safe_globals) - _allowed
        _allowed.update(self._new)

    def __exit__(self, *error: object) -> None:
        _allowed.difference_update(self._new)


def user_globals():
    """{full name: object} of the additions, under every name that a file may have for them."""
    from rushlight.serialization._names import module_in_file

    found = {}
    for entry in _allowed:
        if isinstance(entry, tuple):
            entry, name = entry
            found[name] = entry
            continue
        module = entry.__module__ or ""
        for spelling in {module, module_in_file(module), *_numpy_spellings(module)}:
            found[f"{spelling}.{entry.__qualname__}"] = entry
    return found


def _numpy_spellings(module):
    # NumPy 2 renamed its core; files have either name.
    for old, new in (("numpy.core", "numpy._core"), ("numpy._core", "numpy.core")):
        if module == old or module.startswith(old + "."):
            yield new + module[len(old) :]
