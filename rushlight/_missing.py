"""What programs read when they ask for a name of PyTorch's that is not here."""

import sys

COMPATIBILITY_PAGE = "docs/compatibility.md"

# Whole areas that are not there, by the start of the dotted name; the longest fitting one is told.
_AREAS = {
    "sparse": "tensors are dense: there is no sparse layout; index_add_, scatter and masks work "
    "with few elements",
    "nested": "there are no nested tensors; nn.utils.rnn.pad_sequence makes one of several",
    "ao": "there is no quantization; float16, bfloat16 and autocast are there",
    "quantization": "there is no quantization; float16, bfloat16 and autocast are there",
    "onnx": "models cannot be exported to ONNX; save and load keep a model",
    "fx": "programs run eagerly and are not traced into graphs; overrides.TorchFunctionMode sees "
    "every call",
    "export": "programs run eagerly and are not traced into graphs; save and load keep a model",
    "_inductor": "programs run eagerly: there is no compiler; compile() returns the function",
    "_dynamo": "programs run eagerly: there is no compiler; compile() returns the function",
    "distributed": "training runs in one process: there is no distributed package yet",
    "cuda": "this part of the CUDA interface is not there",
}


def _printed(module):
    """The module as the program spelled it: torch... when Rushlight answers to that name."""
    if "rushlight.as_torch" in sys.modules and sys.modules["rushlight.as_torch"].is_installed():
        return "torch" + module.removeprefix("rushlight")
    return module


def why_missing(dotted):
    """Why a name below the package (such as "fft.rfft") is not there, or ''."""
    while dotted:
        if dotted in _AREAS:
            return _AREAS[dotted]
        dotted = dotted.rpartition(".")[0]
    return ""


class MissingNameError(AttributeError):
    """A name that Rushlight does not have. The text is made when it is read, since many programs
    only probe with hasattr."""

    def __init__(self, module, name):
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
        same_case = self.name[0].isupper()
        lower = {}
        for name in sorted(names, key=lambda n: n[0].isupper() == same_case):
            lower[name.lower()] = name  # of Normal and normal, the one written alike
        found = difflib.get_close_matches(self.name.lower(), lower, n=1, cutoff=0.6)
        return lower[found[0]] if found else None


def submodule_or_raise(module, name):
    """The submodule of that name, imported now (PyTorch has imported all of its own long before),
    or a MissingNameError."""
    if not name.startswith("__") and hasattr(sys.modules.get(module), "__path__"):
        import importlib.util

        if importlib.util.find_spec(f"{module}.{name}") is not None:
            return importlib.import_module(f"{module}.{name}")
    raise MissingNameError(module, name)


def names_missing_from(module):
    """A module's __getattr__: every name that reaches it is a submodule or missing."""

    def __getattr__(name):
        return submodule_or_raise(module, name)

    return __getattr__


def not_available(what, why, instead=""):
    """A function that raises NotImplementedError when called: the name exists, the feature not."""

    def unavailable(*args, **kwargs):
        text = f"{what}: {why}"
        raise NotImplementedError(f"{text}; {instead}" if instead else text)

    unavailable.__name__ = unavailable.__qualname__ = what.rpartition(".")[2]
    unavailable.__doc__ = f"Not available: {why}."
    unavailable.__unavailable__ = why
    return unavailable


def unavailable_class(name, module, why):
    """A class to name, to subclass and to ask isinstance of; making an object of it raises."""

    def __init__(self, *args, **kwargs):
        shown = type(self).__name__
        raise NotImplementedError(f"{shown}: {why}. {COMPATIBILITY_PAGE} lists what is there")

    space = {"__init__": __init__, "__module__": module, "__doc__": f"Not available: {why}."}
    space["__unavailable__"] = why
    return type(name, (), space)


def absent(namespace, why, classes="", functions=""):
    """Fills a module with names that can be imported and raise when they are used."""
    module = namespace["__name__"]
    short = module.removeprefix("rushlight.")
    for name in classes.split():
        namespace[name] = unavailable_class(name, module, why)
    for name in functions.split():
        namespace[name] = not_available(f"{short}.{name}", why)
    namespace["__all__"] = sorted(
        [*namespace.get("__all__", ()), *classes.split(), *functions.split()]
    )
    namespace["__getattr__"] = names_missing_from(module)
