"""The annotations that stand in a class or a function."""

from __future__ import annotations

import inspect
import sys
from typing import Any

__all__ = ["own_annotations"]


def own_annotations(of: Any) -> dict[str, Any]:
    """Those of a class without its bases', or of a function; as text where they name what is not
    there. Since Python 3.14 a class's `__dict__` has none: they are computed when asked for."""
    try:
        return inspect.get_annotations(of)
    except NameError:
        if sys.version_info >= (3, 14):
            import annotationlib

            return annotationlib.get_annotations(of, format=annotationlib.Format.STRING)
        raise
