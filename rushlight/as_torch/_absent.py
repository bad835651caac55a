"""Packages that are nothing without code in C++ built for PyTorch: while Rushlight stands in for
torch they count as not installed, so that programs take the way that does without them."""

import re
import sys
from importlib.machinery import ExtensionFileLoader, PathFinder

from rushlight._extensions import needs_pytorch
from rushlight.as_torch._finder import is_import_statement

# Import names. A package that can do something without its C++ part is not among them: it is
# imported, and its extension modules are absent.
PACKAGES = frozenset(
    """apex bitsandbytes causal_conv1d flash_attn flash_attn_interface mamba_ssm pyg_lib
    torch_cluster torch_scatter torch_sparse torch_spline_conv torchcodec transformer_engine
    xformers""".split()
)


def why_absent(fullname, spec):
    """Why a module that was found cannot be used, or None."""
    # A single file apex.py is the program's own: the word is a common one.
    is_own = fullname == "apex" and spec.submodule_search_locations is None
    if fullname in PACKAGES and not is_own:
        return (
            f"{fullname} is installed, but its C++ part is built for PyTorch, and cannot be used "
            "while Rushlight stands in for torch"
        )
    if isinstance(spec.loader, ExtensionFileLoader) and needs_pytorch(spec.origin):
        return (
            f"No module named {fullname!r}: {spec.origin} is built for PyTorch's C++ library, and "
            "cannot be loaded while Rushlight stands in for torch"
        )
    return None


class UsablePathFinder(PathFinder):
    """Finds what lies on sys.path, without what cannot be used."""

    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        spec = super().find_spec(fullname, path, target)
        reason = why_absent(fullname, spec) if spec is not None else None
        if reason is None:
            return spec
        if is_import_statement():
            raise ModuleNotFoundError(reason, name=fullname)
        return None

    @staticmethod
    def find_distributions(*args, **kwargs):
        for found in PathFinder.find_distributions(*args, **kwargs):
            # (By the name of the folder: reading the metadata of all that is installed takes time.)
            name = getattr(found, "_normalized_name", None) or found.metadata["Name"]
            if re.sub(r"[-_.]+", "_", name).lower() not in PACKAGES:
                yield found


def hide():
    """From now on these packages are not seen."""
    sys.meta_path[:] = [UsablePathFinder if f is PathFinder else f for f in sys.meta_path]


def show():
    sys.meta_path[:] = [PathFinder if f is UsablePathFinder else f for f in sys.meta_path]
