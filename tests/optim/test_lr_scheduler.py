"""What schedules warn about and refuse; their numbers are in test_optim_numerics.py."""

import math
import pickle
import warnings

import pytest

import rushlight as rl
from rushlight import optim
from rushlight.optim import lr_scheduler, swa_utils


def sgd(lr=0.1, **options):
    return optim.SGD([rl.zeros(2, requires_grad=True)], lr=lr, **options)


def test_order_of_calls_is_checked():
    optimizer = sgd()
    scheduler = lr_scheduler.StepLR(optimizer, 2)
    with pytest.warns(UserWarning, match=r"before optimizer\.step"):
        scheduler.step()
    optimizer = sgd()
    scheduler = lr_scheduler.StepLR(optimizer, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.step()
        scheduler.step()
    optimizer = sgd()
    scheduler = lr_scheduler.StepLR(optimizer, 2)
    optimizer.step = lambda: None
    with pytest.warns(UserWarning, match="replaced"):
        scheduler.step()


def test_get_lr_is_for_step_only():
    scheduler = lr_scheduler.ExponentialLR(sgd(), 0.5)
    with pytest.warns(UserWarning, match="get_last_lr"):
        scheduler.get_lr()


def test_epoch_is_deprecated():
    optimizer = sgd()
    scheduler = lr_scheduler.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    with pytest.warns(UserWarning, match="epoch"):
        scheduler.step(3)
    assert scheduler.get_last_lr() == [0.1 * 0.5**3]


@pytest.mark.parametrize(
    "make",
    [
        lambda o: lr_scheduler.ConstantLR(o, factor=1.5),
        lambda o: lr_scheduler.LinearLR(o, start_factor=0),
        lambda o: lr_scheduler.LinearLR(o, end_factor=1.5),
        lambda o: lr_scheduler.LambdaLR(o, [abs, abs]),
        lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 0),
        lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 2, 0),
        lambda o: lr_scheduler.CyclicLR(o, 0.1, 1.0, mode="square"),
        lambda o: lr_scheduler.CyclicLR(o, [0.1, 0.2], 1.0),
        lambda o: lr_scheduler.OneCycleLR(o, 1.0),
        lambda o: lr_scheduler.OneCycleLR(o, 1.0, total_steps=0),
        lambda o: lr_scheduler.OneCycleLR(o, 1.0, total_steps=9, pct_start=2.0),
        lambda o: lr_scheduler.OneCycleLR(o, 1.0, total_steps=9, anneal_strategy="cube"),
        lambda o: lr_scheduler.ReduceLROnPlateau(o, factor=1.0),
        lambda o: lr_scheduler.ReduceLROnPlateau(o, mode="mean"),
        lambda o: lr_scheduler.SequentialLR(o, [], []),
        lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.StepLR(o, 1)], [3]),
        lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.StepLR(sgd(), 1)], []),
        lambda o: lr_scheduler.ChainedScheduler([lr_scheduler.ReduceLROnPlateau(o)]),
        lambda o: swa_utils.SWALR(o, 0.1, anneal_epochs=-1),
        lambda o: swa_utils.SWALR(o, 0.1, anneal_strategy="cube"),
    ],
)
def test_bad_arguments(make):
    with pytest.raises(ValueError):
        make(sgd(momentum=0.9))


def test_wrong_kinds():
    with pytest.raises(TypeError, match="Optimizer"):
        lr_scheduler.StepLR("optimizer", 2)
    with pytest.raises(TypeError, match="function"):
        lr_scheduler.MultiplicativeLR(sgd(), 0.5)
    with pytest.raises(KeyError, match="initial_lr"):
        lr_scheduler.StepLR(sgd(), 2, last_epoch=3)
    adagrad = optim.Adagrad([rl.zeros(1, requires_grad=True)])
    with pytest.raises(ValueError, match="cycle_momentum"):
        lr_scheduler.CyclicLR(adagrad, 0.1, 1.0)


def test_one_cycle_ends():
    optimizer = sgd(momentum=0.9)
    scheduler = lr_scheduler.OneCycleLR(optimizer, 1.0, total_steps=3)
    for _ in range(3):
        optimizer.step()
        scheduler.step()
    with pytest.raises(ValueError, match="past the end"):
        scheduler.step()


def test_tensor_lr_keeps_its_identity():
    lr = rl.tensor(1.0)
    optimizer = sgd(lr=lr)
    scheduler = lr_scheduler.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] is lr
    assert lr.item() == 0.5
    assert scheduler.get_last_lr()[0] is not lr


def test_states_of_callable_objects_are_saved():
    class Rate:
        def __init__(self, factor):
            self.factor = factor

        def __call__(self, epoch):
            return self.factor

    first = lr_scheduler.LambdaLR(sgd(), Rate(0.25))
    second = lr_scheduler.LambdaLR(sgd(), Rate(0.5))
    saved = first.state_dict()
    second.load_state_dict(saved)
    assert second.lr_lambdas[0].factor == 0.25
    assert "lr_lambdas" in saved
    pickle.dumps(lr_scheduler.StepLR(sgd(), 3).state_dict())


def test_own_scheduler():
    class Wave(lr_scheduler.LRScheduler):
        def get_lr(self):
            return [base * math.cos(self.last_epoch) for base in self.base_lrs]

    optimizer = sgd()
    scheduler = Wave(optimizer)
    optimizer.step()
    scheduler.step()
    assert scheduler.get_last_lr() == [0.1 * math.cos(1)]


def test_averaging_functions():
    a, b = rl.tensor([1.0, 2.0]), rl.tensor([3.0, 6.0])
    assert swa_utils.get_ema_avg_fn(0.75)(a, b, 5).tolist() == [1.5, 3.0]
    assert swa_utils.get_swa_avg_fn()(a, b, rl.tensor(1)).tolist() == [2.0, 4.0]
    averages = [a.clone(), rl.tensor([4])]
    swa_utils.get_ema_multi_avg_fn(0.5)(averages, [b, rl.tensor([8])], 1)
    assert [t.tolist() for t in averages] == [[2.0, 4.0], [6]]
    with pytest.raises(ValueError, match="decay"):
        swa_utils.get_ema_avg_fn(1.5)


def test_averaged_model():
    from rushlight import nn

    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    averaged = swa_utils.AveragedModel(model)
    total = rl.zeros(3, 2)
    for k in range(4):
        with rl.no_grad():
            model[0].weight.fill_(float(k))
        total += model[0].weight.detach()
        averaged.update_parameters(model)
    assert rl.allclose(averaged.module[0].weight, total / 4)
    assert averaged.n_averaged.item() == 4
    assert "n_averaged" in averaged.state_dict()
    data = [rl.randn(16, 2) * 3 + 1 for _ in range(3)]
    swa_utils.update_bn([[x, None] for x in data], averaged)
    means = rl.stack([averaged.module[0](x).mean(0) for x in data]).mean(0)
    assert rl.allclose(averaged.module[1].running_mean, means, atol=1e-5)
    assert averaged.module[1].momentum == 0.1
    ema = swa_utils.AveragedModel(model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9))
    ema.update_parameters(model)
    ema.update_parameters(model)
    assert rl.allclose(ema.module[0].weight, model[0].weight)


def test_keys_of_states_are_in_pytorchs_order():
    """Programs print them."""
    optimizer = rl.optim.SGD([rl.zeros(1, requires_grad=True)], lr=0.1)
    schedules = rl.optim.lr_scheduler
    parts = [schedules.LinearLR(optimizer), schedules.LambdaLR(optimizer, lambda epoch: 1.0)]
    assert list(parts[1].state_dict())[-1] == "lr_lambdas"
    one_by_one = schedules.SequentialLR(optimizer, parts, [2])
    assert list(one_by_one.state_dict()) == ["_milestones", "last_epoch", "_last_lr", "_schedulers"]
    assert list(schedules.ChainedScheduler(parts).state_dict()) == ["_last_lr", "_schedulers"]
