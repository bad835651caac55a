"""What PyTorch once had to bridge Python 2 and 3; old programs import it still."""

import builtins
import collections.abc as container_abcs
from math import inf, nan

__all__ = ["container_abcs", "inf", "int_classes", "nan", "string_classes"]

string_classes = (str, bytes)
int_classes = int
PY2, PY3, PY37 = False, True, True


def with_metaclass(meta, *bases):
    """A base class with this metaclass."""
    return meta("temporary_class", bases or (builtins.object,), {})
