"""Signal processing: the windows of the package under their old names."""

from types import SimpleNamespace

from rushlight import _windows
from rushlight._missing import names_missing_from


def _as_signal_window(make):
    def window(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
        kwargs = {} if layout is None else {"layout": layout}
        return make(
            M, periodic=not sym, dtype=dtype, device=device, requires_grad=requires_grad, **kwargs
        )

    window.__name__ = window.__qualname__ = make.__name__.removesuffix("_window")
    window.__doc__ = make.__doc__
    return window


windows = SimpleNamespace(
    bartlett=_as_signal_window(_windows.bartlett_window),
    blackman=_as_signal_window(_windows.blackman_window),
    hamming=_as_signal_window(_windows.hamming_window),
    hann=_as_signal_window(_windows.hann_window),
)

__getattr__ = names_missing_from(__name__)
