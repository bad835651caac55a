"""Interpolation, sampling and patches; their float64 values are recorded."""

from ops.sample import ORACLE, C, OpSample, T


def recorded(name, *calls, **kw):
    kw.setdefault("slack", 20)
    return OpSample(name, ORACLE, list(calls), **kw)


F = "nn.functional."
I1, I2, I3 = T(2, 3, 5), T(1, 2, 4, 5), T(1, 2, 3, 4, 3)
FLOATS = ("float32", "float64", "float16", "bfloat16")


def sample(mode, padding, align, dims=2):
    grid = T(2, 3, 2, 2, lo=-1.7, hi=1.7) if dims == 2 else T(1, 2, 2, 3, 3, lo=-1.7, hi=1.7)
    image = T(2, 2, 4, 5) if dims == 2 else T(1, 2, 3, 4, 3)
    return C(image, grid, mode=mode, padding_mode=padding, align_corners=align)


ROWS = [
    recorded(F + "interpolate",
             C(I1, 8), C(I2, scale_factor=2), C(I3, (5, 2, 4)),
             C(I2, (3, 7), mode="nearest-exact"),
             C(I1, 8, mode="linear"), C(I1, 8, mode="linear", align_corners=True),
             C(I2, (7, 3), mode="bilinear"), C(I2, (7, 3), mode="bilinear", align_corners=True),
             C(I2, scale_factor=1.7, mode="bilinear"),
             C(I2, scale_factor=(1.7, 0.6), mode="bilinear", recompute_scale_factor=True),
             C(I3, (5, 2, 4), mode="trilinear"),
             C(I3, 5, mode="trilinear", align_corners=True),
             C(I2, (7, 3), mode="bicubic"), C(I2, (7, 3), mode="bicubic", align_corners=True),
             C(I2, (2, 3), mode="bilinear", antialias=True),
             C(I2, (2, 9), mode="bicubic", antialias=True),
             C(I1, 3, mode="area"), C(I2, (2, 3), mode="area"),
             dtypes=FLOATS),
    recorded(F + "grid_sample",
             *[sample(m, p, a) for m in ("bilinear", "bicubic")
               for p in ("zeros", "border", "reflection") for a in (False, True)],
             *[sample("bilinear", p, a, 3) for p in ("zeros", "border", "reflection")
               for a in (False, True)],
             dtypes=("float32", "float64")),
    recorded(F + "affine_grid", C(T(2, 2, 3), (2, 3, 4, 5)), C(T(2, 2, 3), (2, 3, 4, 1), True),
             C(T(1, 3, 4), (1, 2, 3, 2, 4), False), dtypes=("float32", "float64"), meta=False),
    recorded(F + "unfold", C(T(2, 3, 5, 6), 2), C(T(3, 5, 6), (2, 3), 2, 1, (1, 2)),
             C(T(1, 2, 5, 5), 3, 1, 1, 2)),
    recorded(F + "fold", C(T(2, 12, 20), (5, 6), 2), C(T(2, 12, 9), (6, 5), (2, 3), 1, 0, (2, 1)),
             C(T(12, 9), (5, 5), 2, 2, 1, 2)),
]  # fmt: skip
