"""What is wrong with a machine, or with a program that trains: python -m rushlight doctor.

    python -m rushlight doctor                 the machine and its settings
    python -m rushlight doctor train.py ...    and the first steps of a program

    with rushlight.doctor.watch() as seen:     the same from inside
        train(model, steps=10)
    print(seen)

docs/doctor.md is the guide.
"""

from __future__ import annotations

from rushlight.doctor._environment import check_environment
from rushlight.doctor._examine import Diagnosis, examine, watch
from rushlight.profiler._verdict import Finding

__all__ = ["Diagnosis", "Finding", "check_environment", "examine", "watch"]
