"""Programs that train something, whole: tests plant faults by replacing parts of them."""

BEGIN = """
import rushlight as torch, rushlight.nn as nn, rushlight.nn.functional as F
from rushlight.utils.data import DataLoader, Dataset, TensorDataset
torch.manual_seed(0)
"""

CLASSIFIER = """
X = torch.randn(1024, 20)
Y = X[:, :5].argmax(1)
train, test = TensorDataset(X[:768], Y[:768]), TensorDataset(X[768:], Y[768:])

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(20, 64), nn.Linear(64, 64), nn.Linear(64, 5)
        self.drop = nn.Dropout(0.2)

    def forward(self, x):
        h = F.relu(self.a(x))
        return self.c(self.drop(F.relu(self.b(h))))

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
# prepare
for epoch in range(3):
    model.train()
    for x, y in DataLoader(train, 32, shuffle=True):
        optimizer.zero_grad()
        out = model(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        optimizer.step()
        # after a batch
    model.eval()
    with torch.no_grad():
        hits = sum((model(x).argmax(1) == y).sum().item() for x, y in DataLoader(test, 64))
    # after an epoch
"""

LANGUAGE = """
class GPT(nn.Module):
    def __init__(self, v=50, d=32):
        super().__init__()
        self.e, self.p, self.h = nn.Embedding(v, d), nn.Embedding(64, d), nn.Linear(d, v)
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, ids):
        x = self.e(ids) + self.p(torch.arange(ids.shape[1]))
        B, T, D = x.shape
        q, k, v = (t.view(B, T, 4, D // 4).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.h(x + self.o(y.transpose(1, 2).reshape(B, T, D)))

model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for (ids,) in DataLoader(TensorDataset(torch.randint(0, 50, (512, 17))), 16, shuffle=True):
    optimizer.zero_grad()
    inputs, targets = ids[:, :-1], ids[:, 1:]
    F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten()).backward()
    optimizer.step()
"""

TAGGER = """
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.r = nn.Embedding(40, 24), nn.LSTM(24, 32, batch_first=True)
        self.h = nn.Linear(32, 6)

    def forward(self, ids):
        return self.h(self.r(self.e(ids))[0])

ids = torch.randint(0, 40, (512, 12))
tags = ids % 6
model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for x, y in DataLoader(TensorDataset(ids, tags), 32, shuffle=True):
    optimizer.zero_grad()
    F.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
    optimizer.step()
"""

ATTENTION = """
class Attention(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.i, self.h = nn.Linear(8, d), nn.Linear(d, 4)
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x):
        x = F.relu(self.i(x))
        w = F.softmax(self.q(x) @ self.k(x).transpose(-2, -1) / 32**0.5, dim=-1)
        return self.h((w @ self.v(x)).mean(1))

X = torch.randn(512, 10, 8)
Y = X.mean((1, 2)).gt(0).long() + 2 * X[:, 0, 0].gt(0).long()
model = Attention()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for x, y in DataLoader(TensorDataset(X, Y), 32, shuffle=True):
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
"""

BINARY = """
X = torch.randn(512, 10)
Y = (X[:, 0] > 0).float()
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for x, y in DataLoader(TensorDataset(X, Y), 32, shuffle=True):
    optimizer.zero_grad()
    F.binary_cross_entropy_with_logits(model(x).squeeze(1), y).backward()
    optimizer.step()
"""

STUDENT = """
teacher = nn.Linear(10, 5)
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 5))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for (x,) in DataLoader(TensorDataset(torch.randn(512, 10)), 32, shuffle=True):
    optimizer.zero_grad()
    with torch.no_grad():
        t = F.softmax(teacher(x), dim=1)
    F.kl_div(F.log_softmax(model(x), dim=1), t, reduction="batchmean").backward()
    optimizer.step()
"""

LAYERS = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(16, 16) for _ in range(3)])
        self.scale = nn.Parameter(torch.ones(16))
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        for layer in self.layers:
            x = F.relu(layer(x))
        return self.head(x * self.scale)

X = torch.randn(512, 16)
Y = X[:, :4].argmax(1)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for x, y in DataLoader(TensorDataset(X, Y), 32, shuffle=True):
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
"""

DATA = """
import numpy as np

class Noisy(Dataset):
    def __init__(self):
        self.x, self.y = torch.randn(512, 10), torch.randint(0, 3, (512,))
        self.cache, self.filled = torch.zeros(512, 10), torch.zeros(512)
        self.array = np.random.default_rng(0).standard_normal((512, 10)).astype("f4")

    def __len__(self):
        return 512

    def __getitem__(self, i):
        x = self.x[i]
        x = x + 0.1 * torch.randn(10)
        return x, self.y[i]

data = Noisy()
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(3):
    for x, y in DataLoader(data, 32, shuffle=True):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
"""


def program(text, *changes):
    """The whole text of a program in which parts, given with what replaces them, are changed."""
    for before, after in changes:
        assert before in text, before
        text = text.replace(before, after)
    return BEGIN + text


def scheduled(what, where):
    """The classifier with a scheduler that steps where a comment stands."""
    made = f"scheduler = torch.optim.lr_scheduler.{what}"
    return program(CLASSIFIER, ("# prepare", made), (where, "scheduler.step()"))
