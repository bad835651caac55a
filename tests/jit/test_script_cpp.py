"""The scripts of the language, saved and run by one C++ process without Python; and a scripted
model
with a data-dependent loop that is trained there: all bits are Python's."""

import subprocess
import sys
from pathlib import Path

import pytest

import rushlight as rl
from rushlight import nn

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from cpp_build import built, installed, run  # noqa: E402
from language.modules import CellLoop  # noqa: E402
from language.running import all_cases, dump, inputs_program, modules, outcome  # noqa: E402

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    site = installed(tmp_path_factory.mktemp("site"))
    return built(HERE / "cpp", site, tmp_path_factory.mktemp("built"))


class Windows(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        b, t = x.shape[:2]
        half = t // 2
        y = self.fc(x[:, :half] + x[:, t - half :])
        return y.reshape(b, half * 3) / t, half


def others():
    """Exported programs, a TorchScript archive and a trace that calls a script: (name, what saves
    it, a function with its parameters, inputs)."""
    window = Windows()
    batch, length = rl.export.Dim("batch"), rl.export.Dim("length", min=2)
    ep = rl.export.export(window, (rl.randn(2, 6, 4),), dynamic_shapes=({0: batch, 1: length},))
    xs = [(rl.randn(b, t, 4),) for b, t in ((1, 2), (3, 7), (4, 10))]
    yield "exported", lambda path: rl.export.save(ep, path), Windows.forward, xs
    archive = rl.jit.load(HERE.parents[0] / "data" / "torchscript_lstm.pt")

    def tokens(x):
        return x

    numbers = [(rl.tensor([[1, 2, 3]]),), (rl.tensor([[4, 0], [7, 10]]),)]
    yield "archive", archive.save, tokens, numbers
    scripted = rl.jit.script(CellLoop())

    class Calling(nn.Module):
        def __init__(self):
            super().__init__()
            self.loop = scripted

        def forward(self, x):
            return self.loop(x * 2)[0] + 1

    sequences = [(rl.randn(n, 2, 3),) for n in (5, 1, 8)]
    traced = rl.jit.trace(Calling(), sequences[0][0], check_trace=False)
    yield "calling", traced.save, tokens, sequences


def test_every_script_in_one_process(folder, tmp_path):
    asked, expected = [], []
    for fn, inputs in all_cases():
        good = [given for given in inputs if outcome(fn, given)[1] is None]
        asked.append(f"{fn.__name__} {len(good)}")
        expected += [outcome(fn, given)[0] for given in good]
        rl.jit.script(fn).save(tmp_path / f"{fn.__name__}.rush")
        inputs_program(good, fn).save(tmp_path / f"{fn.__name__}.inputs.rush")
    for cls, inputs in modules():
        asked.append(f"{cls.__name__} {len(inputs)}")
        rl.manual_seed(0)
        model = cls()
        scripted = rl.jit.script(model)
        scripted.save(tmp_path / f"{cls.__name__}.rush")
        inputs_program(inputs, cls.forward).save(tmp_path / f"{cls.__name__}.inputs.rush")
        loaded = rl.jit.load(tmp_path / f"{cls.__name__}.rush")
        for given in inputs:
            rl.manual_seed(7)
            expected.append(dump(loaded(*given)))
    for name, make, method, inputs in others():
        asked.append(f"{name} {len(inputs)}")
        make(tmp_path / f"{name}.rush")
        inputs_program(inputs, method).save(tmp_path / f"{name}.inputs.rush")
        loaded = rl.jit.load(tmp_path / f"{name}.rush")
        for given in inputs:
            rl.manual_seed(7)
            expected.append(dump(loaded(*given)))
    assert len(asked) >= 200
    done = subprocess.run(
        [folder / "language", tmp_path],
        input="\n".join(asked),
        capture_output=True,
        text=True,
        check=True,
    )
    found = done.stdout.splitlines()
    assert found == expected


class Trained(CellLoop):
    @rl.jit.export
    def loss(self, x):
        y, steps = self.forward(x)
        return (y * y).mean() * steps


def test_a_data_dependent_loop_is_trained_in_cpp(folder, tmp_path):
    rl.manual_seed(3)
    model, x = Trained(), rl.randn(5, 2, 3)
    scripted = rl.jit.script(model)
    scripted.save(tmp_path / "model.rush")
    inputs = rl.jit.script(_tensors(x))
    inputs.save(tmp_path / "inputs.rush")
    printed = run(
        folder / "step", tmp_path / "model.rush", tmp_path / "inputs.rush", tmp_path / "after.rush"
    )
    optimizer = rl.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    rl.manual_seed(8)
    loss = model.loss(x)
    loss.backward()
    optimizer.step()
    assert float.fromhex(printed.split()[1]) == loss.item()
    after = rl.jit.load(tmp_path / "after.rush")
    for key, value in model.state_dict().items():
        assert dump(after.state_dict()[key]) == dump(value)


def _tensors(x):
    class Given(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("x", x)

        def forward(self):
            return [self.x]

    return Given()
