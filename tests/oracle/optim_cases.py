"""Programs for optimisers and schedules that run alike with PyTorch and with Rushlight.

Every function takes the library as its first argument. make_optim_oracle.py runs them with PyTorch
and records what they return; tests/optim compares.
"""

import math

STEPS = 100

# name -> (class, options)
OPTIMIZERS = {
    "sgd": ("SGD", {"lr": 0.05}),
    "sgd_decay": ("SGD", {"lr": 0.05, "weight_decay": 0.1}),
    "sgd_momentum": ("SGD", {"lr": 0.02, "momentum": 0.9}),
    "sgd_dampened": ("SGD", {"lr": 0.02, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.01}),
    "sgd_nesterov": ("SGD", {"lr": 0.02, "momentum": 0.9, "nesterov": True}),
    "sgd_maximize": ("SGD", {"lr": 0.02, "momentum": 0.5, "maximize": True, "weight_decay": 0.1}),
    "adam": ("Adam", {"lr": 0.01}),
    "adam_low_beta1": ("Adam", {"lr": 0.01, "betas": (0.3, 0.9)}),
    "adam_decay": ("Adam", {"lr": 0.01, "weight_decay": 0.1, "eps": 1e-3}),
    "adam_amsgrad": ("Adam", {"lr": 0.01, "amsgrad": True}),
    "adam_maximize": ("Adam", {"lr": 0.01, "maximize": True, "amsgrad": True}),
    "adam_decoupled": (
        "Adam",
        {"lr": 0.01, "weight_decay": 0.1, "decoupled_weight_decay": True},
    ),
    "adamw": ("AdamW", {"lr": 0.01, "weight_decay": 0.1}),
    "adamw_amsgrad": ("AdamW", {"lr": 0.01, "amsgrad": True, "maximize": True}),
    "nadam": ("NAdam", {"lr": 0.01}),
    "nadam_decay": ("NAdam", {"lr": 0.01, "weight_decay": 0.1, "momentum_decay": 0.02}),
    "nadam_decoupled": (
        "NAdam",
        {"lr": 0.01, "weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True},
    ),
    "radam": ("RAdam", {"lr": 0.01}),
    "radam_decay": ("RAdam", {"lr": 0.01, "weight_decay": 0.1, "betas": (0.8, 0.95)}),
    "radam_decoupled": (
        "RAdam",
        {"lr": 0.01, "weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True},
    ),
    "adamax": ("Adamax", {"lr": 0.01}),
    "adamax_decay": ("Adamax", {"lr": 0.01, "weight_decay": 0.1, "maximize": True}),
    "adagrad": ("Adagrad", {"lr": 0.05}),
    "adagrad_decay": (
        "Adagrad",
        {"lr": 0.05, "lr_decay": 0.01, "weight_decay": 0.1, "initial_accumulator_value": 0.2},
    ),
    "adagrad_maximize": ("Adagrad", {"lr": 0.05, "maximize": True}),
    "adadelta": ("Adadelta", {"lr": 0.5}),
    "adadelta_decay": ("Adadelta", {"rho": 0.8, "weight_decay": 0.1, "maximize": True}),
    "rmsprop": ("RMSprop", {"lr": 0.01}),
    "rmsprop_momentum": ("RMSprop", {"lr": 0.01, "momentum": 0.9, "weight_decay": 0.1}),
    "rmsprop_centered": ("RMSprop", {"lr": 0.01, "centered": True, "alpha": 0.9}),
    "rmsprop_all": (
        "RMSprop",
        {"lr": 0.01, "centered": True, "momentum": 0.5, "maximize": True},
    ),
    "rprop": ("Rprop", {"lr": 0.01}),
    "rprop_bounds": (
        "Rprop",
        {"lr": 0.01, "etas": (0.4, 1.5), "step_sizes": (1e-3, 0.1), "maximize": True},
    ),
    "asgd": ("ASGD", {"lr": 0.02}),
    "asgd_averaging": ("ASGD", {"lr": 0.02, "t0": 20, "lambd": 0.01, "weight_decay": 0.1}),
    "adafactor": ("Adafactor", {"lr": 0.02}),
    "adafactor_decay": ("Adafactor", {"lr": 0.02, "weight_decay": 0.1, "maximize": True}),
}
NO_COMPLEX = ("Adafactor",)


def number(step, i):
    """The i-th number of a step's gradient: the same everywhere."""
    return math.sin(0.7 * step + 1.3 * i) * (1 + 0.1 * i) + 0.3 * math.cos(0.05 * step)


def values(torch, count, step, dtype):
    if dtype.is_complex:
        pairs = [complex(number(step, i), number(step, i + 100)) for i in range(count)]
        return torch.tensor(pairs, dtype=dtype)
    return torch.tensor([number(step, i) for i in range(count)], dtype=torch.float64).to(dtype)


def as_list(tensor):
    if tensor.is_complex():
        tensor = tensor.resolve_conj()
        return [[z.real, z.imag] for z in tensor.reshape(-1).tolist()]
    return tensor.detach().reshape(-1).double().tolist()


def optimize(torch, name, dtype):
    """Parameters after 100 steps, and the states of the optimiser, in its state dict's order."""
    cls, options = OPTIMIZERS[name]
    dtype = getattr(torch, dtype)
    params = [values(torch, 6, 1000, dtype).reshape(2, 3), values(torch, 4, 2000, dtype)]
    params = [p.requires_grad_() for p in params]
    optimizer = getattr(torch.optim, cls)(params, **options)
    for step in range(STEPS):
        params[0].grad = values(torch, 6, step, dtype).reshape(2, 3)
        # The second parameter rests now and then: its step count must lag behind.
        params[1].grad = None if step % 7 == 3 else values(torch, 4, step + 500, dtype)
        optimizer.step()
    state = optimizer.state_dict()["state"]
    return {
        "params": [as_list(p) for p in params],
        "state": [
            [[key, str(v.dtype).split(".")[-1], list(v.shape), as_list(v)] for key, v in s.items()]
            for s in state.values()
        ],
    }


def lbfgs(torch, line_search, dtype):
    """The way down Rosenbrock's valley: where each step ends, and how often it looked."""
    x = torch.tensor([-1.2, 1.0, 0.7, -0.5], dtype=getattr(torch, dtype), requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [x],
        lr=0.1 if line_search is None else 1,
        max_iter=5,
        history_size=4,
        line_search_fn=line_search,
    )

    def closure():
        optimizer.zero_grad()
        loss = ((1 - x[:-1]) ** 2 + 10 * (x[1:] - x[:-1] ** 2) ** 2).sum()
        loss.backward()
        return loss

    way = []
    for _ in range(8):
        loss = optimizer.step(closure)
        state = optimizer.state[x]
        way.append([float(loss), as_list(x), state["n_iter"], state["func_evals"]])
    return way


# name -> a function of (library, optimizer) that makes the schedule
def _sequential(torch, opt):
    s = torch.optim.lr_scheduler
    parts = [s.ConstantLR(opt, 0.1, 4), s.ExponentialLR(opt, 0.9), s.CosineAnnealingLR(opt, 10)]
    return s.SequentialLR(opt, parts, [5, 12])


def _chained(torch, opt):
    s = torch.optim.lr_scheduler
    return s.ChainedScheduler([s.LinearLR(opt, 0.25, total_iters=8), s.ExponentialLR(opt, 0.95)])


SCHEDULES = {
    "lambda": lambda t, o: t.optim.lr_scheduler.LambdaLR(o, [lambda e: 0.9**e, lambda e: e / 5]),
    "multiplicative": lambda t, o: t.optim.lr_scheduler.MultiplicativeLR(o, lambda e: 1 - e / 99),
    "step": lambda t, o: t.optim.lr_scheduler.StepLR(o, 4, 0.5),
    "multistep": lambda t, o: t.optim.lr_scheduler.MultiStepLR(o, [3, 3, 11], 0.5),
    "constant": lambda t, o: t.optim.lr_scheduler.ConstantLR(o, 0.25, 6),
    "linear": lambda t, o: t.optim.lr_scheduler.LinearLR(o, 0.2, 0.9, 9),
    "exponential": lambda t, o: t.optim.lr_scheduler.ExponentialLR(o, 0.93),
    "polynomial": lambda t, o: t.optim.lr_scheduler.PolynomialLR(o, 12, 2.0),
    "cosine": lambda t, o: t.optim.lr_scheduler.CosineAnnealingLR(o, 7, 0.001),
    "restarts": lambda t, o: t.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 3, 2, 0.001),
    "cyclic": lambda t, o: t.optim.lr_scheduler.CyclicLR(o, 0.01, 0.1, 4, 6),
    "cyclic2": lambda t, o: t.optim.lr_scheduler.CyclicLR(
        o, 0.01, [0.1, 0.2], 4, mode="triangular2"
    ),
    "cyclic_exp": lambda t, o: t.optim.lr_scheduler.CyclicLR(
        o, 0.01, 0.1, 3, mode="exp_range", gamma=0.97, cycle_momentum=False
    ),
    "cyclic_own": lambda t, o: t.optim.lr_scheduler.CyclicLR(
        o, 0.01, 0.1, 3, mode="none", scale_fn=lambda x: 1 / x, scale_mode="cycle"
    ),
    "onecycle": lambda t, o: t.optim.lr_scheduler.OneCycleLR(o, 0.5, total_steps=31),
    "onecycle3": lambda t, o: t.optim.lr_scheduler.OneCycleLR(
        o, [0.5, 0.3], epochs=8, steps_per_epoch=4, three_phase=True, anneal_strategy="linear"
    ),
    "sequential": _sequential,
    "chained": _chained,
    "swa": lambda t, o: t.optim.swa_utils.SWALR(o, 0.005, 8),
    "swa_linear": lambda t, o: t.optim.swa_utils.SWALR(o, [0.5, 0.2], 5, "linear"),
}
EPOCHS = 30


def two_groups(torch, cls="SGD"):
    a, b = torch.zeros(2, requires_grad=True), torch.zeros(3, requires_grad=True)
    options = {"momentum": 0.5} if cls == "SGD" else {}
    return getattr(torch.optim, cls)([{"params": [a]}, {"params": [b], "lr": 0.3}], 0.05, **options)


def schedule(torch, name, cls="SGD"):
    """Rates and momentums of both groups, epoch by epoch."""
    optimizer = two_groups(torch, cls)
    scheduler = SCHEDULES[name](torch, optimizer)
    rows = []
    for _ in range(EPOCHS):
        momentum = "momentum" if cls == "SGD" else "betas"
        pick = (lambda m: m) if cls == "SGD" else (lambda m: m[0])
        rows.append(
            [
                [float(g["lr"]) for g in optimizer.param_groups],
                [float(pick(g[momentum])) for g in optimizer.param_groups],
                [float(lr) for lr in scheduler.get_last_lr()],
            ]
        )
        optimizer.step()
        scheduler.step()
    return rows


CLOSED_FORMS = ("step", "multistep", "constant", "linear", "exponential", "polynomial", "cosine")


def closed_form(torch, name):
    optimizer = two_groups(torch)
    scheduler = SCHEDULES[name](torch, optimizer)
    rows = []
    for epoch in (3, 11, 6, 14, 0):
        scheduler.step(epoch)
        rows.append([float(lr) for lr in scheduler.get_last_lr()])
    return rows


MEASURES = [1.0, 0.9, 0.91, 0.92, 0.905, 0.9, 0.95, 0.93, 0.5, 0.6, 0.55, 0.52, 0.51, 0.6, 0.7, 0.8]
PLATEAUS = {
    "plain": {"patience": 2},
    "max": {"patience": 1, "mode": "max", "factor": 0.5},
    "abs": {"patience": 2, "threshold": 0.05, "threshold_mode": "abs", "cooldown": 2},
    "max_abs": {"patience": 0, "mode": "max", "threshold_mode": "abs", "min_lr": [0.01, 0.001]},
}


def plateau(torch, name):
    optimizer = two_groups(torch)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **PLATEAUS[name])
    rows = []
    for measure in MEASURES:
        scheduler.step(measure)
        rows.append([*scheduler.get_last_lr(), scheduler.num_bad_epochs, scheduler.best])
    return rows
