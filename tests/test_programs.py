"""Models as Python programs: custom layers, two models at once, pdb, print, matplotlib.

Programs of the shape of the PyTorch paper's Listings 1 and 2, and the tools of section 4.1.
"""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import rushlight as torch
from rushlight import nn, optim

ROOT = Path(__file__).resolve().parent.parent


# --- a layer of one's own inside a model -------------------------------------------------------


class Affine(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.matrix = nn.Parameter(0.1 * torch.randn(inputs, outputs))
        self.offset = nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        return torch.mm(x, self.matrix) + self.offset


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 16, 3)
        self.fc = Affine(16, 4)

    def forward(self, x):
        h = nn.functional.relu(self.conv(x))
        h = nn.functional.dropout(h.mean((2, 3)), 0.1, self.training)
        return nn.functional.softmax(self.fc(h), dim=1)


def corners(n):
    """Images of 8x8 with one bright corner; the label says which."""
    labels = torch.arange(n) % 4
    images = 0.1 * torch.randn(n, 1, 8, 8)
    for i, label in enumerate(labels.tolist()):
        top, left = (label // 2) * 5, (label % 2) * 5
        images[i, 0, top : top + 3, left : left + 3] += 1 + label
    return images, labels


def test_a_custom_layer_in_a_classifier_learns():
    model = Classifier()
    names = [name for name, _ in model.named_parameters()]
    assert names == ["conv.weight", "conv.bias", "fc.matrix", "fc.offset"]
    images, labels = corners(64)
    probabilities = model(images)
    assert probabilities.shape == (64, 4)
    assert torch.allclose(probabilities.sum(1), torch.ones(64))
    optimizer = optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = nn.functional.nll_loss(model(images).log(), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.6 * losses[0]
    assert repr(model).splitlines()[2] == "  (fc): Affine()"


def test_softmax_without_dim_warns_as_in_2019_and_gives_the_last_of_two():
    x = torch.randn(3, 4)
    with pytest.warns(UserWarning, match="dim"):
        y = nn.functional.softmax(x)
    assert torch.equal(y, x.softmax(1))


# --- two models, two optimisers, one graph cut by detach ---------------------------------------


def test_an_adversarial_step_moves_what_it_should():
    generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
    discriminator = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    loss = nn.BCEWithLogitsLoss()
    optim_g = optim.Adam(generator.parameters(), lr=5e-3)
    optim_d = optim.Adam(discriminator.parameters(), lr=5e-3)
    real_label, fake_label = torch.ones(32, 1), torch.zeros(32, 1)

    def step(real):
        optim_d.zero_grad()
        loss(discriminator(real), real_label).backward()
        fake = generator(torch.randn(32, 4))
        loss(discriminator(fake.detach()), fake_label).backward()
        assert all(p.grad is None for p in generator.parameters()) or moved
        optim_d.step()
        optim_g.zero_grad()
        loss(discriminator(fake), real_label).backward()
        optim_g.step()
        return fake

    moved = False
    centre = torch.tensor([3.0, -2.0])
    first = step(centre + 0.1 * torch.randn(32, 2))
    moved = True
    assert all(p.grad is not None for p in generator.parameters())
    for _ in range(400):
        last = step(centre + 0.1 * torch.randn(32, 2))

    def distance(points):
        return (points.detach().mean(0) - centre).norm().item()

    assert distance(last) < 0.5 * distance(first)


def test_gradients_of_two_losses_add_up_as_separate_backwards_do():
    d = nn.Linear(3, 1)
    a, b = torch.randn(5, 3), torch.randn(5, 3)
    d(a).sum().backward()
    d(b).square().sum().backward()
    separate = d.weight.grad.clone()
    d.zero_grad()
    (d(a).sum() + d(b).square().sum()).backward()
    assert torch.allclose(separate, d.weight.grad)


# --- pdb, print -------------------------------------------------------------------------------


def run(program, stdin="", *options):
    """A program in a process of its own; returns what it printed."""
    command = [sys.executable, *options, "-c", textwrap.dedent(program)]
    out = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120)
    assert out.returncode == 0, out.stdout + out.stderr
    return out.stdout


def test_pdb_inside_a_forward():
    program = """
        import rushlight as torch
        from rushlight import nn

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(3, 2)

            def forward(self, x):
                hidden = self.fc(x)
                breakpoint()
                return hidden.relu()

        y = Net()(torch.ones(4, 3))
        y.sum().backward()
        print("done", tuple(y.shape), y.max().item())
    """
    commands = [
        "p hidden.shape",
        "p hidden.grad_fn is not None",
        "p float((hidden - self.fc(x)).abs().max())",
        "hidden.data.fill_(5)",  # the program goes on with what the debugger wrote
        "up",  # to the line that called the module: no frames of the library lie between
        "p Net.__name__, 'y' in locals()",
        "down",
        "n",
        "c",
    ]
    out = run(program, "\n".join(commands) + "\n")
    assert "torch.Size([4, 2])" in out or "Size([4, 2])" in out
    assert "(Pdb) True" in out and "(Pdb) 0.0" in out
    assert "('Net', False)" in out and "done (4, 2) 5.0" in out


def test_pdb_inside_a_backward():
    program = """
        import pdb
        import rushlight as torch

        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return 2 * x

            @staticmethod
            def backward(ctx, grad):
                (x,) = ctx.saved_tensors
                pdb.set_trace()
                return 2 * grad

        x = torch.arange(3.0).requires_grad_()
        (Double.apply(x) * torch.tensor([1.0, 10.0, 100.0])).sum().backward()
        print("gradient", x.grad.tolist())
    """
    commands = ["p grad.tolist()", "p x.tolist()", "w", "grad = grad + 1", "c"]
    out = run(program, "\n".join(commands) + "\n")
    assert "[1.0, 10.0, 100.0]" in out and "[0.0, 1.0, 2.0]" in out
    assert "gradient [4.0, 22.0, 202.0]" in out
    assert "backward()" in out.partition("(Pdb) [0.0, 1.0, 2.0]")[2]  # the frames that `w` shows


def test_quitting_pdb_in_a_backward_ends_the_program_as_quitting_does():
    program = """
        import bdb, pdb
        import rushlight as torch

        x = torch.ones(3, requires_grad=True)
        y = x * 2
        y.register_hook(lambda g: pdb.set_trace())
        try:
            y.sum().backward()
        except bdb.BdbQuit:
            print("quit")
        x.grad = None
        (x * 3).sum().backward()  # the library is still in order
        print(x.grad.tolist())
    """
    out = run(program, "q\n")
    assert "quit" in out and "[3.0, 3.0, 3.0]" in out


def test_print_of_intermediates():
    program = """
        import rushlight as torch
        from rushlight import nn

        class Net(nn.Module):
            def forward(self, x):
                h = x * 2
                print("h is", h)
                print(f"mean {h.mean():.2f}, shape {h.shape}, {h[0, 1]}")
                return h.sum()

        x = torch.arange(4.0).reshape(2, 2).requires_grad_()
        loss = Net()(x)
        x.register_hook(lambda g: print("gradient", g))
        loss.backward()
    """
    out = run(program)
    assert "h is tensor([[0., 2.],\n        [4., 6.]], grad_fn=<MulBackward0>)" in out
    assert "mean 3.00" in out and "Size([2, 2]), 2.0" in out
    assert "gradient tensor([[2., 2.],\n        [2., 2.]])" in out


def test_an_exception_in_a_forward_can_be_examined_after_the_fact():
    program = """
        import pdb, sys
        import rushlight as torch
        from rushlight import nn

        net = nn.Sequential(nn.Linear(3, 4), nn.Linear(5, 2))
        try:
            net(torch.ones(2, 3))
        except RuntimeError:
            pdb.post_mortem(sys.exc_info()[2])
    """
    out = run(program, "p input.shape\nq\n")
    assert "Size([2, 4])" in out


# --- matplotlib -------------------------------------------------------------------------------


@pytest.fixture
def plt():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    yield plt
    plt.close("all")


def test_matplotlib_takes_tensors_as_they_are(plt, tmp_path):
    x = torch.linspace(0, 1, 50)
    weights = torch.rand(50)
    figure, axes = plt.subplots(2, 3)
    (line,) = axes[0, 0].plot(x, x**2)
    assert line.get_ydata().tolist() == pytest.approx((x**2).tolist())
    points = axes[0, 1].scatter(x, x.sqrt(), c=weights, s=20 * weights)
    assert len(points.get_offsets()) == 50
    image = axes[0, 2].imshow(torch.rand(8, 8))
    assert image.get_array().shape == (8, 8)
    counts, _, _ = axes[1, 0].hist(torch.randn(1000), bins=20)
    assert counts.sum() == 1000
    axes[1, 1].bar(torch.arange(5), torch.rand(5))
    axes[1, 2].imshow(torch.rand(3, 8, 8).permute(1, 2, 0))
    axes[1, 2].fill_between(x, x, x + 1)
    axes[1, 1].errorbar(torch.arange(5), torch.rand(5), yerr=torch.rand(5))
    figure.savefig(tmp_path / "tensors.png")
    assert (tmp_path / "tensors.png").stat().st_size > 1000


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "uint8", "bool"])
def test_matplotlib_takes_dtypes(plt, dtype):
    x = torch.arange(6).to(getattr(torch, dtype))
    (line,) = plt.plot(x)
    assert line.get_ydata().tolist() == pytest.approx(x.tolist())


def test_matplotlib_says_what_to_do_about_gradients(plt):
    x = torch.linspace(0, 1, 5).requires_grad_()
    with pytest.raises(RuntimeError, match="detach"):
        plt.plot(x)
    (line,) = plt.plot(x.detach())
    assert len(line.get_ydata()) == 5


# --- what a model is, and where it fails -------------------------------------------------------


class Encoder(nn.Module):
    def __init__(self, broken):
        super().__init__()
        self.fc = nn.Linear(5 if broken else 8, 8)

    def forward(self, x):
        return x + self.fc(x)


class Deep(nn.Module):
    def __init__(self, broken=True):
        super().__init__()
        self.encoder = nn.ModuleList(Encoder(broken and i == 3) for i in range(5))
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        for layer in self.encoder:
            x = layer(x)
        return self.head(x)


def test_a_failing_op_names_its_module():
    with pytest.raises(RuntimeError) as info:
        Deep()(torch.ones(2, 8))
    text = str(info.value)
    assert "encoder.3.fc (Linear) of Deep" in text
    assert "[2, 8]" in text and "5" in text.split("\n")[0]
    assert isinstance(info.value, ValueError)  # a ShapeError is both


def test_summary_counts_what_is_there(capsys):
    table = Deep(broken=False).summary(torch.ones(2, 8))
    printed = capsys.readouterr().out
    assert str(table).strip() == printed.strip()
    lines = printed.splitlines()
    assert any("3: Encoder" in line for line in lines)
    assert f"parameters: {5 * 72 + 18:,}" in printed
    assert f"multiply-adds: {2 * (5 * 64 + 16):,}" in printed
