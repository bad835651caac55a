"""Timing pieces of code: Timer, and Compare to lay results side by side."""

from rushlight._names.missing import names_missing_from
from rushlight.utils.benchmark._compare import Compare
from rushlight.utils.benchmark._measurement import Measurement, TaskSpec, select_unit
from rushlight.utils.benchmark._timer import Language, Timer, timer

__all__ = ["Compare", "Language", "Measurement", "TaskSpec", "Timer", "select_unit", "timer"]

__getattr__ = names_missing_from(__name__)
