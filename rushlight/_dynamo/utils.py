"""Counters of PyTorch's tracer: nothing is counted."""

from collections import Counter, defaultdict

from rushlight._missing import names_missing_from

counters = defaultdict(Counter)

__getattr__ = names_missing_from(__name__)
