"""inspect.signature and help work on every public function, whether written in C++ or in Python."""

import importlib
import inspect
import pkgutil
import pydoc
import warnings

import pytest

import rushlight as rl


def public_modules():
    names = ["rushlight"]
    for found in pkgutil.walk_packages(rl.__path__, "rushlight.", onerror=lambda name: None):
        if not any(part.startswith("_") for part in found.name.split(".")):
            names.append(found.name)
    for name in names:
        try:
            yield importlib.import_module(name)
        except ImportError:  # needs a package that is not here (tensorboard)
            continue


def is_ours(value):
    return str(getattr(value, "__module__", "") or "").partition(".")[0] == "rushlight"


def methods_of(kind):
    """The public methods that the class or a base of ours defines."""
    for base in kind.__mro__:
        if is_ours(base):
            for name in vars(base):
                if not name.startswith("_") and hasattr(kind, name):
                    yield f"{kind.__name__}.{name}", getattr(kind, name)


def public_routines():
    """Dotted name -> function or method, each once."""
    found, seen = {}, set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in public_modules():
            for name in dir(module):
                value = None if name.startswith("_") else getattr(module, name, None)
                pairs = methods_of(value) if isinstance(value, type) and is_ours(value) else []
                for own, routine in [(name, value), *pairs]:
                    if inspect.isroutine(routine) and is_ours_or_core(routine):
                        if id(routine) not in seen:
                            seen.add(id(routine))
                            found[f"{module.__name__}.{own}"] = routine
    return found


def is_ours_or_core(routine):
    """Methods of the core have no __module__, but their class has."""
    return is_ours(routine) or is_ours(getattr(routine, "__objclass__", None))


ROUTINES = public_routines()


def test_every_signature_can_be_read():
    assert len(ROUTINES) > 3000
    unread = []
    for name, routine in ROUTINES.items():
        try:
            inspect.signature(routine)
        except (ValueError, TypeError) as error:
            unread.append(f"{name}: {error}")
    assert not unread, "\n".join(unread)


def test_help_can_be_read():
    for routine in ROUTINES.values():
        assert routine.__name__ in pydoc.plain(pydoc.render_doc(routine))


def test_ops_have_docstrings():
    """Of the core: they come from the rows of the table."""
    bare = [n for n, r in ROUTINES.items() if not inspect.isfunction(r) and not inspect.getdoc(r)]
    assert not bare


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("add", "(input, other, *, alpha=1, out=None)"),
        ("max", "(input, dim, keepdim=False, *, out=None)"),
        ("zeros", "(*size, dtype=None, layout=None, device=None, requires_grad=False, "
                  "pin_memory=False, out=None)"),
        ("clone", "(input, *, memory_format=None)"),
        ("Tensor.view", "(self, /, *size)"),
        ("Tensor.random_", "(self, from_, /, to, *, generator=None)"),
        ("Tensor.to", "(self, /, device=None, dtype=None, non_blocking=False, copy=False, *, "
                      "memory_format=None)"),
        ("Size.numel", "(self, /)"),
        ("UntypedStorage.resize_", "(self, size, /)"),
        ("nn.Linear", "(in_features: 'int', out_features: 'int', bias: 'bool' = True, "
                      "device: 'Device' = None, dtype: '_dtype | None' = None) -> 'None'"),
    ],
)  # fmt: skip
def test_signatures(name, shown):
    found = rl
    for part in name.split("."):
        found = getattr(found, part)
    assert str(inspect.signature(found)) == shown


def test_docstrings_show_every_overload():
    text = rl.max.__doc__
    for call in ("max(input, *, out=None)", "max(input, dim, keepdim=False, *, out=None)",
                 "max(input, other, *, out=None)"):  # fmt: skip
        assert call in text
    assert "Tensor" not in rl.Tensor.max.__doc__.splitlines()[0]
    assert rl.Tensor.max.__doc__.startswith("max()\nmax(dim, keepdim=False)\nmax(other)\n")
