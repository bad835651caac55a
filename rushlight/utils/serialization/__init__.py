"""Settings of save and load."""

from rushlight._names.missing import names_missing_from
from rushlight.utils.serialization import config as config

__getattr__ = names_missing_from(__name__)
