"""TorchScript archives that PyTorch wrote (tests/oracle/make_torchscript.py)."""

import io
import random
import zipfile
from pathlib import Path

import pytest

import rushlight as rl

DATA = Path(__file__).resolve().parents[1] / "data"
NAMES = sorted(
    p.stem.removeprefix("torchscript_")
    for p in DATA.glob("torchscript_*.pt")
    if "unk" not in p.stem
)


def loaded(name):
    extra = {"calls.pt": b""}
    module = rl.jit.load(DATA / f"torchscript_{name}.pt", _extra_files=extra)
    return module, rl.load(io.BytesIO(extra["calls.pt"]))


def assert_close(found, expected):
    if isinstance(expected, rl.Tensor):
        rl.testing.assert_close(found, expected.detach(), rtol=1e-5, atol=1e-6)
    elif isinstance(expected, dict):
        assert set(found) == set(expected)
        for key in expected:
            assert_close(found[key], expected[key])
    elif isinstance(expected, tuple | list):
        assert len(found) == len(expected)
        for pair in zip(found, expected, strict=True):
            assert_close(*pair)
    else:
        assert found == expected


@pytest.mark.parametrize("name", NAMES)
def test_archives_compute_what_pytorch_computed(name, tmp_path):
    module, calls = loaded(name)
    assert calls and list(module.parameters())
    module.save(tmp_path / "again.rush")
    again = rl.jit.load(tmp_path / "again.rush")
    for method, inputs, outputs in calls:
        with rl.no_grad():
            assert_close(getattr(module, method)(*inputs), outputs)
            assert_close(getattr(again, method)(*inputs), outputs)


def test_a_loaded_archive_trains_and_has_its_modes():
    module, [(_, (images,), _)] = loaded("conv_norm")
    assert not module.training and module.bn.running_mean.shape == (4,)
    module.train()
    before = module.bn.running_mean.clone()
    loss = module(images).sum()
    loss.backward()
    assert all(p.grad is not None for p in module.parameters())
    assert not rl.equal(module.bn.running_mean, before)
    assert module.bn.num_batches_tracked.item() == 1
    control, _ = loaded("control")
    assert control.k == 2 and control.steps.item() > 0
    control.k = 100
    assert control(rl.ones(1, 3), 1)[1] == 110


def test_an_unknown_operator_is_named_and_the_weights_are_there():
    module = rl.jit.load(DATA / "torchscript_unknown.pt")
    assert set(module.state_dict()) == {"lin.weight", "lin.bias"}
    with pytest.raises(NotImplementedError, match=r"torch\.fbgemm_pack_gemm_matrix_fp16 is not"):
        module(rl.ones(1, 2))


def changed(name, entry, change):
    """The archive with one of its files changed."""
    out = io.BytesIO()
    with zipfile.ZipFile(DATA / f"torchscript_{name}.pt") as old, zipfile.ZipFile(out, "w") as new:
        for info in old.infolist():
            data = old.read(info)
            if info.filename.endswith(entry):
                data = change(data)
            new.writestr(info.filename, data)
    out.seek(0)
    return out


ATTACKS = [
    "__import__('os').system('touch PLACE')",
    "x.__class__.__mro__[1].__subclasses__()",
    "open('PLACE', 'w')",
    "exec('raise SystemExit')",
    "torch.load('PLACE')",
    "torch.save(x, 'PLACE')",
    "().__class__",
    "[y for y in ().__class__.__bases__]",
    "(lambda: 1)()",
    "f'{x}'",
    "'{0.__class__}'.format(x)",
    "getattr(self, '__class__')",
    "getattr(getattr(x, 'add'), '__globals__')",
    "torch.__class__",
    "torch.__getattr__.__globals__",
    "ops.prim.__class__",
    "ops.__class__",
    "CONSTANTS.__class__.__init__.__globals__",
    "__torch__.__class__",
    "__torch__.Control.__init__",
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_code_of_archives_is_never_run(attack, tmp_path):
    place = tmp_path / "made"
    line = f"    y = {attack.replace('PLACE', str(place))}\n"
    first = b"    x0 = x\n"
    file = changed("control", "__torch__.py", lambda b: b.replace(first, line.encode() + first, 1))
    module = rl.jit.load(file)
    assert len(module.state_dict()) == 7
    try:
        module(rl.ones(1, 3))
    except (NotImplementedError, RuntimeError):
        pass
    else:
        assert "format" in attack  # text of numbers and tensors is a program's right
    assert not place.exists()


def test_annotations_are_read_not_evaluated(tmp_path):
    place = tmp_path / "made"
    line = f"    y : __import__('os').system('touch {place}') = x\n    x0 = x\n"
    file = changed("control", "__torch__.py",
                   lambda b: b.replace(b"    x0 = x\n", line.encode(), 1))  # fmt: skip
    with pytest.raises(NotImplementedError):
        rl.jit.load(file)(rl.ones(1, 3))
    assert not place.exists()


@pytest.mark.parametrize("name", ["control", "lstm"])
def test_damaged_archives_raise_or_load(name):
    data = (DATA / f"torchscript_{name}.pt").read_bytes()
    draw = random.Random(name)
    entries = (".pkl", "__torch__.py", "rnn.py")
    for round_ in range(60):
        if round_ % 2:  # the file itself, whose checksums tell
            broken = bytearray(data)
            for _ in range(draw.choice((1, 4, 40))):
                broken[draw.randrange(len(broken))] = draw.randrange(256)
            file = io.BytesIO(
                bytes(broken[: draw.choice((len(broken), draw.randrange(len(broken))))])
            )
        else:  # what is inside, with the right checksums

            def change(content):
                content = bytearray(content)
                for _ in range(draw.choice((1, 3))):
                    content[draw.randrange(len(content))] = draw.randrange(256)
                return bytes(content)

            file = changed(name, draw.choice(entries), change)
        try:
            rl.jit.load(file).state_dict()
        except (RuntimeError, NotImplementedError):
            pass
