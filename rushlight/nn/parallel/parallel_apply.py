"""Calling several models."""

__all__ = ["parallel_apply"]


def parallel_apply(modules, inputs, kwargs_tup=None, devices=None):
    """Each module called with its inputs, one after the other."""
    kwargs_tup = ({},) * len(modules) if kwargs_tup is None else kwargs_tup
    outputs = []
    for module, given, kwargs in zip(modules, inputs, kwargs_tup, strict=True):
        args = given if isinstance(given, tuple | list) else (given,)
        outputs.append(module(*args, **kwargs))
    return outputs
