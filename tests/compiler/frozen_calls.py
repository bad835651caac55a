"""What the tests of frozen functions ask of them."""

import numpy as np

import rushlight as rl


def frozen(f, **options):
    return rl.compile(f, mode="frozen", **options)


def recordings(f):
    return f._options.frozen


def replays(f):
    return sum(row[3] for row in recordings(f).programs())


def by_graphs(f):
    """How many replays were CUDA graphs, and what the recordings say about theirs."""
    programs = recordings(f).programs()
    return sum(row[9] for row in programs), [row[8] for row in programs]


def reasons(f):
    return " | ".join(recordings(f).reasons)


def bits(x):
    return np.asarray(x.detach().cpu()).tobytes()
