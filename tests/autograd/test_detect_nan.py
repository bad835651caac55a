"""detect_nan: finite steps are as they were, others say which op, module and line."""

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.autograd import NanError, detect_nan
from rushlight.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3))
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        h = self.body(x)
        if getattr(self, "fault", False):
            h = h.log()  # the fault
        return self.head(h)


def training(model, loss_of=lambda y: y.pow(2).mean(), steps=True):
    optimizer = rl.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = loss_of(model(x))
        loss.backward()
        if steps:
            optimizer.step()
        return loss

    return step


def weights(model):
    return [p.detach().clone() for p in model.parameters()]


def test_finite_steps_are_as_they_were():
    results = []
    for wrap in (detect_nan, lambda f: f):
        rl.manual_seed(0)
        model = Net()
        step = wrap(training(model))
        losses = [step(rl.ones(3, 4)).item() for _ in range(4)]
        results.append((losses, weights(model)))
    assert results[0][0] == results[1][0]
    assert all(rl.equal(a, b) for a, b in zip(results[0][1], results[1][1], strict=True))


def test_an_op_of_forward_is_named():
    model = Net()
    step = detect_nan(training(model))
    step(rl.ones(3, 4))
    model.fault = True
    before = weights(model)
    with pytest.raises(NanError, match="log makes NaN or infinity in Net") as caught:
        step(rl.ones(3, 4))
    error = caught.value
    assert error.op == "log" and error.module == "Net" and error.line.endswith(": forward")
    assert isinstance(error, RuntimeError) and isinstance(error, FloatingPointError)
    assert all(rl.equal(a, b) for a, b in zip(before, weights(model), strict=True))


def test_a_module_inside_is_named():
    model = Net()
    with rl.no_grad():
        model.body[0].weight[0, 0] = float("nan")
    with pytest.raises(NanError, match=r"linear gets NaN or infinity in Net.body.0"):
        detect_nan(training(model))(rl.ones(3, 4))


def test_a_fault_of_backward_is_named():
    step = detect_nan(training(Net(), lambda y: (y * 0).abs().sqrt().sum()))
    with pytest.raises(NanError, match="Backward0 makes NaN in backward") as caught:
        step(rl.ones(3, 4))
    assert caught.value.op.endswith("Backward0") and "<lambda>" in caught.value.line


def test_what_a_step_returns_is_looked_at():
    model = Net()
    with pytest.raises(NanError, match="div"):
        detect_nan(lambda x: {"loss": (model(x).sum(), x / 0)})(rl.ones(3, 4))
    assert detect_nan(lambda x: None)(1) is None


def test_without_an_optimiser_only_the_result_counts():
    step = detect_nan(training(Net(), steps=False))
    assert step(rl.ones(3, 4)).isfinite()


def test_the_second_run_sees_the_same_random_numbers():
    """Dropout decides here whether there is a zero to take the logarithm of."""
    drawn = []

    def step(x):
        mask = F.dropout(x, 0.5)
        drawn.append(mask.tolist())
        return mask.log()

    with pytest.raises(NanError, match="log"):
        detect_nan(step)(rl.ones(64))
    assert len(drawn) == 2 and drawn[0] == drawn[1]


def test_a_fault_that_does_not_come_back():
    calls = []

    def step():
        calls.append(1)
        return rl.tensor(float("nan")) if len(calls) == 1 else rl.tensor(1.0)

    with pytest.raises(NanError, match="run again, made none"):
        detect_nan(step)()


def test_other_errors_pass():
    with pytest.raises(ZeroDivisionError):
        detect_nan(lambda: 1 / 0)()
    from rushlight.optim import optimizer

    assert not optimizer._global_pre_hooks and not rl.is_anomaly_enabled()


def test_half_precision_does_not_overflow_in_the_check():
    w = nn.Parameter(rl.ones(1000, dtype=rl.float16))
    optimizer = rl.optim.SGD([w], lr=1e-6)

    def step():
        (w * 300).sum(dtype=rl.float32).backward()
        optimizer.step()

    detect_nan(step)()  # the sum of squares is beyond float16
    assert w.isfinite().all()


def step_with_gradients(*gradients):
    """A checked step of an optimiser whose parameters get these gradients."""
    weights = [rl.zeros(g.shape, dtype=g.dtype, requires_grad=True) for g in gradients]
    unused = rl.zeros(2, requires_grad=True)
    optimizer = rl.optim.SGD([{"params": weights[:1]}, {"params": [*weights[1:], unused]}], lr=0.1)

    @detect_nan
    def step():
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.grad = gradient
        optimizer.step()

    return step


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64, rl.float16, rl.bfloat16])
def test_gradients_whose_sum_overflows_are_finite(dtype):
    large = rl.full((300,), rl.finfo(dtype).max / 2, dtype=dtype)
    step_with_gradients(rl.ones(3), large)()
    large[7] = rl.inf
    with pytest.raises(NanError, match=r"param_groups\[1\]\['params'\]\[0\]"):
        step_with_gradients(rl.ones(3), large)()


def test_sparse_gradients_are_looked_at():
    model = nn.Embedding(5, 3, sparse=True)
    step = detect_nan(training(model))
    step(rl.tensor([1, 3]))
    with rl.no_grad():
        model.weight[3] = rl.nan
    with pytest.raises(NanError):
        step(rl.tensor([1, 3]))
