"""Whether Triton could be used: programs ask before they compile."""


def has_triton():
    """False: Rushlight does not hand programs to Triton."""
    return False


def has_triton_package():
    """Whether the package triton is installed."""
    import importlib.util

    return importlib.util.find_spec("triton") is not None
