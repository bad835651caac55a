"""Counts of operations, activations and parameters (over traced graphs), layers, losses, schedules, checkpoints"""

import fvcore.nn as fnn
import torch
from fvcore.common import checkpoint, config, param_scheduler
from same import fill, normal, use
from torch import nn

PACKAGES = ["fvcore"]


def network():
    return fill(
        nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(32, 4),
        )
    ).eval()


@use
def counts(folder):
    net, x = network(), normal(2, 3, 8, 8)
    flops = fnn.FlopCountAnalysis(net, x)
    yield "operations", flops.total()
    yield "by operator", dict(sorted(flops.by_operator().items()))
    yield "by module", dict(flops.by_module())
    yield "unsupported", dict(flops.unsupported_ops())
    activations = fnn.ActivationCountAnalysis(net, x)
    yield "activations", [activations.total(), dict(activations.by_operator())]
    yield "parameters", dict(fnn.parameter_count(net))
    yield "table", fnn.parameter_count_table(net).splitlines()
    yield "flop table", fnn.flop_count_table(flops).splitlines()
    yield "text", fnn.flop_count_str(flops).splitlines()
    attention = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    yield (
        "transformer",
        fnn.FlopCountAnalysis(attention, normal(1, 5, 16)).unsupported_ops_warnings(False).total(),
    )


@use
def parts(folder):
    a, b = normal(3, 4), normal(3, 4, key=1)
    yield "focal", fnn.sigmoid_focal_loss(a, (b > 0).float(), alpha=0.25, reduction="mean")
    yield "smooth", fnn.smooth_l1_loss(a, b, 0.5, "sum")
    corners = a.abs().cumsum(1)
    yield "giou", fnn.giou_loss(corners, corners + 0.3)
    layer = nn.Conv2d(3, 4, 3)
    fnn.c2_msra_fill(layer)
    yield "filled", layer.bias
    yield "schedule", [param_scheduler.CosineParamScheduler(1.0, 0.1)(i / 4) for i in range(4)]
    net = network()
    keeper = checkpoint.Checkpointer(net, str(folder))
    keeper.save("first", step=3)
    with torch.no_grad():
        net[0].weight.zero_()
    yield "loaded", [keeper.load(str(folder / "first.pth"))["step"], net[0].weight]
    yield "norm", next(iter(fnn.precise_bn.get_bn_modules(net.train()))).num_features
    fnn.update_bn_stats(net, [normal(2, 3, 8, 8, key=i) for i in range(3)], 3)
    yield "statistics", net[1].running_mean
    made = config.CfgNode({"lr": 0.1})
    yield "config", made.dump()
