"""isinstance for the types of annotations."""

import types
import typing

_CONTAINERS = (list, tuple, dict)


def fits(obj, target):
    """Whether an object is of a type, its items included."""
    if isinstance(target, tuple):
        return any(fits(obj, t) for t in target)
    origin, args = typing.get_origin(target), typing.get_args(target)
    if origin is None:
        return target is typing.Any or (obj is None if target is None else isinstance(obj, target))
    if origin in (typing.Union, types.UnionType):
        return any(fits(obj, t) for t in args)
    if not isinstance(obj, origin):
        return False
    if origin is list:
        return all(fits(item, args[0]) for item in obj)
    if origin is dict:
        return all(fits(k, args[0]) and fits(v, args[1]) for k, v in obj.items())
    if origin is tuple:
        if len(args) == 2 and args[1] is Ellipsis:
            return all(fits(item, args[0]) for item in obj)
        return len(obj) == len(args) and all(map(fits, obj, args))
    return True
