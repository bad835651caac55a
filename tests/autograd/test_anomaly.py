"""detect_anomaly: NaN and failures in backward, with the line of the forward call."""

import threading
import warnings

import pytest

import rushlight as rl
from rushlight.autograd import Function, detect_anomaly, set_detect_anomaly


class NanGradient(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g * float("nan")


class Fails(NanGradient):
    @staticmethod
    def backward(ctx, g):
        raise KeyError("from backward")


def leaf(*values):
    return rl.tensor(values, requires_grad=True)


@pytest.fixture(autouse=True)
def quiet_entry():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Anomaly Detection has been enabled")
        yield
    assert not rl.is_anomaly_enabled()


def test_switches():
    assert not rl.is_anomaly_enabled()
    with detect_anomaly():
        assert rl.is_anomaly_enabled() and rl.is_anomaly_check_nan_enabled()
        with detect_anomaly(check_nan=False):
            assert not rl.is_anomaly_check_nan_enabled()
        with set_detect_anomaly(False):
            assert not rl.is_anomaly_enabled()
        assert rl.is_anomaly_enabled() and rl.is_anomaly_check_nan_enabled()
    set_detect_anomaly(True, check_nan=False)
    assert rl.is_anomaly_enabled() and not rl.is_anomaly_check_nan_enabled()
    set_detect_anomaly(False)
    with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"):
        detect_anomaly()


def the_line_that_counts(x):
    return NanGradient.apply(x)


def test_nan_in_backward():
    x = leaf(1.0, 2.0)
    with (
        detect_anomaly(),
        pytest.warns(UserWarning, match="the_line_that_counts"),
        pytest.raises(RuntimeError, match="NanGradientBackward.*nan values in its 0th output"),
    ):
        the_line_that_counts(x * 2).sum().backward()
    the_line_that_counts(x * 2).sum().backward()  # the mode is over
    with detect_anomaly(check_nan=False):
        the_line_that_counts(x * 2).sum().backward()


def test_operators_are_named_by_their_nodes():
    x = leaf(0.0)
    with (
        detect_anomaly(),
        pytest.warns(UserWarning, match=r"x\.sqrt\(\)"),
        pytest.raises(RuntimeError, match="SqrtBackward0"),
    ):
        (x.sqrt() * 0).backward()


def test_graph_made_before_the_mode():
    y = the_line_that_counts(leaf(1.0) * 2)
    with detect_anomaly(), pytest.raises(RuntimeError, match="NanGradientBackward"):
        y.backward()


def test_a_failing_backward_is_located():
    with (
        detect_anomaly(),
        pytest.warns(UserWarning, match=r"Fails\.apply\(x\)"),
        pytest.raises(KeyError, match="from backward"),
    ):
        x = leaf(1.0)
        (Fails.apply(x) * 2).backward()


@pytest.mark.skipif(rl.__name__ != "rushlight", reason="PyTorch does not look there")
def test_nan_in_forward():
    x = leaf(-1.0, 4.0)
    with detect_anomaly(), pytest.warns(UserWarning) as seen:
        y = x.sqrt()
        z = y * 2 + 1  # came with NaN: reported once
    texts = [str(w.message) for w in seen]
    assert len(texts) == 1
    assert "SqrtBackward0" in texts[0] and "test_anomaly.py" in texts[0]
    assert "y = x.sqrt()" in texts[0]
    assert z.isnan()[0]
    with detect_anomaly(), pytest.raises(RuntimeError, match="held NaN already"):
        with pytest.warns(UserWarning):
            y = x.sqrt()
            y.sum().backward()


def test_good_programs_pass():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="Anomaly Detection has been enabled")
        with detect_anomaly():
            x = leaf(1.0, 2.0)
            (x.exp() * x).sum().backward()
            y = rl.tensor([1 + 2j], requires_grad=True)
            (y * y.conj()).real.sum().backward()
    assert x.grad is not None and y.grad is not None


@pytest.mark.threads
def test_other_threads_are_watched():
    errors = []

    def work():
        try:
            the_line_that_counts(leaf(1.0)).backward()
        except RuntimeError as e:
            errors.append(str(e))

    with detect_anomaly(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        t = threading.Thread(target=work)
        t.start()
        t.join()
    assert len(errors) == 1 and "NanGradientBackward" in errors[0]
