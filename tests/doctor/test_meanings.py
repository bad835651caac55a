"""Faults of what a program means: where values come from and go to. Each is planted in a program
that trains well without it."""

import pytest
from training import (
    ATTENTION,
    BINARY,
    CLASSIFIER,
    DATA,
    LANGUAGE,
    LAYERS,
    STUDENT,
    TAGGER,
    program,
    scheduled,
)

from rushlight import doctor

BATCH, EPOCH = "# after a batch", "# after an epoch"
LOSS = "loss = F.cross_entropy(out, y)"

# The program, words of the finding's title, words of the line that it names.
FAULTS = {
    "targets that are not shifted": (
        program(LANGUAGE, ("ids[:, :-1], ids[:, 1:]", "ids, ids")), "from itself", "cross_entropy"),
    "no eval()": (
        program(CLASSIFIER, ("    model.eval()\n", ""), ("    model.train()\n", "")),
        "evaluated in training mode", "no_grad"),
    "a loss divided by the batch": (
        program(CLASSIFIER, (LOSS, f"{LOSS} / len(x)")), "twice", "cross_entropy"),
    "a cosine of epochs by batches": (
        scheduled("CosineAnnealingLR(optimizer, 3)", BATCH), "within an epoch", "step"),
    "a decay of epochs by batches": (
        scheduled("ExponentialLR(optimizer, 0.7)", BATCH), "within an epoch", "step"),
    "milestones of epochs by batches": (
        scheduled("MultiStepLR(optimizer, [5, 8])", BATCH), "within an epoch", "step"),
    "data changed in place": (
        program(DATA, ("x = x + 0.1 *", "x += 0.1 *")), "changes it", "DataLoader"),
    "an array changed in place": (
        program(DATA, ("self.x[i]\n", "torch.from_numpy(self.array[i])\n"),
                ("x = x + 0.1 *", "x += 0.1 *")), "changes it", "DataLoader"),
    "attention over queries": (
        program(ATTENTION, ("dim=-1)", "dim=-2)")), "another dim", "w @ self.v"),
    "an LSTM that takes samples for times": (
        program(TAGGER, (", batch_first=True", "")), "are mixed", "cross_entropy"),
    "a view in place of a transpose": (
        program(ATTENTION, ("F.relu(self.i(x))\n", "F.relu(self.i(x))\n        x = x.view("
                            "x.shape[1], x.shape[0], -1).transpose(0, 1)\n")),
        "are mixed", "cross_entropy"),
    "targets of -1 and 1": (
        program(BINARY, ("(X[:, 0] > 0).float()", "X[:, 0].sign()")), "no probabilities",
        "binary_cross"),
    "kl_div of probabilities": (
        program(STUDENT, ("F.log_softmax", "F.softmax")), "expects their logarithms", "kl_div"),
    "nll_loss of scores": (
        program(CLASSIFIER, ("F.cross_entropy", "F.nll_loss")), "is given scores", "nll_loss"),
    "a ReLU too many": (
        program(CLASSIFIER, ("out = model(x)", "out = F.relu(model(x))")), "cut at zero",
        "cross_entropy"),
    "layers in a list": (
        program(LAYERS, ("nn.ModuleList(", "list(")), "6 tensors get gradients", "step"),
    "a tensor for a parameter": (
        program(LAYERS, ("nn.Parameter(torch.ones(16))", "torch.ones(16, requires_grad=True)")),
        "1 tensors get gradients", "step"),
    "no step": (
        program(CLASSIFIER, ("        optimizer.step()\n", "")), "takes a step", "SGD"),
    "data in the order of its labels": (
        program(CLASSIFIER, ("train, test", "Y, order = Y.sort()\nX = X[order]\ntrain, test"),
                ("DataLoader(train, 32, shuffle=True)", "DataLoader(train, 48)")),
        "order of its labels", "DataLoader"),
    "clipped to nothing": (
        program(CLASSIFIER, ("loss.backward()", "loss.backward()\n        nn.utils."
                             "clip_grad_norm_(model.parameters(), 1e-9)")),
        "leaves nothing", "clip_grad_norm_"),
    "dropout as a function": (
        program(CLASSIFIER, ("self.drop(F.relu(self.b(h)))", "F.dropout(F.relu(self.b(h)), 0.2)")),
        "ask for the mode", "F.dropout"),
    "dropout of nearly all as a function": (
        program(CLASSIFIER, ("F.relu(self.a(x))",
                             "F.dropout(F.relu(self.a(x)), 0.95, self.training)")),
        "drops 95%", "F.dropout"),
    "labels smoothed away": (
        program(CLASSIFIER, (LOSS, LOSS.replace("y)", "y, label_smoothing=0.9)"))),
        "smoothed by 0.9", "cross_entropy"),
    "betas in the wrong order": (
        program(CLASSIFIER, ("SGD(model.parameters(), lr=0.05, momentum=0.9)",
                             "Adam(model.parameters(), lr=1e-3, betas=(0.999, 0.9))")),
        "are swapped", "step"),
    "weights loaded in the loop": (
        program(CLASSIFIER, ("# prepare", "start = {k: v.clone() for k, v in "
                             "model.state_dict().items()}"),
                ("out = model(x)", "model.load_state_dict(start)\n        out = model(x)")),
        "are undone", "step"),
    "one of two graphs that is kept": (
        program(CLASSIFIER, ("loss.backward()", "F.mse_loss(model.a(x), torch.zeros(32, 64))."
                             "backward(retain_graph=True)\n        loss.backward()")),
        "keeps its graph", "retain_graph"),
    "one of two models whose graphs are kept": (
        program(CLASSIFIER, ("# prepare", "other = nn.Linear(20, 5)\n"
                             "second = torch.optim.SGD(other.parameters(), lr=0.01)"),
                ("loss.backward()", "second.zero_grad()\n        F.cross_entropy(other(x), y)."
                 "backward(retain_graph=True)\n        second.step()\n        loss.backward()")),
        "keeps its graph", "retain_graph"),
    "a head made after the optimiser": (
        program(CLASSIFIER, ("# prepare", "model.c = nn.Linear(64, 5)")), "no optimiser has them",
        "step"),
    "a model made after the optimiser": (
        program(CLASSIFIER, ("# prepare", "model = Net()")), "steps without gradients", "step"),
}  # fmt: skip

CONTRASTIVE = """
f = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 16))
optimizer = torch.optim.Adam(f.parameters(), lr=1e-3)
for (x,) in DataLoader(TensorDataset(torch.randn(512, 10)), 32, shuffle=True):
    optimizer.zero_grad()
    views = [f(x + 0.1 * torch.randn_like(x)) for _ in range(2)]
    z = F.normalize(torch.cat(views), dim=1)
    s = (z @ z.T / 0.5)[~torch.eye(64, dtype=torch.bool)].view(64, 63)
    F.cross_entropy(s, torch.cat([torch.arange(32) + 31, torch.arange(32)])).backward()
    optimizer.step()
"""
# A softmax over clusters, whose weights are summed over places.
CLUSTERS = program(ATTENTION, (
    "w = F.softmax(self.q(x) @ self.k(x).transpose(-2, -1) / 32**0.5, dim=-1)",
    "w = F.softmax((self.q(x) + self.k(x)).transpose(1, 2), dim=1)"))  # fmt: skip
POOLED = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 10, 1)

    def forward(self, x):
        return F.relu(self.b(F.relu(self.a(x)))).mean((2, 3))

model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
data = TensorDataset(torch.randn(512, 3, 12, 12), torch.randint(0, 10, (512,)))
for x, y in DataLoader(data, 16, shuffle=True):
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
"""
# Lengths come in order, labels do not.
BY_LENGTH = """
rows = sorted((n % 13 + 2, n % 3) for n in range(512))

def collate(rows):
    lengths, y = torch.tensor(rows).T
    return torch.randn(len(rows), int(lengths.max()), 4), lengths.clone(), y.clone()

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.r, self.h = nn.GRU(4, 16, batch_first=True), nn.Linear(16, 3)

    def forward(self, x, lengths):
        pack = nn.utils.rnn.pack_padded_sequence
        return self.h(self.r(pack(x, lengths, True, enforce_sorted=False))[1][0])

model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for x, lengths, y in DataLoader(rows, 32, collate_fn=collate):
    optimizer.zero_grad()
    F.cross_entropy(model(x, lengths), y).backward()
    optimizer.step()
"""
# A tensor that the program moves by hand.
BY_HAND = program(
    CLASSIFIER,
    ("# prepare", "delta = torch.zeros(20, requires_grad=True)"),
    ("model(x)\n        loss", "model(x + delta)\n        loss"),
    (BATCH, "with torch.no_grad():\n            delta += 0.01 * delta.grad.sign()\n"
            "            delta.grad = None"),
)  # fmt: skip
EQUATION = """
model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
x = torch.linspace(0, 1, 64).unsqueeze(1).requires_grad_()
for _ in range(20):
    optimizer.zero_grad()
    u = model(x)
    (du,) = torch.autograd.grad(u.sum(), x, create_graph=True)
    (F.mse_loss(du, torch.cos(x)) + u[0, 0] ** 2).backward()
    optimizer.step()
"""

# Without a fault, and near to one.
CLEAN = {
    "classifier": program(CLASSIFIER), "language": program(LANGUAGE), "tagger": program(TAGGER),
    "attention": program(ATTENTION), "binary": program(BINARY), "student": program(STUDENT),
    "a graph that two losses share": program(
        CLASSIFIER, ("loss.backward()", "loss.backward(retain_graph=True)\n"
                     "        (0.01 * F.mse_loss(out, torch.zeros_like(out))).backward()")),
    "a dropout that asks": program(
        CLASSIFIER, ("self.drop(F.relu(self.b(h)))",
                     "F.dropout(F.relu(self.b(h)), 0.2, training=self.training)")),
    "clipped gradients": program(
        CLASSIFIER, ("loss.backward()", "loss.backward()\n        nn.utils."
                     "clip_grad_norm_(model.parameters(), 0.1)")),
    "layers": program(LAYERS), "data": program(DATA), "contrastive": program(CONTRASTIVE),
    "clusters": CLUSTERS, "pooled scores": program(POOLED), "by length": program(BY_LENGTH),
    "by hand": BY_HAND, "an equation": program(EQUATION),
    "a cosine by epochs": scheduled("CosineAnnealingLR(optimizer, 3)", EPOCH),
    "a cosine of batches": scheduled("CosineAnnealingLR(optimizer, 72)", BATCH),
    "a decay of batches": scheduled("ExponentialLR(optimizer, 0.999)", BATCH),
    "some batches of an epoch": program(
        CLASSIFIER, ("# prepare", "s = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 11)"),
        (BATCH, "s.step()\n        if s.last_epoch == 11:\n            break")),
    "accumulated gradients": program(
        CLASSIFIER, ("        optimizer.zero_grad()\n", ""), (LOSS, f"{LOSS} / 4"),
        ("# prepare", "count = 0"),
        ("        optimizer.step()\n", "        count += 1\n        if count % 4 == 0:\n"
         "            optimizer.step()\n            optimizer.zero_grad()\n")),
    "samples mixed on purpose": program(
        CLASSIFIER, ("h = F.relu(self.a(x))", "h = F.relu(self.a(x))\n"
                     "        h = 0.9 * h + 0.1 * h[torch.randperm(len(h))]")),
    "a batch norm": program(CLASSIFIER, ("nn.Dropout(0.2)", "nn.BatchNorm1d(64)")),
    "times first": program(
        TAGGER, (", batch_first=True", ""), ("model(x).f", "model(x.T).f"), ("y.f", "y.T.f")),
    "shifted inside": program(
        LANGUAGE, ("ids[:, :-1], ids[:, 1:]", "ids, ids"),
        ("x = self.e(ids) +", "x = self.e(ids)\n        x = torch.cat([torch.zeros_like("
         "x[:, :1]), x[:, :-1]], 1) +")),
    "a tagger that copies": program(  # it sees both sides, as an autoencoder does
        TAGGER, ("batch_first=True", "batch_first=True, bidirectional=True"),
        ("nn.Linear(32, 6)", "nn.Linear(64, 40)"), ("tags = ids % 6", "tags = ids")),
    "a cache that fills": program(
        DATA, ("x = self.x[i]\n", "self.cache[i], self.filled[i] = self.x[i] * 2, 1\n"
               "        x = self.cache[i]\n")),
    "adversarial inputs": program(
        CLASSIFIER, ("out = model(x)", "x = x.clone().requires_grad_()\n"
        "        (g,) = torch.autograd.grad(F.cross_entropy(model(x), y), x)\n"
        "        out = model((x + 0.01 * g.sign()).detach())")),
    "an evaluation of sorted data first": program(
        CLASSIFIER, ("# prepare", "for x, y in DataLoader(TensorDataset(X, Y.sort()[0]), 64):\n"
        "    with torch.no_grad():\n        F.cross_entropy(model(x), y)")),
}  # fmt: skip


@pytest.fixture
def examined(tmp_path):
    def examine(text):
        script = tmp_path / "train.py"
        script.write_text(text)
        return doctor.examine(script)

    return examine


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(name, examined):
    text, words, at = FAULTS[name]
    found = examined(text)
    assert found.error is None, found.error
    finding = next((f for f in found.findings if words in f.title), None)
    assert finding is not None, str(found)
    number = int(finding.line.partition("(")[2].partition(")")[0])
    assert at in text.splitlines()[number - 1], finding


@pytest.mark.parametrize("name", CLEAN)
def test_nothing_is_found_without_one(name, examined):
    found = examined(CLEAN[name])
    # On a machine that is busy with other programs, what takes time may really take too much.
    of_times = ("The loop waits", "Python runs", "Copies", "Ops in float64")
    wrong = [f for f in found.findings if found.busy < 0.1 or not f.title.startswith(of_times)]
    assert found.error is None and wrong == [] and found.steps == 10, str(found)
