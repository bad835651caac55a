"""rush::nn and rush::optim beside Python's: the same seed gives the same parameters, outputs,
gradients and steps, in every bit."""

import pickle
import random
import sys
import zipfile
from pathlib import Path

import pytest

import rushlight as rl
from rushlight import nn

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "jit"))
from cpp_build import built, installed, run  # noqa: E402

pytestmark = pytest.mark.slow

# What modules.cpp makes: name -> (module, sizes of its input).
MODULES = {
    "linear": (lambda: nn.Linear(7, 5), (3, 7)),
    "linear_no_bias": (lambda: nn.Linear(7, 5, bias=False), (3, 7)),
    "conv1d": (lambda: nn.Conv1d(3, 4, 3), (2, 3, 9)),
    "conv2d": (lambda: nn.Conv2d(4, 6, (3, 2), stride=2, padding=1, groups=2), (2, 4, 8, 8)),
    "conv2d_same": (lambda: nn.Conv2d(3, 4, 3, padding="same"), (2, 3, 6, 6)),
    "conv3d": (lambda: nn.Conv3d(2, 3, 2, bias=False), (1, 2, 4, 4, 4)),
    "conv_transpose2d": (
        lambda: nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1, output_padding=1),
        (2, 4, 5, 5),
    ),
    "batch_norm": (lambda: nn.BatchNorm2d(4), (3, 4, 5, 5)),
    "batch_norm_average": (lambda: nn.BatchNorm1d(4, momentum=None), (6, 4)),
    "instance_norm": (lambda: nn.InstanceNorm2d(4, affine=True), (3, 4, 5, 5)),
    "layer_norm": (lambda: nn.LayerNorm(6), (4, 6)),
    "group_norm": (lambda: nn.GroupNorm(2, 6), (3, 6, 4)),
    "embedding": (lambda: nn.Embedding(10, 4, padding_idx=2), None),
    "prelu": (lambda: nn.PReLU(), (3, 4)),
    "rnn": (lambda: nn.RNN(5, 6, nonlinearity="relu"), (4, 2, 5)),
    "gru": (lambda: nn.GRU(5, 6, num_layers=2, bidirectional=True), (4, 2, 5)),
    "lstm": (lambda: nn.LSTM(5, 6, num_layers=2, batch_first=True, proj_size=3), (2, 4, 5)),
    "lstm_single": (lambda: nn.LSTM(5, 6), (4, 5)),
    "attention": (lambda: nn.MultiheadAttention(8, 2), (5, 2, 8)),
    "attention_to_memory": (lambda: nn.MultiheadAttention(8, 2), (5, 2, 8)),
    "attention_of_three": (lambda: nn.MultiheadAttention(8, 2), (5, 2, 8)),
    "encoder_layer": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, activation="gelu"),
        (5, 2, 8),
    ),
    "sequential": (
        lambda: nn.Sequential(nn.Linear(7, 5), nn.ReLU(), nn.Dropout(0.5), nn.Linear(5, 2)),
        (3, 7),
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    site = installed(tmp_path_factory.mktemp("site"))
    return built(HERE / "programs", site, tmp_path_factory.mktemp("programs"))


@pytest.fixture(scope="module")
def recorded(folder):
    run(folder / "modules", folder / "results.pt")
    return rl.load(folder / "results.pt")


def seeded(sizes):
    rl.manual_seed(2)
    return rl.randn(*sizes)


def assert_bits(ours, theirs, name):
    assert ours.dtype == theirs.dtype, name
    assert rl.equal(ours, theirs), (name, ours, theirs)


@pytest.mark.parametrize("name", MODULES)
def test_a_module_has_the_bits_of_pythons(recorded, name):
    make, sizes = MODULES[name]
    rl.manual_seed(1)
    module = make()
    x = rl.tensor([[1, 2], [2, 9]]) if sizes is None else seeded(sizes)
    rl.manual_seed(3)
    memory = x * 2
    inputs = {
        "attention": (x, x, x),
        "attention_to_memory": (x, memory, memory),
        "attention_of_three": (x, memory, x),
    }
    y = module(*inputs.get(name, (x,)))
    y = y[0] if isinstance(y, tuple) else y
    (y * y).sum().backward()
    expected = {f"{name}.output": y.detach()}
    for key, p in module.named_parameters():
        expected[f"{name}.parameter.{key}"] = p.detach()
        expected[f"{name}.gradient.{key}"] = p.grad
    for key, b in module.named_buffers():
        expected[f"{name}.buffer.{key}"] = b
    assert expected.keys() == {k for k in recorded if k.split(".")[0] == name}
    for key, value in expected.items():
        assert_bits(recorded[key], value, key)


def test_functions_have_the_bits_of_pythons(recorded):
    F = nn.functional
    row = seeded((4, 6))
    x = seeded((2, 3, 8, 8))
    other = recorded["function.other"]
    target = rl.tensor([0, 5, 2, -100])
    expected = {
        "max_pool2d": F.max_pool2d(x, 3, 2, 1),
        "avg_pool2d": F.avg_pool2d(x, (2, 3), 1),
        "adaptive_avg_pool2d": F.adaptive_avg_pool2d(x, (3, 5)),
        "leaky_relu": F.leaky_relu(row, 0.3),
        "elu": F.elu(row, 0.7),
        "hardtanh": F.hardtanh(row, -0.5, 0.25),
        "softplus": F.softplus(row, 2),
        "gelu": F.gelu(row, approximate="tanh"),
        "softmax": row.softmax(0),
        "log_softmax": row.log_softmax(1),
        "silu": F.silu(row),
        "mse": F.mse_loss(row, other),
        "l1_sum": F.l1_loss(row, other, reduction="sum"),
        "smooth_l1": F.smooth_l1_loss(row, other, beta=0.5),
        "huber_none": F.huber_loss(row, other, reduction="none", delta=0.7),
        "bce_logits": F.binary_cross_entropy_with_logits(row, other, pos_weight=rl.full((6,), 2.0)),
        "kl": F.kl_div(row.log_softmax(1), other, reduction="sum"),
        "nll": F.nll_loss(row.log_softmax(1), target),
        "cross_entropy": F.cross_entropy(row, target, label_smoothing=0.1),
    }
    rl.manual_seed(3)
    expected["dropout"] = F.dropout(row, 0.4)
    rl.manual_seed(3)
    expected["dropout2d"] = F.dropout2d(x, 0.4)
    expected["bce"] = None  # its target was drawn in C++
    names = {k.removeprefix("function.") for k in recorded if k.startswith("function.")}
    assert names == {*expected, "other"}
    for name, value in expected.items():
        if value is not None:
            assert_bits(recorded["function." + name], value, name)


OPTIMIZERS = {
    "sgd": lambda p: rl.optim.SGD(p, 0.1),
    "nesterov": lambda p: rl.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda p: rl.optim.Adam(p, 0.05, betas=(0.8, 0.99), amsgrad=True),
    "adamw": lambda p: rl.optim.AdamW(p, 0.05),
    "rmsprop": lambda p: rl.optim.RMSprop(p, 0.01, momentum=0.5, centered=True),
    "adagrad": lambda p: rl.optim.Adagrad(p, 0.1, lr_decay=0.1, initial_accumulator_value=0.2),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_takes_pythons_steps(recorded, name):
    rl.manual_seed(1)
    net = nn.Linear(4, 3)
    x = seeded((6, 4))
    optimizer = OPTIMIZERS[name](net.parameters())
    scheduler = rl.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    for step in range(5):
        optimizer.zero_grad()
        loss = (net(x) * net(x)).mean()
        loss.backward()
        optimizer.step()
        scheduler.step()
        assert_bits(recorded[f"optimizer.{name}.{step}"], loss.detach(), step)
    assert_bits(recorded[f"optimizer.{name}.weight"], net.weight.detach(), "weight")


def test_tensors_behave_as_documented(folder):
    """The program checks itself, and names what is wrong."""
    assert run(folder / "tensors", folder).splitlines()[-1] == "all is well"


def test_python_reads_what_cpp_wrote_and_the_reverse(folder):
    """tensors.cpp has saved a net of C++; it loads one of Python's, and says what it computes."""
    rl.manual_seed(5)
    net = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    rl.save(net.state_dict(), folder / "python.pt")
    run(folder / "tensors", folder, "load")
    net.eval()
    with rl.no_grad():
        assert_bits(rl.load(folder / "computed.pt"), net(rl.ones(2, 4)), "loaded in C++")
    net.load_state_dict(rl.load(folder / "cpp.pt"))
    assert net[0].weight.sum().item() == 12.0
    assert [t.tolist() for t in rl.load(folder / "list.pt")] == [[1, 2], [[0.5]]]


def test_files_that_are_damaged_are_refused(folder, tmp_path):
    """Nothing of a file is run, and no file ends the program: one process reads all of them."""
    rng = random.Random(0)
    rl.save(nn.Linear(4, 3).state_dict(), tmp_path / "good.pt")
    good = (tmp_path / "good.pt").read_bytes()
    for i in range(300):
        bad = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            bad[rng.randrange(len(bad))] = rng.randrange(256)
        if i % 3 == 0:
            bad = bad[: rng.randrange(len(bad))]
        (tmp_path / f"{i}.bad").write_bytes(bad)

    class Shell:
        def __reduce__(self):
            return print, ("this was run",)

    with zipfile.ZipFile(tmp_path / "shell.bad", "w") as z:
        z.writestr("archive/data.pkl", pickle.dumps({"weight": Shell()}, protocol=2))
    nested = b"\x80\x02]q\x00h\x00a."  # a list that holds itself
    with zipfile.ZipFile(tmp_path / "nested.bad", "w") as z:
        z.writestr("archive/data.pkl", nested)
    out = run(folder / "tensors", tmp_path, "damaged")
    lines = dict(line.split(": ", 1) for line in out.splitlines())
    assert len(lines) == 302
    assert "calls '__builtin__ print'" in lines["shell.bad"]
    assert "nothing was run" in lines["shell.bad"] and "this was run" not in out
    assert "lists in lists" in lines["nested.bad"]
    refused = sum(text.startswith("refused") for text in lines.values())
    assert refused >= 250  # a changed byte may lie in a padding, or outside of what is read
