"""What differs from PyTorch on purpose, and why. docs/numerics.md has it in words."""

# By op, parts of the differences that tools/conformance.py reports.
BETTER = {
    # PyTorch's gradient is that of the elements that src replaces.
    "as_strided_scatter": ("gradient 0",),
    "block_diag": ("gradient",),  # PyTorch's leaves out the row of an empty part
    "bartlett_window": ("refused",),  # complex windows of one element
    "blackman_window": ("refused",),
    "hamming_window": ("refused",),
    "hann_window": ("refused",),
    "cdist": ("result",),  # PyTorch loses nan in the largest difference
    "clamp_min": ("refused",),  # a negative limit for unsigned numbers, which PyTorch wraps around
    "clamp": ("refused",),
    "clamp_max": ("refused",),
    "cumprod": ("gradient",),  # complex numbers added up as real ones have a real gradient
    "ldexp": ("gradient",),  # PyTorch's is zero where the exponent is negative
    "log_softmax": ("result",),  # beside an infinite score: -inf, not nan
    "mean": ("result",),
    "nanmedian": ("result",),  # PyTorch does not write an out that it resizes
    "polygamma": ("result",),  # infinite at the poles
    "resize_": ("result",),  # new elements are whatever the memory held
    "resize_as_": ("result",),
    "sinc": ("result",),  # zero at whole numbers
    "sort": ("result 1",),  # the order of equal elements is nobody's without stable=True
    "sub": ("result",),  # alpha = 1 does not multiply infinities
    "take_along_dim": ("refused",),  # PyTorch reads outside of the tensor with out=
    "tensordot": ("result",),  # products of infinite complex numbers
    "unravel_index": ("refused",),  # indices outside of the shape
    "var_mean": ("result 1",),  # the mean beside an infinity is infinite
    "ctc_loss": ("refused",),  # options that are no options
    "grid_sampler": ("refused",),
}
# Refusals that are the rule here: writes through one memory location under several indices, and
# dtypes that an op does not have, of empty tensors too.
RULES = (
    "refers to one memory location", "not implemented for", "have no order",
    "unexpected keyword 'out'", "must have the same dtype", "they must be the same",
    "dim is out of range", "pass dtype= or convert",
)  # fmt: skip


def is_better(op: str, found: str, call: str) -> bool:
    """Is a difference one of those above? What PyTorch alone refuses is more than it has."""
    if found.startswith("only PyTorch refuses"):
        return True
    if any(part in found for part in BETTER.get(op, ())):
        return True
    return found.startswith("refused") and any(rule in found for rule in RULES)


IMAGES = (
    "_upsample_bilinear2d_aa", "nn.functional.upsample_bilinear",
    "nn.functional.interpolate.bicubic", "nn.functional.interpolate.bilinear",
)  # fmt: skip
WHOLE = ("bool", "uint8", "int8", "int16", "int32", "int64")
# By section of PyTorch's operator database: a part of the difference that tools/opinfo.py reports,
# and the dtypes of the samples that have it, where not all do.
SAMPLES = {
    "op as_strided_scatter": ("gradient",),
    # which of several equal elements is nobody's
    "op argsort": ("result 0",),
    **{f"op {name}": ("result 1",) for name in ("kthvalue", "mode", "sort", "topk")},
    # infinite at the poles
    **{f"op polygamma.polygamma_n_{n}": ("result 0", *WHOLE) for n in range(5)},
    "op special.polygamma.special_polygamma_n_0": ("result 0", *WHOLE),
    "op sinc": ("result 0", *WHOLE),  # zero at whole numbers
    "op fft.ihfftn": ("result 0",),  # of one dim PyTorch leaves out= as it was
    "op masked.logaddexp": ("order 2",),  # PyTorch's is nan where one is masked
    # PyTorch rounds a correction, and 1/6, to float32
    **{f"op masked.{f}": ("result 0", "float64", "complex128") for f in ("std", "var")},
    "op nn.functional.hardsigmoid": ("gradient 0", "float64"),
    "op sparse.sampled_addmm": ("gradient 0: sparse_csr",),  # of a sparse tensor, as sparse
    # near the zeros, to the last units
    **{
        f"op special.{f}": ("result 0", "float64", *WHOLE)
        for f in ("airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1")
    },
    "optimizer ASGD": (
        "result",
        "torch.float64",
        "torch.complex128",
    ),  # PyTorch's foreach has eta in float32
    "optimizer Muon": ("result", "torch.float64"),  # directions are computed in bfloat16
}


# Where older versions of PyTorch give something else than the one that is the measure, 2.13.
OLDER = {
    # Until then, numbers beyond the largest of float8_e4m3fn became nan; they are that largest one.
    "op torch._scaled_mm": ("result 0",),
}
# The same of samples that run on a GPU.
ON_GPUS = {
    # 8-bit images are resampled in floating point and rounded once; PyTorch has them on CPUs only
    **{f"op {name}": ("result 0: other values", "uint8") for name in IMAGES},
}


def is_better_sample(
    section: str, found: str, case: object, device: str = "cpu", version: str = "2.13"
) -> bool:
    """Is a difference on a sample of PyTorch's database one of those above? On a GPU, a dtype that
    PyTorch does not have there may be refused."""
    if tuple(map(int, version.split(".")[:2])) < (2, 13) and is_listed(
        OLDER, section, found, case.text
    ):
        return True
    if device == "cuda":
        if not case.cuda and "Error: " in found:
            return True
        if is_listed(ON_GPUS, section, found, case.text):
            return True
    return is_listed(SAMPLES, section, found, case.text)


def is_listed(table: dict, section: str, found: str, case: str) -> bool:
    part, *dtypes = table.get(section, ("\0",))
    return part in found and (not dtypes or case.split()[0] in dtypes)
