"""Summaries of convolutions, recurrences, transformers, nested inputs and frozen parts, as text"""

import torch
import torchinfo
from same import use
from torch import nn

PACKAGES = ["torchinfo"]
COLUMNS = (
    "input_size",
    "output_size",
    "num_params",
    "params_percent",
    "kernel_size",
    "mult_adds",
    "trainable",
)


@use
def summaries(folder):
    conv = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 4)
    )
    conv[0].requires_grad_(False)
    for name, model, size, more in (
        ("convolution", conv, (2, 3, 8, 8), {}), ("recurrence", nn.LSTM(4, 8, 2, batch_first=True), (2, 5, 4), {}),
        ("transformer", nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), (2, 5, 16), {"depth": 4}),
        ("attention", nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2), (2, 5, 16), {}),
        ("embedding", nn.EmbeddingBag(9, 4), (2, 3), {"dtypes": [torch.long]}),
        ("transposed", nn.ConvTranspose1d(4, 2, 3), (2, 4, 7), {}),
    ):  # fmt: skip
        made = torchinfo.summary(
            model, size, col_names=COLUMNS, verbose=0, row_settings=("depth", "var_names"), **more
        )
        yield name, str(made).splitlines()
        yield (
            f"{name} counts",
            [
                made.total_params,
                made.trainable_params,
                made.total_mult_adds,
                made.total_output_bytes,
            ],
        )

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(3, 4)
            self.parts = nn.ModuleDict({"b": nn.Linear(3, 4), "c": nn.Identity()})
            self.free = nn.Parameter(torch.zeros(4))

        def forward(self, x, more):
            return self.a(x) + self.parts["c"](self.parts["b"](more["y"])) + self.free

    yield (
        "nested",
        str(
            torchinfo.summary(
                Two(), input_data=[torch.zeros(2, 3), {"y": torch.zeros(2, 3)}], verbose=0
            )
        ).splitlines(),
    )
    yield "sizes only", str(torchinfo.summary(Two(), verbose=0)).splitlines()
