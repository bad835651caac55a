"""The limits of float8 dtypes, which programs read though no tensor here has them."""

from types import SimpleNamespace

# eps, largest, smallest normal
_LIMITS = {
    "float8_e4m3fn": (0.125, 448.0, 2.0**-6),
    "float8_e4m3fnuz": (0.125, 240.0, 2.0**-7),
    "float8_e5m2": (0.25, 57344.0, 2.0**-14),
    "float8_e5m2fnuz": (0.125, 57344.0, 2.0**-15),
    "float8_e8m0fnu": (1.0, 2.0**127, 2.0**-127),
}


def finfo_of(dtype):
    """What finfo gives for such a dtype."""
    name = str(dtype).rpartition(".")[2]
    if name == "complex32":
        from rushlight import _C

        return _C.finfo(_C.float16)
    if name not in _LIMITS:
        raise NotImplementedError(f"finfo: the limits of {dtype} are not known")
    eps, largest, tiny = _LIMITS[name]
    smallest = tiny if name == "float8_e8m0fnu" else -largest
    return SimpleNamespace(
        bits=8, dtype=name, eps=eps, max=largest, min=smallest, tiny=tiny, smallest_normal=tiny,
        resolution=1.0,
    )  # fmt: skip
