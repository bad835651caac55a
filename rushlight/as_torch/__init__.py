"""Programs written for PyTorch, unmodified: `import torch` gets Rushlight.

    python -m rushlight.as_torch script.py arguments...
    python -m rushlight.as_torch -m module arguments...
    python -m rushlight.as_torch -c "import torch; print(torch.ones(2))"

or, inside a program and before its first `import torch`:

    import rushlight.as_torch
    rushlight.as_torch.install()

docs/porting.md is the guide, docs/compatibility.md the list of names.
"""

from __future__ import annotations

import sys

from rushlight.as_torch._finder import TorchFinder
from rushlight.as_torch._names import print_names_of
from rushlight.as_torch.version import __version__ as TORCH_VERSION

__all__ = ["TORCH_VERSION", "install", "is_installed", "uninstall"]

_finder = None


def is_installed() -> bool:
    """Does `import torch` give Rushlight?"""
    return _finder is not None


def install() -> None:
    """From now on `import torch`, and every module below it, is Rushlight. May be called again."""
    global _finder
    if _finder is not None:
        return
    if "torch" in sys.modules:
        raise RuntimeError(
            "rushlight.as_torch.install: PyTorch itself is already imported; call install() before "
            "the first `import torch`"
        )
    from rushlight.as_torch._absent import hide
    from rushlight.as_torch._children import teach_children

    _finder = TorchFinder()
    sys.meta_path.insert(0, _finder)
    hide()
    print_names_of("torch")
    teach_children()


def uninstall() -> None:
    """Forgets the name torch again. Modules that were imported keep what they have."""
    global _finder
    if _finder is None:
        return
    from rushlight.as_torch._absent import show
    from rushlight.as_torch._children import forget_children

    sys.meta_path.remove(_finder)
    show()
    _finder = None
    for name in [n for n in sys.modules if n.partition(".")[0] in ("torch", "functorch")]:
        del sys.modules[name]
    print_names_of("rushlight")
    forget_children()
