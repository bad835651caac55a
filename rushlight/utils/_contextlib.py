"""Context managers that decorate too."""

import functools
import inspect

__all__ = ["context_decorator"]


def context_decorator(ctx, func):
    """The function, run inside a context that ctx (a context manager or a maker of them) gives."""
    make = ctx if callable(ctx) and not hasattr(ctx, "__enter__") else lambda: ctx

    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        with make():
            return func(*args, **kwargs)

    return wrapped


class _DecoratorContextManager:
    """A context manager whose objects decorate functions; each call enters a fresh one."""

    def __call__(self, orig_func):
        if inspect.isclass(orig_func):
            raise TypeError("a class cannot be decorated; decorate its methods")
        return context_decorator(self.clone, orig_func)

    def __enter__(self):
        raise NotImplementedError

    def __exit__(self, exc_type, exc_value, traceback):
        raise NotImplementedError

    def clone(self):
        return self.__class__()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """One that decorates with and without parentheses."""

    def __new__(cls, orig_func=None):
        return super().__new__(cls) if orig_func is None else cls()(orig_func)
