"""Whether a program is being traced: never."""

from rushlight._missing import absent

__all__ = ["get_proxy_mode"]


def get_proxy_mode():
    """The tracing that is going on: none."""
    return None


absent(
    globals(),
    "programs run eagerly and are not traced into graphs",
    classes="ProxyTorchDispatchMode",
    functions="make_fx",
)
