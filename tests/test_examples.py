"""The examples run, each for a few steps, and learn something in them."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight as torch

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def load(name):
    """The example as a module, without its folder on the path."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def mean(values):
    return sum(values) / len(values)


def assert_falls(losses, to=0.9):
    """The last quarter of the losses is at most `to` times the first quarter."""
    part = max(1, len(losses) // 4)
    assert mean(losses[-part:]) <= to * mean(losses[:part]), losses


def is_png(path):
    return path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n") and path.stat().st_size > 1000


def test_every_example_is_tested():
    tests = Path(__file__).resolve().parent.rglob("test_*.py")
    text = "".join(path.read_text() for path in tests)
    for path in EXAMPLES.glob("*.py"):
        assert f'"{path.stem}"' in text or f'"{path.name}"' in text, path.name


def test_every_example_is_listed():
    text = (EXAMPLES / "README.md").read_text()
    assert [p.name for p in EXAMPLES.glob("*.py") if f"[{p.name}]" not in text] == []


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """What `make demo` does, in a process of its own, without a display."""
    out = tmp_path_factory.mktemp("demo")
    env = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "MPLBACKEND")}
    command = [sys.executable, str(EXAMPLES / "digits.py"), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=out)
    assert done.returncode == 0, done.stderr
    return out, done.stdout, done.stderr


def test_demo_reaches_98_percent(demo):
    _, stdout, stderr = demo
    (line,) = [line for line in stdout.splitlines() if line.startswith("accuracy")]
    assert float(line.split()[1].rstrip("%")) >= 98
    assert "100%" in stderr  # the progress bar came to its end
    assert "Conv2d" in stdout and "multiply-adds" in stdout  # the summary


def test_demo_leaves_a_picture_and_a_checkpoint(demo):
    out, stdout, _ = demo
    assert is_png(out / "digits.png")
    assert "outputs identical" in stdout
    digits = load("digits")
    checkpoint = torch.load(out / "digits.pt")
    model = digits.Net()
    model.load_state_dict(checkpoint["model"])
    _, accuracy, _ = digits.evaluate(model, *digits.load_data(1)[1])
    assert accuracy == checkpoint["accuracy"] >= 0.98


def test_demo_notices_a_checkpoint_that_differs(tmp_path, monkeypatch):
    digits = load("digits")
    model = digits.Net()
    broken = torch.load

    def load_broken(path):
        checkpoint = broken(path)
        checkpoint["model"]["head.2.bias"] += 1
        return checkpoint

    monkeypatch.setattr(digits.torch, "load", load_broken)
    with pytest.raises(SystemExit, match="differs"):
        digits.save_and_check(tmp_path / "x.pt", model, 0.5, torch.rand(4, 1, 8, 8))


def test_dcgan(tmp_path):
    losses = load("dcgan").main(["--steps", "12", "--out", str(tmp_path)])
    # The discriminator has the easier game at first.
    assert_falls([d for d, _ in losses])
    assert is_png(tmp_path / "digits.png")
    assert set(torch.load(tmp_path / "generator.pt")) >= {"net.0.weight", "net.9.bias"}


def test_vae(tmp_path):
    losses = load("vae").main(["--epochs", "4", "--out", str(tmp_path)])
    assert_falls(losses)
    assert is_png(tmp_path / "vae.png")


def test_ncf():
    argv = ["--users", "120", "--items", "150", "--seen", "20", "--batch", "128", "--epochs", "4"]
    losses, hits = load("ncf").main(argv)
    assert_falls(losses)
    assert hits[-1] > 0.2  # guessing gives 0.1


def test_reinforce():
    lengths = load("reinforce").main(["--rounds", "15"])
    assert mean(lengths[-3:]) > 1.5 * mean(lengths[:3])


def test_cart_pole_falls_as_physics_says():
    """A pole that leans a little is pulled down: the linearised equation of Barto and others."""
    cart_pole = load("reinforce").CartPole
    env = cart_pole(0)
    env.reset()
    env.state = [0.0, 0.0, 0.01, 0.0]
    env.FORCE = 0.0
    env.step(0)
    total, mass, half = 1.1, 0.1, 0.5
    expected = 9.8 * 0.01 / (half * (4 / 3 - mass / total))
    assert env.state[3] / cart_pole.DT == pytest.approx(expected, rel=1e-3)


def test_resnet():
    argv = ["--count", "80", "--classes", "2", "--size", "32", "--width", "8", "--epochs", "3"]
    losses, _ = load("resnet").main([*argv, "--batch", "16", "--rate", "0.05"])
    assert_falls(losses)


def test_resnet_on_pictures_of_the_users(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for name, colour in (("red", (250, 0, 0)), ("blue", (0, 0, 250))):
        (tmp_path / name).mkdir()
        for i in range(10):
            image.new("RGB", (40 + i, 33), colour).save(tmp_path / name / f"{i}.png")
    argv = ["--images", str(tmp_path), "--size", "32", "--width", "4", "--depth", "50"]
    argv += ["--epochs", "6", "--batch", "8", "--rate", "0.01"]
    losses, held_out = load("resnet").main(argv)
    # Twenty pictures and batch norm: single losses jump, the best ones tell.
    assert min(losses[len(losses) // 2 :]) < max(losses[:3])
    assert held_out >= 0.5


def test_resnet_says_what_a_folder_needs(tmp_path):
    with pytest.raises(SystemExit, match="one folder per class"):
        load("resnet").main(["--images", str(tmp_path)])


def test_custom_function():
    losses, accuracy = load("custom_function").main(["--steps", "200", "--batch", "128"])
    assert_falls(losses)
    assert accuracy > 0.6


def test_translate():
    argv = ["--steps", "12", "--width", "32", "--batch", "16"]
    losses, _ = load("translate").main(argv)
    assert_falls(losses)


def test_char_gpt(capsys):
    argv = ["--steps", "20", "--width", "32", "--layers", "1", "--batch", "16", "--sample", "40"]
    losses = load("char_gpt").main(argv)
    assert_falls(losses)
    assert "letters" in capsys.readouterr().out


@pytest.mark.parametrize("workers", ["0", "2"])
def test_custom_dataset(tmp_path, workers):
    argv = ["--folder", str(tmp_path / "signals"), "--count", "90", "--epochs", "4"]
    losses, _ = load("custom_dataset").main([*argv, "--workers", workers, "--batch", "8"])
    assert_falls(losses)


@pytest.mark.parametrize("way", [[], ["--together"]])
def test_parameter_server(way):
    example = load("parameter_server")
    sys.modules[example.__name__] = example  # functions are sent by name
    losses, accuracy, steps = example.main(["--simulate", "--epochs", "3", *way])
    # Without rounds, how stale the gradients are depends on who comes when.
    assert accuracy > (0.8 if way else 0.5)
    assert 72 <= steps < 144 if way else steps == 144  # who comes first may begin alone
    for of_trainer in losses:
        assert_falls(of_trainer)
