"""Quasirandom numbers: not there."""

from rushlight._missing import absent

absent(
    globals(), "there are no quasirandom sequences; scipy.stats.qmc has them", classes="SobolEngine"
)
