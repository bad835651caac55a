"""torch._C._autograd: classes of the graph."""

from rushlight import _C
from rushlight._names.missing import names_missing_from

SavedTensor = _C._SavedTensor

__getattr__ = names_missing_from(__name__)
