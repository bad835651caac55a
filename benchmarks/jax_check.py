"""What jax_models.py --check asks JAX's process for."""

import numpy as np
from jax_side import Training


def differences(model, options, path):
    """The largest relative differences from what table1_models.py recorded in the file: of the
    losses, of what a parameter's tensor changed by, and of a tensor of running statistics.
    """
    record = np.load(path)
    parts = {"before": {}, "after": {}, "average": {}}
    for key in record.files:
        if "/" in key:
            part, name = key.split("/")
            parts[part][name] = record[key]
    training = Training(model, options, weights=parts["before"])
    losses = [float(training.step()) for _ in record["losses"]]
    before, after = (training.arranged(parts[part]) for part in ("before", "after"))
    parameters, _, averages, _ = training.everything
    ours = {k: np.asarray(p) - before[k] for k, p in parameters.items()}
    return {
        "loss": max(abs(losses / record["losses"] - 1)),
        "change": farthest(ours, {k: after[k] - before[k] for k in before}),
        "average": farthest(averages, parts["average"]),
    }


def farthest(ours, theirs):
    """The largest distance of two tensors by their root mean squares. A change of nothing, such as
    that of a bias that the next batch norm takes away, is rounding errors: hence the least scale.
    """

    def size(x):
        return float(np.sqrt(np.mean(np.square(x))))

    least = 1e-6 * max((size(theirs[k]) for k in ours), default=0)
    apart = (size(x - theirs[k]) / max(size(theirs[k]), least) for k, x in ours.items())
    return max(apart, default=0.0)
