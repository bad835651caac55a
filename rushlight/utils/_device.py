"""The default device as a context manager."""

from rushlight._C import device as DeviceContext  # with device("meta"): ...

__all__ = ["DeviceContext"]


def _device_constructors():
    """The functions that make tensors where no device is named."""
    import rushlight as rl

    names = """arange asarray as_tensor bartlett_window blackman_window empty empty_permuted
    empty_strided eye fft.fftfreq fft.rfftfreq full hamming_window hann_window kaiser_window
    linspace logspace ones rand randint randn randperm range scalar_tensor tensor tril_indices
    triu_indices zeros""".split()
    found = set()
    for name in names:
        owner, _, last = name.rpartition(".")
        found.add(getattr(getattr(rl, owner) if owner else rl, last))
    return found
