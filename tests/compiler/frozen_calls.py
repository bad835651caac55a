"""What the tests of frozen functions ask of them."""

import numpy as np

import rushlight as rl


def frozen(f, **options):
    return rl.compile(f, mode="frozen", **options)


def recordings(f):
    return f._options.frozen


def replays(f):
    return sum(row[3] for row in recordings(f).programs())


def reasons(f):
    return " | ".join(recordings(f).reasons)


def bits(x):
    return np.asarray(x.detach()).tobytes()
