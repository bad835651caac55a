"""Recurrent layers and cells; their float64 values are recorded."""

from ops.sample import ORACLE, C, OpSample, T, V


def recorded(name, *calls, **kw):
    kw.setdefault("slack", 40)
    return OpSample(name, ORACLE, list(calls), **kw)


def weights(gates, inputs, hidden, bias=True, projected=0):
    """Of one direction of one layer; small ones, for states that do not saturate."""
    size, outputs = gates * hidden, projected or hidden
    shapes = [(size, inputs), (size, outputs)] + [(size,)] * (2 * bias)
    shapes += [(projected, hidden)] * (projected > 0)
    return [T(*shape, lo=-0.8, hi=0.8) for shape in shapes]


def cell(gates, hidden=2, **kw):
    return C(T(3, 4), T(3, hidden), *weights(gates, 4, hidden, **kw))


# has_biases, num_layers, dropout, train, bidirectional
PLAIN = (True, 1, 0.0, False, False)
PACKED = (T(7, 3), V([3, 3, 1], "int64"))


def layers(gates):
    """Calls of a layer with one state."""
    two = weights(gates, 3, 2) + weights(gates, 3, 2)
    return [
        C(T(4, 2, 3), T(1, 2, 2), weights(gates, 3, 2), *PLAIN, False),
        C(T(2, 4, 3), T(2, 2, 2), two, True, 1, 0.0, True, True, True),
        C(T(3, 1, 3), T(2, 1, 3), weights(gates, 3, 3, False) + weights(gates, 3, 3, False),
          False, 2, 0.0, False, False, False),
        C(*PACKED, T(2, 3, 2), two, True, 1, 0.0, False, True),
        C(*PACKED, T(1, 3, 2), weights(gates, 3, 2), *PLAIN),
    ]  # fmt: skip


ROWS = [
    recorded("lstm",
             C(T(4, 2, 3), [T(1, 2, 2), T(1, 2, 2)], weights(4, 3, 2), *PLAIN, False),
             C(T(2, 3, 3), [T(2, 2, 2), T(2, 2, 2)], weights(4, 3, 2) + weights(4, 3, 2), True, 1,
               0.0, True, True, True),
             C(T(3, 1, 3), [T(2, 1, 3)] * 2, weights(4, 3, 3, False) + weights(4, 3, 3, False),
               False, 2, 0.0, False, False, False),
             C(T(3, 2, 3), [T(1, 2, 2), T(1, 2, 3)], weights(4, 3, 3, projected=2), *PLAIN, False),
             C(*PACKED, [T(2, 3, 2)] * 2, weights(4, 3, 2) + weights(4, 3, 2), True, 1, 0.0, False,
               True),
             C(*PACKED, [T(1, 3, 1), T(1, 3, 2)], weights(4, 3, 2, projected=1), *PLAIN),
             meta=False),
    recorded("gru", *layers(3), meta=False),
    recorded("rnn_tanh", *layers(1), meta=False),
    recorded("rnn_relu", *layers(1), meta=False),
    recorded("lstm_cell", C(T(3, 4), [T(3, 2), T(3, 2)], *weights(4, 4, 2)),
             C(T(1, 4), [T(1, 3), T(1, 3)], *weights(4, 4, 3, False))),
    recorded("gru_cell", cell(3), cell(3, 5, bias=False)),
    recorded("rnn_tanh_cell", cell(1), cell(1, 5, bias=False)),
    recorded("rnn_relu_cell", cell(1), cell(1, 5, bias=False)),
]  # fmt: skip
