"""Convolutions; their float64 values are recorded."""

from ops.sample import ORACLE, C, OpSample, T


def recorded(name, *calls, **kw):
    kw.setdefault("slack", 40)
    return OpSample(name, ORACLE, list(calls), **kw)


ROWS = [
    recorded("conv1d", C(T(2, 3, 9), T(4, 3, 3), T(4)), C(T(3, 8), T(4, 3, 2), stride=2),
             C(T(2, 4, 9), T(6, 2, 3), None, 1, 2, 2, 2), C(T(0, 3, 9), T(4, 3, 3)),
             C(T(2, 3, 8), T(2, 3, 4), padding="same", dilation=1),
             C(T(2, 3, 8), T(2, 3, 3), padding="valid")),
    recorded("conv2d", C(T(2, 3, 6, 5), T(4, 3, 3, 3), T(4)), C(T(2, 3, 6, 5), T(4, 3, 1, 1)),
             C(T(2, 4, 7, 6), T(6, 2, 3, 2), T(6), (2, 1), (1, 0), (1, 2), 2),
             C(T(1, 4, 5, 5), T(8, 1, 3, 3), None, 2, 1, groups=4),
             C(T(3, 6, 5), T(4, 3, 2, 2), padding="same"), C(T(0, 3, 6, 5), T(4, 3, 3, 3), T(4)),
             C(T(2, 3, 5, 5), T(2, 3, 2, 2), dilation=(3, 2), padding=[2])),
    recorded("conv3d", C(T(1, 2, 4, 5, 4), T(3, 2, 2, 3, 2), T(3)),
             C(T(2, 2, 3, 4, 4), T(4, 1, 2, 2, 2), None, (1, 2, 1), (0, 1, 1), 1, 2),
             C(T(2, 3, 3, 3), T(2, 2, 2, 2, 2), padding="same")),
    recorded("conv_transpose1d", C(T(2, 3, 5), T(3, 4, 3), T(4)),
             C(T(4, 5), T(4, 2, 3), T(4), 2, 1, 1, 2), C(T(2, 3, 5), T(3, 2, 3), dilation=2)),
    recorded("conv_transpose2d", C(T(2, 3, 4, 5), T(3, 4, 3, 3), T(4)),
             C(T(2, 4, 4, 3), T(4, 2, 3, 2), T(4), (2, 3), (1, 0), (1, 2), 2),
             C(T(1, 2, 4, 4), T(2, 3, 2, 3), None, 1, 0, (1, 1), 1, 2),
             C(T(0, 3, 4, 5), T(3, 4, 3, 3)), C(T(3, 4, 5), T(3, 2, 1, 1))),
    recorded("conv_transpose3d", C(T(1, 2, 3, 3, 2), T(2, 3, 2, 2, 2), T(3)),
             C(T(1, 4, 2, 3, 3), T(4, 1, 2, 3, 2), None, 2, 1, 1, 2)),
    recorded("convolution", C(T(2, 3, 6, 5), T(4, 3, 3, 3), T(4), [1, 1], [1, 1], [1, 1], False,
                              [0, 0], 1),
             C(T(2, 4, 5), T(4, 2, 3), None, [2], [0], [1], True, [1], 1)),
]  # fmt: skip
