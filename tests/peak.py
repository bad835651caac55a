"""Memory that a function takes on the CPU."""

import rushlight as rl


def peak_of(f) -> int:
    """Bytes that f has beyond what is there before, at most; the second time it runs."""
    f()
    before = rl.memory_stats()["allocated"]
    rl.reset_peak_memory_stats()
    f()
    return rl.memory_stats()["peak"] - before
