"""torch._guards, as far as programs ask it: whether tensors are fake at the moment. There are no
fake tensors here (shapes without values are those of the device `meta`), so none ever are."""

from rushlight._names.missing import names_missing_from


def active_fake_mode():
    """None: no mode that makes fake tensors is on."""
    return None


def detect_fake_mode(inputs=None):
    """None: no tensor among the inputs is a fake one."""
    return None


__getattr__ = names_missing_from(__name__)
