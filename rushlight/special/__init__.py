"""Special functions under the names of the ``special`` namespace."""

# ruff: noqa: F403 -- the op table says which they are

from rushlight._names.missing import names_missing_from
from rushlight._names.publish import publish
from rushlight._places.special import *
from rushlight._places.special import __all__ as __all__

__getattr__ = names_missing_from(__name__)

publish(globals(), "special", __all__)
