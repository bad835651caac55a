"""Layers, losses and functions with their own idea of their arguments, called with others.

    python -m campaign.modules SEED FIRST LAST LABEL GUARD

They are made as programs make them; their inputs have other shapes, dtypes, devices and layouts,
and indices that point nowhere. Errors are fine, and so are answers; gradients are asked for.
"""

import os
import random
import signal
import sys
import zlib

from ops.sample import leaves

import rushlight as rl
import rushlight.nn.functional as F
from campaign.child import SECONDS, numbers, prepare, say
from campaign.drawn import DEVICE, Source, built
from campaign.ways import Finding
from rushlight import nn

SHAPES = ((), (0,), (4,), (2, 4), (4, 2), (2, 3, 4), (1, 4, 4, 4), (0, 4), (4, 4), (1, 1, 4, 4, 4),
          (3,), (2, 0, 4), (3, 3), (6, 4), (4, 1))  # fmt: skip
RIGHT = ((2, 4), (2, 4), (2, 3, 4), (1, 4, 4, 4), (4,), (2,))
DTYPES = ("float32", "float64", "int64", "int32", "float16", "bfloat16", "complex64", "bool",
          "uint8", "int8", "float8_e4m3fn")  # fmt: skip
VALUES = (0, 0, 1, 1, 2, 3, 4, 5, -1, 7, 100, 2**31, -(2**40))


def packed(a, b, c, d):
    return nn.GRU(4, 3)(nn.utils.rnn.PackedSequence(a, b, c))


def padded(a, b, c, d):
    lengths = b.flatten()[:2]
    return nn.LSTM(4, 3)(nn.utils.rnn.pack_padded_sequence(a, lengths, enforce_sorted=False))


# What is called: modules are made anew for each call.
MODULES = (
    lambda: nn.LSTM(4, 3, 2, bidirectional=True),
    lambda: nn.GRU(4, 3, batch_first=True, dropout=0.1),
    lambda: nn.RNN(4, 3),
    lambda: nn.LSTMCell(4, 3),
    lambda: nn.Conv1d(4, 4, 3, groups=2),
    lambda: nn.Conv2d(4, 2, 3, padding="same"),
    lambda: nn.Conv3d(1, 2, 2),
    lambda: nn.ConvTranspose2d(4, 2, 3, stride=2, output_padding=1),
    lambda: nn.Linear(4, 3),
    lambda: nn.Bilinear(4, 4, 2),
    lambda: nn.Embedding(5, 3, padding_idx=0, max_norm=1.0),
    lambda: nn.EmbeddingBag(5, 3, mode="max"),
    lambda: nn.EmbeddingBag(5, 3, mode="sum"),
    lambda: nn.BatchNorm2d(4),
    lambda: nn.BatchNorm1d(4),
    lambda: nn.GroupNorm(2, 4),
    lambda: nn.LayerNorm((4,)),
    lambda: nn.InstanceNorm2d(4, track_running_stats=True),
    lambda: nn.RMSNorm(4),
    lambda: nn.LocalResponseNorm(2),
    lambda: nn.MultiheadAttention(4, 2),
    lambda: nn.TransformerEncoderLayer(4, 2, 8),
    lambda: nn.Transformer(4, 2, 1, 1, 8),
    lambda: nn.MaxPool2d(2, return_indices=True),
    lambda: nn.MaxUnpool2d(2),
    lambda: nn.AvgPool3d(2),
    lambda: nn.AdaptiveAvgPool2d((2, 3)),
    lambda: nn.AdaptiveMaxPool1d(2),
    lambda: nn.FractionalMaxPool2d(2, output_size=2),
    lambda: nn.LPPool2d(2, 2),
    lambda: nn.CrossEntropyLoss(),
    lambda: nn.NLLLoss(),
    lambda: nn.CTCLoss(),
    lambda: nn.KLDivLoss(),
    lambda: nn.BCELoss(),
    lambda: nn.MultiMarginLoss(),
    lambda: nn.MultiLabelMarginLoss(),
    lambda: nn.TripletMarginLoss(),
    lambda: nn.CosineEmbeddingLoss(),
    lambda: nn.GaussianNLLLoss(),
    lambda: nn.HuberLoss(),
    lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 6, [2, 4]),
    lambda: nn.Fold((4, 4), 2),
    lambda: nn.Unfold(2),
    lambda: nn.PixelShuffle(2),
    lambda: nn.Upsample(scale_factor=2, mode="bilinear"),
    lambda: nn.ReflectionPad2d(2),
    lambda: nn.CircularPad1d(3),
    lambda: nn.PReLU(4),
    lambda: nn.GLU(),
    lambda: rl.ao.nn.quantized.dynamic.Linear(4, 3),
)
FUNCTIONS = (
    packed,
    padded,
    lambda a, b, c, d: F.grid_sample(a, b),
    lambda a, b, c, d: F.affine_grid(a, (1, 1, 3, 3)),
    lambda a, b, c, d: F.scaled_dot_product_attention(a, b, c, d),
    lambda a, b, c, d: F.embedding(a, b, sparse=True),
    lambda a, b, c, d: F.embedding_bag(a, b, c),
    lambda a, b, c, d: F.max_unpool2d(a, b, 2),
    lambda a, b, c, d: F.ctc_loss(a, b, c, d),
    lambda a, b, c, d: rl.stft(a, 4, 2, 4, b if b.ndim == 1 else None, return_complex=True),
    lambda a, b, c, d: rl.istft(a, 4, 2),
    lambda a, b, c, d: rl.sparse_csr_tensor(a, b, c, (3, 3)).to_dense(),
    lambda a, b, c, d: rl.sparse_csr_tensor(a, b, c, (3, 3)) @ rl.ones(3, 2),
    lambda a, b, c, d: rl.sparse_coo_tensor(a, b, (3, 3)).coalesce().to_dense(),
    lambda a, b, c, d: rl.sparse.sum(rl.sparse_coo_tensor(a, b), 0),
    lambda a, b, c, d: rl.sparse_bsr_tensor(a, b, c, (4, 4)).to_dense(),
    lambda a, b, c, d: rl.segment_reduce(a, "sum", lengths=b),
    lambda a, b, c, d: rl.bincount(a, b),
    lambda a, b, c, d: rl.linalg.lu_solve(a, b, c),
    lambda a, b, c, d: rl.linalg.ldl_solve(a, b, c),
    lambda a, b, c, d: rl.lu_unpack(a, b),
    lambda a, b, c, d: rl.ormqr(a, b, c),
    lambda a, b, c, d: rl.linalg.householder_product(a, b),
    lambda a, b, c, d: rl.quantize_per_channel(a, b, c, 0, rl.qint8),
    lambda a, b, c, d: rl.fake_quantize_per_channel_affine(a, b, c, 0, 0, 255),
    lambda a, b, c, d: rl.searchsorted(a, b, sorter=c),
    lambda a, b, c, d: rl.nested.nested_tensor_from_jagged(a, b).to_padded_tensor(0.0),
    lambda a, b, c, d: rl.index_reduce(a, 0, b, c, "prod"),
    lambda a, b, c, d: rl.baddbmm(a, b, c),
)


def planned(seed, n):
    """The number of what is called, and four tensors."""
    rng = random.Random(zlib.crc32(f"modules {seed}/{n}".encode()))
    source = Source(rng)

    wrong = rng.choice((None, 0, 1, 2, 3, "all"))  # which of them has another form

    def tensor(i):
        if wrong in (i, "all"):
            dtype, shape, values = rng.choice(DTYPES), rng.choice(SHAPES), VALUES
        else:
            dtype = "float32" if i == 0 else rng.choice(("float32", "int64"))
            shape, values = rng.choice(RIGHT), range(4)
        return source.tensor(None, dtype, source.numbers.choice(values, shape).astype("int64"))

    which = rng.randrange(len(MODULES) + len(FUNCTIONS))
    return which, rng.choice((1, 1, 1, 2, 2, 3, 4)), [tensor(i) for i in range(4)]


def one(which, count, tensors):
    """Calls it where the tensors are, layers and constants too."""
    with rl.device("cpu" if DEVICE == "cpu" else "cuda"):
        called(which, count, built(tensors, False, {}))
    if DEVICE == "cuda":
        rl.cuda.synchronize()


def called(which, count, given):
    if which < len(MODULES):
        found = MODULES[which]()(*given[:count])
    else:
        found = FUNCTIONS[which - len(MODULES)](*given)
    for t in leaves(found):
        if isinstance(t, rl.Tensor) and t.requires_grad:
            t.sum().abs().backward()


def main(seed, first, last, label, guard_path):
    from campaign.judging import judge_error, still_works

    prepare(guard_path)
    label, counts = os.open(label, os.O_WRONLY), {}
    for n in numbers(first, last):
        plan = planned(seed, n)
        text = f"{n} {plan}".encode(errors="replace")[:4000]
        os.pwrite(label, text.ljust(4001) + b"\n", 0)
        signal.alarm(SECONDS)
        try:
            one(*plan)
            ended = "gave"
        except Exception as error:
            ended = "raised"
            try:
                if DEVICE == "cuda":
                    still_works(error)
                judge_error(error)
            except Finding as finding:
                ended = finding.kind
                say(finding=[n, finding.kind, str(finding), str(plan)])
        counts[ended] = counts.get(ended, 0) + 1
    signal.alarm(0)
    os.pwrite(label, b"-1 after the last call".ljust(4001) + b"\n", 0)
    say(counts=counts)


if __name__ == "__main__":
    main(*sys.argv[1:])
