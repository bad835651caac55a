"""The limits of dtypes that programs read though no tensor here has them."""

from types import SimpleNamespace

_LARGEST, _SMALLEST = 2.0**127, 2.0**-127  # of float8_e8m0fnu


def finfo_of(dtype):
    """What finfo gives for such a dtype."""
    name = str(dtype).rpartition(".")[2]
    if name != "float8_e8m0fnu":
        raise NotImplementedError(f"finfo: the limits of {dtype} are not known")
    return SimpleNamespace(
        bits=8, dtype=name, eps=1.0, max=_LARGEST, min=_SMALLEST, tiny=_SMALLEST,
        smallest_normal=_SMALLEST, resolution=1.0,
    )  # fmt: skip
