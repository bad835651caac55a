"""Intel GPU: not supported. Programs ask whether there is one, and go on without."""

from rushlight import _no_device

_no_device.fill(globals(), "xpu", "Intel GPU")
