"""What scaling_models.py predicts steps from: small fits, none of which may be negative.

A step without communication takes longer when more processes run beside it: they share caches,
memory and the heat that a package may give off. How much longer, probes tell, which any machine
runs without the model: PROBES. A model's step is a sum of such work, and how much of each it
has is fitted on small numbers of processes.
"""

from itertools import combinations

PROBES = ("compute", "cache", "memory")


def least_squares(rows, values):
    """The numbers whose products with the rows are nearest to the values; None where many are."""
    n = len(rows[0])
    a = [[sum(r[i] * r[j] for r in rows) for j in range(n)] for i in range(n)]
    b = [sum(r[i] * v for r, v in zip(rows, values, strict=True)) for i in range(n)]
    for i in range(n):
        if a[i][i] <= 1e-9 * sum(r[i] * r[i] for r in rows):
            return None
        for k in range(i + 1, n):
            factor = a[k][i] / a[i][i]
            a[k] = [x - factor * y for x, y in zip(a[k], a[i], strict=True)]
            b[k] -= factor * b[i]
    found = [0.0] * n
    for i in reversed(range(n)):
        found[i] = (b[i] - sum(a[i][j] * found[j] for j in range(i + 1, n))) / a[i][i]
    return found


def not_negative(rows, values):
    """As least_squares, of those that are not negative."""
    n = len(rows[0])
    best, least = [0.0] * n, sum(v * v for v in values)
    for count in range(1, n + 1):
        for chosen in combinations(range(n), count):
            some = least_squares([[r[i] for i in chosen] for r in rows], values)
            if some is None or min(some) < 0:
                continue
            found = [0.0] * n
            for i, x in zip(chosen, some, strict=True):
                found[i] = x
            missed = (sum(x * y for x, y in zip(r, found, strict=True)) - v
                      for r, v in zip(rows, values, strict=True))  # fmt: skip
            if (error := sum(m * m for m in missed)) < least * (1 - 1e-9):
                best, least = found, error
    return best


LIKELY = 0.5  # a share of a step that is not compute


def parts(machine, seconds, noise=0.0):
    """How long the step of one process is by each probe's work. Errors count relatively.

    Where few processes share little, all probes stay nearly the same, and noise would decide what a
    step is made of. So what is not compute counts as an error, too: a share of LIKELY as much as
    the noise of the figures.

    Arguments:
        machine: seconds of each probe by number of processes.
        seconds: of the model's step, by number of processes.
        noise: of these, relative.
    """
    rows = [[slower(machine, p, n) / s for p in PROBES] for n, s in seconds.items()]
    values = [1.0] * len(rows)
    per_second = sum(r[0] for r in rows) / len(rows)
    for i in range(1, len(PROBES)):
        rows.append([noise / LIKELY * per_second * (i == k) for k in range(len(PROBES))])
        values.append(0.0)
    return dict(zip(PROBES, not_negative(rows, values), strict=True))


def slower(machine, probe, processes):
    return machine[processes][probe] / machine[min(machine)][probe]


def step(machine, found, processes):
    """Seconds of a step that has these parts."""
    return sum(found[p] * slower(machine, p, processes) for p in PROBES)


def ring(ranks, nbytes, latency, bandwidth):
    """Seconds of an all_reduce."""
    return 2 * (ranks - 1) * (latency + nbytes / ranks / bandwidth)


def added(links, nbytes, seconds, ranks):
    """What DDP adds to a step on so many ranks: a constant, and a share of its all_reduce.

    Arguments:
        links: (latency, bandwidth) by number of ranks.
        seconds: that it adds on smaller numbers of ranks.
    """
    rows = [[1.0, ring(n, nbytes, *links[n])] for n in seconds]
    constant, share = not_negative(rows, list(seconds.values()))
    return constant + share * ring(ranks, nbytes, *links[ranks])
