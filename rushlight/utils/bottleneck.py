"""python -m torch.utils.bottleneck: not there."""

from rushlight._missing import absent

absent(globals(), "use Python's cProfile, or rushlight.profiler", functions="main")
