"""GradScaler: scaling, unscaling, skipped steps, growth, saved states."""

import pickle

import pytest

import rushlight as rl
from rushlight import amp, optim


def setup(**options):
    p = rl.ones(3, requires_grad=True)
    options = {"init_scale": 8.0, "growth_interval": 2, **options}
    return p, optim.SGD([p], lr=1.0), amp.GradScaler("cpu", **options)


def test_a_step_is_that_of_the_plain_gradient():
    p, optimizer, scaler = setup()
    scaler.scale((p * 2).sum()).backward()
    assert p.grad.tolist() == [16.0] * 3
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == [-1.0] * 3
    assert p.grad.tolist() == [2.0] * 3


@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_bad_gradients_skip_the_step_and_shrink(bad):
    p, optimizer, scaler = setup()
    scaler.scale((p * 2).sum()).backward()
    p.grad[1] = bad
    assert scaler.step(optimizer) is None
    scaler.update()
    assert p.tolist() == [1.0] * 3
    assert scaler.get_scale() == 4.0


def test_growth():
    p, optimizer, scaler = setup()
    for expected in (8.0, 16.0, 16.0, 32.0):
        optimizer.zero_grad()
        scaler.scale(p.sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == expected


def test_unscale_once():
    p, optimizer, scaler = setup()
    scaler.scale(p.sum()).backward()
    scaler.unscale_(optimizer)
    assert p.grad.tolist() == [1.0] * 3
    with pytest.raises(RuntimeError, match="already"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="already"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="before step"):
        scaler.unscale_(optimizer)
    scaler.update(4.0)
    assert scaler.get_scale() == 4.0


def test_order_is_checked():
    p, optimizer, scaler = setup()
    with pytest.raises(AssertionError, match="scale"):
        scaler.step(optimizer)
    scaler.scale(p.sum())
    with pytest.raises(AssertionError, match="gradient"):
        scaler.step(optimizer)
    with pytest.raises(AssertionError, match="before"):
        scaler.update()
    with pytest.raises(RuntimeError, match="closure"):
        scaler.step(optimizer, closure=lambda: None)


def test_float16_gradients_are_refused():
    p = rl.ones(3, dtype=rl.float16, requires_grad=True)
    optimizer, scaler = optim.SGD([p]), amp.GradScaler("cpu")
    scaler.scale(rl.ones(()))
    p.grad = rl.ones(3, dtype=rl.float16)
    with pytest.raises(ValueError, match="float16"):
        scaler.unscale_(optimizer)


def test_containers():
    _, _, scaler = setup()
    a, b = rl.ones(1), rl.ones(2)
    scaled = scaler.scale([a, (b,)])
    assert scaled[0].tolist() == [8.0]
    assert scaled[1][0].tolist() == [8.0, 8.0]
    with pytest.raises(ValueError, match="tensor"):
        scaler.scale(3)


@pytest.mark.skipif(rl.cuda.is_available(), reason="there is a GPU")
def test_off():
    p, optimizer, scaler = setup(enabled=False)
    loss = p.sum()
    assert scaler.scale(loss) is loss
    loss.backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == [0.0] * 3
    assert scaler.get_scale() == 1.0
    assert scaler.state_dict() == {}
    with pytest.warns(UserWarning, match="CUDA"):
        assert not amp.GradScaler().is_enabled()


def test_saved_state():
    p, optimizer, scaler = setup()
    scaler.scale(p.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    saved = scaler.state_dict()
    assert saved == {
        "scale": 8.0,
        "growth_factor": 2.0,
        "backoff_factor": 0.5,
        "growth_interval": 2,
        "_growth_tracker": 1,
    }
    other = amp.GradScaler("cpu")
    other.load_state_dict(saved)
    assert other.state_dict() == saved
    assert pickle.loads(pickle.dumps(scaler)).state_dict() == saved
    with pytest.raises(RuntimeError, match="empty"):
        other.load_state_dict({})
    with pytest.raises(AssertionError, match="growth_factor"):
        amp.GradScaler("cpu", growth_factor=1.0)


def test_training_in_mixed_precision():
    w = (rl.randn(8, 1) * 0.1).requires_grad_()
    x, goal = rl.randn(64, 8), rl.randn(8, 1)
    y = x @ goal
    optimizer, scaler = optim.Adam([w], lr=0.05), amp.GradScaler("cpu", init_scale=1024.0)
    for _ in range(200):
        optimizer.zero_grad()
        with rl.autocast("cpu"):
            loss = ((x @ w) - y).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    assert (w - goal).abs().max() < 0.1
